"""Compiles a plan of the reference model into a scenario that runs it, triggered by state.

Each stage of the plan that comes to rest becomes a `none` fault that begins when the cluster
shows the state that the model foresees (`rest-N`), each stage in which records are acked another
one that waits for some (`acked-N`). So every stage has its place in the run's fault windows, and
what is sent between two windows can be held against what the model says of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ackproof.kafka_versions import uses_zookeeper
from ackproof.planning.question import Timers, timers
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_model.planning import (
    HEALS,
    PROCESS_STOPS,
    Operation,
    OperationKind,
    Plan,
    Stage,
)

#: A timer has fired after so many times its length: a follower's lag is looked at twice in it.
_CERTAINLY = 1.6
#: What a broker does beside, in seconds.
_MARGIN_S = 3.0

#: What a broker logs last when it has started.
_STARTED = "Kafka Server started"
_STARTED_WITH_ZOOKEEPER = "[KafkaServer id={broker}] started"

#: So many times as many records are sent in a stage that no timer will end.
_PATIENCE = 5
#: A schedule ends when its last state has come; this only bounds one that never does.
_LONG_S = 900
_TAIL = 200

Step = dict[str, Any]
Document = dict[str, Any]


class Phase(BaseModel):
    """Records that are sent and acked between two faults are all `lost`, or all `kept`.

    `after` and `until` are ids of faults, '' for the start of the run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: str
    until: str
    fate: str


def compiled(scenario: Scenario, plan: Plan, *, name: str, records: int) -> Document:
    """Return the scenario file that carries out a plan on `scenario`'s cluster.

    Its topic has one partition, with the preferred leader first. Where records are acked, the
    schedule waits for `records` of them.
    """
    document = scenario.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"matrix", "blast_radius"}
    )
    workload = document["workload"]
    workload |= {"seconds": _LONG_S, "records": int(max(scenario.workload.rate, 1) * _LONG_S)}
    workload["tail"] = min(scenario.workload.tail, _TAIL)
    topic = {"assignment": [brokers_of(scenario)], "settings": dict(scenario.topic.settings)}
    return {
        **document,
        "name": name,
        "kafka": scenario.kafka,
        "description": " ".join(story(plan, scenario)),
        "topics": {scenario.workload.topic: topic},
        "faults": list(_steps(scenario, plan, records)),
        "expect": {"loss": "some" if plan.lost else "none"},
    }


def write(document: Document, path: Path) -> None:
    """Write a scenario file, and check that it is one."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 100
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)
    load(path)


def phases(plan: Plan) -> list[Phase]:
    """Return what the model says of the records of each stage."""
    found = []
    for number, stage in enumerate(plan.stages):
        fate = plan.fate(stage)
        if fate != "none":
            begun = _begun(stage, number) if number else ""
            found.append(Phase(after=begun, until=f"acked-{number}", fate=fate))
    return found


def brokers_of(scenario: Scenario) -> list[int]:
    """Return the brokers of the model's replicas, in assignment order."""
    if scenario.topic.assignment:
        return list(scenario.topic.assignment[0])
    return list(range(1, scenario.topic.replication_factor + 1))


def story(plan: Plan, scenario: Scenario) -> Iterator[str]:
    """Yield a sentence for each operation, with the brokers' ids."""
    brokers = brokers_of(scenario)
    told = {
        OperationKind.KILL: "Broker {} is killed.",
        OperationKind.LOSE_POWER: "Broker {} loses power, and what it had not fsynced.",
        OperationKind.STOP: "Broker {} shuts down.",
        OperationKind.LAG: "Broker {} is cut off from the other brokers.",
        OperationKind.WITHHOLD: "The others cannot fetch from broker {}.",
        OperationKind.CUT_OFF: "Broker {} is cut off from the controllers.",
        OperationKind.START: "Broker {} is started.",
        OperationKind.JOIN: "Broker {} is joined to the others again.",
    }
    for number, stage in enumerate(plan.stages):
        controller = stage.plan_state.state.partition.controller
        isr = ", ".join(str(brokers[r]) for r in range(len(brokers)) if controller.isr >> r & 1)
        leads = f"broker {brokers[controller.leader]}" if controller.leader >= 0 else "nobody"
        what = (
            "All is well."
            if stage.operation is None
            else told[stage.operation.kind].format(brokers[stage.operation.broker])
        )
        fate = {
            "none": "nothing is acked",
            "lost": "what is acked now will be lost",
            "kept": "what is acked now is kept",
        }[plan.fate(stage)]
        yield f"{number}. {what} Leader: {leads}, ISR {{{isr}}}; {fate}."


def _steps(scenario: Scenario, plan: Plan, records: int) -> Iterator[Step]:
    brokers, limits = brokers_of(scenario), timers(scenario)
    for number, stage in enumerate(plan.stages):
        operation = stage.operation
        if operation is not None and operation.kind not in HEALS:
            step = _fault(operation, brokers)
            step["id"] = f"step-{number}"
            if (end := _ended_by(plan.stages, number)) is not None:
                step["heal_when"] = [f"{_over(plan, end - 1)} began"]
            yield step
        if operation is not None and operation.settled:
            wanted = _at_rest(scenario, plan.stages[number - 1], stage, limits)
            yield {"fault": "none", "id": f"rest-{number}", "when": wanted}
        if plan.fate(stage) != "none":
            # What waited while there was no leader is acked first.
            sent = records * _PATIENCE if stage.settled else records
            told = [f"{sent} more sent", f"{records} more acked"]
            yield {"fault": "none", "id": f"acked-{number}", "when": told}


def _begun(stage: Stage, number: int) -> str:
    """Return the fault whose verification begins a stage."""
    settled = stage.operation is not None and stage.operation.settled
    return f"rest-{number}" if settled else f"step-{number}"


def _over(plan: Plan, number: int) -> str:
    """Return the last fault of a stage."""
    stage = plan.stages[number]
    return f"acked-{number}" if plan.fate(stage) != "none" else _begun(stage, number)


def _fault(operation: Operation, brokers: Sequence[int]) -> Step:
    kinds: dict[OperationKind, Step] = {
        OperationKind.KILL: {"fault": "kill"},
        OperationKind.LOSE_POWER: {"fault": "power_loss"},
        OperationKind.STOP: {"fault": "restart"},
        OperationKind.LAG: {"fault": "partition", "peers": "brokers", "listener": "INTERNAL"},
        OperationKind.WITHHOLD: {"fault": "isolate_replication"},
        OperationKind.CUT_OFF: {"fault": "partition", "peers": "controllers"},
    }
    return {**kinds[operation.kind], "target": brokers[operation.broker]}


def _ended_by(stages: Sequence[Stage], number: int) -> int | None:
    """Return which later stage's operation ends this one's, None for none."""
    begun = stages[number].operation
    for later in range(number + 1, len(stages)):
        ends = stages[later].operation
        if begun is None or ends is None or ends.broker != begun.broker:
            continue
        if (
            ends.kind is OperationKind.START and begun.kind in PROCESS_STOPS
        ) or ends.ends is begun.kind:
            return later
    return None


def _at_rest(scenario: Scenario, before: Stage, after: Stage, limits: Timers) -> list[str]:
    """Return what the cluster shows when a stage has come to rest.

    Who is asked are living brokers that hear the controller; where they show nothing new, a
    broker's log tells that it has started, and time that timers have fired.
    """
    operation = after.operation
    brokers, place = brokers_of(scenario), f"{scenario.workload.topic}-0"
    told = _shown(after, brokers, place)
    if told and told != _shown(before, brokers, place):
        return told
    if operation is not None and operation.kind is OperationKind.START:
        broker = brokers[operation.broker]
        line = _STARTED_WITH_ZOOKEEPER if uses_zookeeper(scenario.kafka) else _STARTED
        return [f"log of broker {broker} says '{line.format(broker=broker)}'"]
    lagging = operation is not None and operation.kind in (
        OperationKind.LAG,
        OperationKind.WITHHOLD,
    )
    timer = limits.lag if lagging else limits.session
    return [f"after {timer * _CERTAINLY + _MARGIN_S:g}s"]


def _shown(stage: Stage, brokers: Sequence[int], place: str) -> list[str]:
    """Return the conditions that the partition's state meets; none if nobody could tell."""
    scene = stage.plan_state
    controller = scene.state.partition.controller
    can_tell = [
        number
        for number, replica in enumerate(scene.state.replicas)
        if replica.alive and not scene.held(OperationKind.CUT_OFF, number)
    ]
    if not can_tell:
        return []
    leader = "none" if controller.leader < 0 else brokers[controller.leader]
    isr = sorted(broker for number, broker in enumerate(brokers) if controller.isr >> number & 1)
    members = "{" + ", ".join(map(str, isr)) + "}"
    return [
        f"leader of {place} == {leader}",
        f"isr of {place} is {members}" if isr else f"isr of {place} == 0",
    ]
