"""Compiles a plan of the reference model into a scenario whose faults trigger on state.

Each stage of the plan that settles becomes a fault `none` that begins when the cluster is in the
predicted state (`rest-N`). Each stage in which records are acked becomes another `none` that waits
for some acks (`acked-N`). So every stage has a fault window in the run, and the records sent
between two windows can be compared with the prediction for that stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from ackproof.cluster.times import RECOVERY_S, ZOOKEEPER_TICK_MS
from ackproof.errors import DiskError
from ackproof.kafka_versions import uses_zookeeper
from ackproof.planning.search import SearchResult, timers
from ackproof.scenario.loader import load
from ackproof.scenario.model import Expectation, Scenario
from ackproof_model.kafka_settings import REQUEST_TIMEOUT_MS
from ackproof_model.planning import (
    CLIENT_HOLDS,
    HEALS,
    PROCESS_STOPS,
    REQUESTS,
    Operation,
    OperationKind,
    Plan,
    Stage,
    held_requests,
)
from ackproof_model.replication.controller import preferred
from ackproof_model.replication.state import Controller

#: A timer has certainly fired after 1.6 times its length: brokers check lag at half that interval.
_TIMER_FACTOR = 1.6
#: Added to a timer for other work of a broker, seconds.
_MARGIN_S = 3.0

#: The last line that a broker logs when it starts.
_STARTED = "Kafka Server started"
_STARTED_WITH_ZOOKEEPER = "[KafkaServer id={broker}] started"

#: In a stage that no timer ends: records to send for each acked record to wait for.
_SENT_PER_ACKED = 5
#: Limit of a schedule that does not reach its last state.
_MAX_SECONDS = 900
#: Of one that goes on without its states: for each fault to begin, and for the cluster to recover.
_FAULT_S = 60.0
_TAIL = 200

#: The listeners whose requests are held if metadata may be late.
_PROXIED = ["INTERNAL", "CONTROLLER"]
#: What another broker fetches is held soon: then nothing is committed for this time.
_HELD = "2s"
#: The first request for another ISR comes after some operations, at the latest.
_REQUESTED = "5m"
#: The first request of a transaction comes with its next record, or its next end, at the latest.
_SENT = "1m"
#: The listener of clients whose requests are held.
_LINK = "LINK"
#: The producer one of whose records is held.
_PRODUCER = "ackproof-producer-0"
#: The brokers' default of `request.timeout.ms`.
_REQUEST_TIMEOUT_MS = 30_000

Step = dict[str, Any]
Document = dict[str, Any]


class Phase(BaseModel):
    """The records sent and acked between two faults, which have the same predicted fate.

    after, until: ids of the faults, '' for the start of the run. fate: `lost`, `some` (at
    least the last, by a race) or `kept`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: str
    until: str
    fate: str


def write_all(
    scenario: Scenario, result: SearchResult, *, name: str, records: int, out: Path
) -> list[tuple[Path, Plan]]:
    """Write the scenario that loses records and its control, or the scenarios without loss.

    In each stage in which records are acked, a schedule waits for `records` of them. Raises
    DiskError if `out` cannot be written.
    """
    named = {f"{name}-loss": result.loss, f"{name}-clean": result.clean}
    named |= {f"{name}-safe-{number}": one for number, one in enumerate(result.lossless, start=1)}
    plans = [(out / f"{own}.yaml", plan) for own, plan in named.items() if plan is not None]
    for path, plan in plans:
        try:
            out.mkdir(parents=True, exist_ok=True)
            write(document(scenario, plan, name=path.stem, records=records), path)
        except OSError as error:
            raise DiskError(
                f"{path} cannot be written: {error}", hint="Name another folder with --to."
            ) from error
    return plans


def client_holds(scenario: Scenario) -> tuple[OperationKind, ...]:
    """Return the operations that hold requests of a scenario's transactions.

    The proxy reads no TLS, and needs controllers of their own.
    """
    held = scenario.workload.transactions is not None and not uses_zookeeper(scenario.kafka)
    return CLIENT_HOLDS if held and scenario.cluster.security.tls == "none" else ()


def document(
    scenario: Scenario, plan: Plan, *, name: str, records: int, patience_s: float | None = None
) -> Document:
    """Return the document of a scenario that runs a plan on `scenario`'s cluster.

    The topic has one partition, with the preferred leader first. patience_s: after this time the
    schedule goes on without the predicted state or acks; None: it waits for them. With patience,
    the workload ends when the cluster has had time to recover, which it may never do.
    """
    result = scenario.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"matrix", "blast_radius"}
    )
    faults = list(_steps(scenario, plan, records, patience_s))
    seconds = _MAX_SECONDS
    if patience_s is not None:
        waits = sum(one["fault"] == "none" for one in faults)
        longest = waits * patience_s + (len(faults) - waits) * _FAULT_S + RECOVERY_S
        seconds = min(seconds, int(longest))
    workload = result["workload"]
    workload |= {"seconds": seconds, "records": int(max(scenario.workload.rate, 1) * seconds)}
    workload["tail"] = min(scenario.workload.tail, _TAIL)
    replicas = brokers_of(scenario)[: scenario.topic.replication_factor]
    topic = {"assignment": [replicas], "settings": dict(scenario.topic.settings)}
    if proxied := _proxied(plan):
        cluster = result.setdefault("cluster", {})
        cluster["proxied"] = proxied
        if _LINK in proxied:
            cluster["listeners"] = [*scenario.cluster.listeners, _LINK]
            workload["listener"] = _LINK
    return {
        **result,
        "name": name,
        "kafka": scenario.kafka,
        "description": " ".join(narrative(plan, scenario)),
        "topics": {scenario.workload.topic: topic},
        "faults": faults,
        "expect": {"loss": expected_loss(plan)},
    }


def _proxied(plan: Plan) -> list[str]:
    """Return the listeners that lead through the proxy."""
    kinds = {one.kind for one in plan.operations}
    between = list(_PROXIED) if plan.model.misses_epochs else []
    if OperationKind.HOLD_MARKERS in kinds and not between:
        between = ["INTERNAL"]
    return [*between, *([] if kinds.isdisjoint(CLIENT_HOLDS) else [_LINK])]


def write(document: Document, path: Path) -> None:
    """Write a scenario's document, and check that it can be loaded."""
    yaml = YAML()
    yaml.width = 100
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)
    load(path)


def phases(plan: Plan) -> list[Phase]:
    """Return the phases of a plan: the stages in which records are acked, with their fate."""
    result = []
    for number, stage in enumerate(plan.stages):
        fate = plan.fate(stage)
        if fate != "none":
            begun = _first_fault(stage, number) if number else ""
            result.append(Phase(after=begun, until=f"acked-{number}", fate=fate))
    return result


def expected_loss(plan: Plan) -> Expectation:
    """Return what a plan's scenario expects of acked records, `any` if a race loses them."""
    if not plan.lost:
        return "none"
    fates = {phase.fate for phase in phases(plan)}
    return "any" if "some" in fates and "lost" not in fates else "some"


def brokers_of(scenario: Scenario) -> list[int]:
    """Return the broker ids of the model's replicas in assignment order, then the other brokers."""
    every, topic = [*range(1, scenario.cluster.brokers + 1)], scenario.topic
    replicas = topic.assignment[0] if topic.assignment else every[: topic.replication_factor]
    return [*replicas, *(broker for broker in every if broker not in replicas)]


def narrative(plan: Plan, scenario: Scenario) -> Iterator[str]:
    """Yield a sentence for each stage: operation, leader and ISR by broker ids, fate of records."""
    brokers = brokers_of(scenario)
    sentences = {
        OperationKind.KILL: "Broker {} is killed.",
        OperationKind.LOSE_POWER: "Broker {} loses power and all data that it had not fsynced.",
        OperationKind.STOP: "Broker {} is shut down cleanly.",
        OperationKind.LAG: "Broker {} is cut off from the other brokers.",
        OperationKind.WITHHOLD: "The other brokers cannot fetch from broker {}.",
        OperationKind.CUT_OFF: "Broker {} is cut off from the controllers.",
        OperationKind.HOLD_FETCHES: "Broker {} cannot fetch.",
        OperationKind.HOLD_METADATA: "Broker {} gets no metadata.",
        OperationKind.HOLD_ISR: "The requests of broker {} for another ISR are held.",
        OperationKind.HOLD_WRITES: "A record to broker {} is held.",
        OperationKind.HOLD_MARKERS: "The end of a transaction is held before broker {}.",
        OperationKind.ELECT: "Broker {} becomes the preferred replica, and is elected.",
        OperationKind.REASSIGN: "The replicas move, broker {} first.",
        OperationKind.CANCEL: "The move of the replicas is cancelled.",
        OperationKind.START: "Broker {} is started.",
        OperationKind.JOIN: "The links of broker {} work again.",
    }
    for number, stage in enumerate(plan.stages):
        controller = stage.plan_state.state.controller
        isr = ", ".join(str(brokers[r]) for r in range(len(brokers)) if controller.isr >> r & 1)
        leader = f"broker {brokers[controller.leader]}" if controller.leader >= 0 else "none"
        operation = (
            "All brokers run."
            if stage.operation is None
            else sentences[stage.operation.kind].format(brokers[stage.operation.broker])
        )
        fate = {
            "none": "nothing is acked",
            "lost": "records acked now will be lost",
            "some": "at least the last of the records acked now may be lost",
            "kept": "records acked now are kept",
        }[plan.fate(stage)]
        yield f"{number}. {operation} Leader: {leader}, ISR {{{isr}}}; {fate}."


def _steps(
    scenario: Scenario, plan: Plan, records: int, patience_s: float | None
) -> Iterator[Step]:
    at_latest = {} if patience_s is None else {"or_after": f"{patience_s:g}s"}
    for number, stage in enumerate(plan.stages):
        operation = stage.operation
        if operation is not None and operation.kind not in HEALS:
            before = plan.stages[number - 1].plan_state.state.controller
            *first, step = _faults(scenario, operation, before, holds=plan.model.misses_epochs)
            yield from first
            step["id"] = f"step-{number}"
            dying = plan.stages[number - 1].plan_state.dying
            if dying and operation.kind in PROCESS_STOPS and uses_zookeeper(scenario.kafka):
                # Sessions that end in one tick are one change for the controller.
                step["when"] = f"after {ZOOKEEPER_TICK_MS // 1000}s"
            if (end := _ended_by(plan.stages, number)) is not None:
                step["heal_when"] = [f"{_last_fault(scenario, plan, end - 1)} began"]
                if patience_s is not None:
                    # A fault that meets nothing is not verified, so what waits for it goes on, too.
                    step["heal_after"] = f"{(end - number) * 2 * patience_s + _FAULT_S:g}s"
            yield step
            if operation.kind in CLIENT_HOLDS and operation.settled:
                yield {**_held_behind(operation, step), "id": f"next-{number}"}
        if operation is not None and operation.settled:
            settled = _settled_conditions(scenario, plan, number)
            yield {"fault": "none", "id": f"rest-{number}", "when": settled, **at_latest}
        elif operation is not None and operation.kind is OperationKind.HOLD_FETCHES:
            stuck = f"hw of {scenario.workload.topic}-0 stuck for {_HELD}"
            yield {"fault": "none", "id": f"held-{number}", "when": stuck, **at_latest}
        if _acks(scenario, plan, number):
            # The sends that waited while there was no leader are acked first.
            sent = records * _SENT_PER_ACKED if stage.settled else records
            progress = [f"{sent} more sent", f"{records} more acked"]
            yield {"fault": "none", "id": f"acked-{number}", "when": progress, **at_latest}


def _first_fault(stage: Stage, number: int) -> str:
    """Return the id of the fault whose verification begins a stage."""
    settled = stage.operation is not None and stage.operation.settled
    return f"rest-{number}" if settled else f"step-{number}"


def _last_fault(scenario: Scenario, plan: Plan, number: int) -> str:
    """Return the id of the last fault of a stage."""
    if _acks(scenario, plan, number):
        return f"acked-{number}"
    return _first_fault(plan.stages[number], number)


def _acks(scenario: Scenario, plan: Plan, number: int) -> bool:
    """Whether records are acked in a stage; not while all producers wait behind a held request."""
    stage = plan.stages[number]
    alone = scenario.workload.producers == 1
    held = any(
        one.settled and (alone or one.kind is OperationKind.HOLD_MARKERS)
        for one in stage.plan_state.in_force
        if one.kind in CLIENT_HOLDS
    )
    return plan.fate(stage) != "none" and not held


def _held_behind(operation: Operation, held: Step) -> Step:
    """Return the fault that holds what comes after a held request, until that has arrived.

    It is the next record of a producer that has given up the first one, or the next end of a
    transaction: so the late end of one transaction meets the records of the next.
    """
    behind = {"fault": "link", "direction": "request", "action": "hold", "within": _SENT}
    if operation.kind is OperationKind.HOLD_WRITES:
        behind |= {"target": held["target"], "api": "Produce", "client": _PRODUCER}
    else:
        behind |= {"target": "all", "api": "EndTxn"}
    begun, arrived = [f"{held['id']} began"], [f"{held['id']} recovered"]
    return {**behind, "when": begun, "or_after": held["within"], "heal_when": arrived}


def _faults(
    scenario: Scenario, operation: Operation, before: Controller, *, holds: bool
) -> list[Step]:
    """Return the faults of an operation. holds: a cut holds requests, at ackproof's proxy."""
    brokers, topic = brokers_of(scenario), scenario.workload.topic
    target = brokers[operation.broker]
    held = {"fault": "link", "api": "Fetch", "direction": "request", "action": "hold"}
    others = [broker for broker in brokers if broker != target]
    fetches = {**held, "target": others, "client": f"broker-{target}-fetcher"}
    to = [brokers[one] for one in operation.to]
    sent = {"fault": "link", "direction": "request", "action": "hold", "count": 1, "within": _SENT}
    kinds: dict[OperationKind, Step] = {
        OperationKind.KILL: {"fault": "kill"},
        OperationKind.LOSE_POWER: {"fault": "power_loss"},
        OperationKind.STOP: {"fault": "restart"},
        OperationKind.LAG: fetches
        if holds
        else {"fault": "partition", "peers": "brokers", "listener": "INTERNAL"},
        OperationKind.WITHHOLD: {**held, "client": "broker-"}
        if holds
        else {"fault": "isolate_replication"},
        OperationKind.CUT_OFF: {"fault": "partition", "peers": "controllers"},
        OperationKind.HOLD_FETCHES: fetches,
        OperationKind.HOLD_METADATA: {
            **held,
            "target": "active controller",
            "client": f"raft-client-{target}",
        },
        OperationKind.HOLD_ISR: {
            **held,
            "api": "AlterPartition",
            "target": "active controller",
            "client": str(target),
            "within": _REQUESTED,
        },
        OperationKind.HOLD_WRITES: {**sent, "api": "Produce", "client": _PRODUCER},
        OperationKind.HOLD_MARKERS: {**sent, "api": "WriteTxnMarkers"},
        OperationKind.ELECT: {"fault": "preferred_election", "topic": topic},
        OperationKind.REASSIGN: {"fault": "reassign", "topic": topic, "to": to},
        OperationKind.CANCEL: {"fault": "reassign", "topic": topic, "cancel": True},
    }
    step = kinds[operation.kind]
    if operation.kind not in REQUESTS:
        return [{"target": target, **step}]
    if operation.kind is OperationKind.ELECT and preferred(before) != operation.broker:
        assert before.assignment is not None
        order = [brokers[one] for one in before.assignment.replicas]
        order.sort(key=lambda broker: broker != target)
        return [{"fault": "reassign", "topic": topic, "to": order}, step]
    return [step]


def _ended_by(stages: Sequence[Stage], number: int) -> int | None:
    """Return the number of the stage whose operation ends this stage's operation, or None.

    What holds a request ends with the schedule at the latest: another fault waits for it.
    """
    begun = stages[number].operation
    for later in range(number + 1, len(stages)):
        ends = stages[later].operation
        if begun is None or ends is None or ends.broker != begun.broker:
            continue
        if (
            ends.kind is OperationKind.START and begun.kind in PROCESS_STOPS
        ) or ends.ends is begun.kind:
            return later
    return len(stages) if begun is not None and begun.kind in CLIENT_HOLDS else None


def _settled_conditions(scenario: Scenario, plan: Plan, number: int) -> list[str]:
    """Return the conditions that hold when a stage has settled.

    They use what is held, or the partition's state on live brokers that reach the controller. If it
    does not change, they use a broker's log for its start, or elapsed time for a timer.
    """
    if held := _held_conditions(scenario, plan, number):
        return held
    before, after = plan.stages[number - 1 : number + 1]
    operation = after.operation
    brokers, partition = brokers_of(scenario), f"{scenario.workload.topic}-0"
    if (witness := _witness(before, after)) is not None:
        epoch = after.plan_state.state.controller.epoch
        return [f"log of broker {brokers[witness]} says 'starts at leader epoch {epoch} '"]
    conditions = _state_conditions(after, brokers, partition)
    if conditions and conditions != _state_conditions(before, brokers, partition):
        return conditions
    if operation is not None and operation.kind is OperationKind.START:
        broker = brokers[operation.broker]
        line = _STARTED_WITH_ZOOKEEPER if uses_zookeeper(scenario.kafka) else _STARTED
        return [f"log of broker {broker} says '{line.format(broker=broker)}'"]
    lagging = operation is not None and operation.kind in (
        OperationKind.LAG,
        OperationKind.WITHHOLD,
    )
    limits = timers(scenario)
    timer = limits.lag if lagging else limits.session
    return [f"after {timer * _TIMER_FACTOR + _MARGIN_S:g}s"]


def _held_conditions(scenario: Scenario, plan: Plan, number: int) -> list[str]:
    """Return the conditions on what is held that hold when a stage has settled, if there are any.

    A coordinator sends the end of a transaction again after its timer, and then the next one
    begins. All transactions wait for their end when nothing has been written for longer.
    """
    stage = plan.stages[number]
    operation = stage.operation
    assert operation is not None
    if operation.kind is OperationKind.ELECT and _late(stage):
        return [f"step-{number} began"]  # the controllers' log has it
    if operation.ends in CLIENT_HOLDS:
        begun = next(one for one in range(number) if _ended_by(plan.stages, one) == number)
        return [f"step-{begun} recovered"]
    if operation.kind is OperationKind.HOLD_WRITES:
        return [f"next-{number} began"]
    if operation.kind is OperationKind.HOLD_MARKERS:
        settings = scenario.cluster.settings
        timer_s = float(settings.get(REQUEST_TIMEOUT_MS, _REQUEST_TIMEOUT_MS)) / 1000
        still = f"hw of {scenario.workload.topic}-0 stuck for {timer_s * _TIMER_FACTOR:g}s"
        return [f"next-{number} began", still]
    met = (hold for hold, one in held_requests(plan.stages).items() if one == number)
    return [f"step-{hold} began" for hold in met]


def _late(stage: Stage) -> bool:
    """Whether some broker's metadata is held, so that it may answer for another one."""
    return any(one.kind is OperationKind.HOLD_METADATA for one in stage.plan_state.in_force)


def _witness(before: Stage, after: Stage) -> int | None:
    """Return a broker that learns of the last leader epoch after an operation, if some are late.

    Then any other broker may be asked for the leader. None if the operation has waited for it.
    """
    operation, now = after.operation, after.plan_state
    assert operation is not None
    if operation.ends is OperationKind.HOLD_METADATA:
        asked = [operation.broker]
    else:
        waits = _late(after) and operation.kind not in REQUESTS
        asked = [*range(len(now.state.brokers))] if waits else []
    epoch = now.state.controller.epoch
    return next(
        (
            one
            for one in asked
            if before.plan_state.state.brokers[one].epoch < epoch == now.state.brokers[one].epoch
        ),
        None,
    )


def _state_conditions(stage: Stage, brokers: Sequence[int], partition: str) -> list[str]:
    """Return the conditions on the partition's state; empty if no broker can report it."""
    scene = stage.plan_state
    controller = scene.state.controller
    informed = [
        number
        for number, replica in enumerate(scene.state.brokers)
        if replica.alive and not scene.is_in_force(OperationKind.CUT_OFF, number)
    ]
    if not informed:
        return []
    leader = "none" if controller.leader < 0 else brokers[controller.leader]
    isr = sorted(broker for number, broker in enumerate(brokers) if controller.isr >> number & 1)
    members = "{" + ", ".join(map(str, isr)) + "}"
    return [
        f"leader of {partition} == {leader}",
        f"isr of {partition} is {members}" if isr else f"isr of {partition} == 0",
    ]
