"""The fault phase of a run: producers send while the schedule injects and heals faults."""

from __future__ import annotations

import time

from ackproof.clients.fault_target import RunClients
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.cluster.any_cluster import RunCluster
from ackproof.execution.run_state import RunState, now
from ackproof.progress import Reporter
from ackproof.scenario.model import Scenario
from ackproof_faults import FaultError, Schedule, ScheduleContext, SendCounts

#: Seconds between two ticks of the schedule, and between two updates of the progress.
_TICK_S = 0.01
_SHOW_S = 0.2


def run_fault_phase(
    scenario: Scenario,
    cluster: RunCluster,
    clients: ClientSupervisor,
    run: RunState,
    reporter: Reporter,
) -> None:
    """Run workload and schedule; return when every fault is healed and every send has an outcome.

    Failures of faults and clients become troubles of the run.
    """

    def sends() -> SendCounts:
        progress = clients.progress()
        return SendCounts(sent=progress.sent, acked=progress.acked)

    cluster.interfaces.offer("clients", RunClients(clients))
    context = ScheduleContext(
        cluster=cluster.interfaces,
        partitions=[
            (name, n)
            for name, topic in scenario.every_topic.items()
            for n in range(topic.partitions)
        ],
        sends=sends,
        clock=now,
        monotonic=time.monotonic,
        seed=scenario.seed,
        blast_radius=scenario.blast_radius,
    )
    run.schedule = schedule = Schedule(scenario.faults, context)
    try:
        with reporter.phase("producing under faults"):
            _drive(schedule, clients, scenario.workload.tail, run, reporter)
    except FaultError as error:
        run.troubles.append(str(error))
    with reporter.phase("healing faults, waiting for the outcomes of sends"):
        run.troubles += unfinished(schedule, scenario)
        clients.stop_producers()
        try:
            schedule.heal_all()
        except FaultError as error:
            run.troubles.append(str(error))
        run.troubles += clients.await_producers()
        run.bottlenecks, run.late = clients.bottlenecks(), clients.late()


def _drive(
    schedule: Schedule,
    clients: ClientSupervisor,
    tail: int,
    run: RunState,
    reporter: Reporter,
) -> None:
    """Tick until producers end, or until `tail` sends are acked after the schedule is done."""
    shown_at = 0.0
    acked_when_done: int | None = None
    while clients.restart_crashed():
        schedule.tick()
        run.write_windows()
        acked = clients.progress().acked
        if acked_when_done is None and schedule.done:
            acked_when_done = acked
        if acked_when_done is not None and acked >= acked_when_done + tail:
            return
        if time.monotonic() - shown_at >= _SHOW_S:
            shown_at = time.monotonic()
            reporter.update(f"{acked:,} acked; waiting for {schedule.waiting_for}")
        time.sleep(_TICK_S)  # the period of a control loop, not a wait for an event


def unfinished(schedule: Schedule, scenario: Scenario) -> list[str]:
    """Return the faults that were not executed, as troubles: the prediction assumes all of them."""
    who, limits = "workload", "workload.records or workload.seconds"
    if scenario.workload.application is not None:
        who, limits = "application", "workload.seconds, if it did not end by itself"
    advice = f"the {who} ended before (raise {limits})"
    # A producer that may stop ends the workload while a fault is in force.
    unended = [] if scenario.workload.may_stop_for else schedule.unended
    return [
        *([f"{schedule.held_back}, until {advice}"] if schedule.held_back else []),
        *(f"{fault} never began ('{fault.when}'): {advice}" for fault in schedule.waiting),
        *(f"{fault} did not end ('{fault.heal_when}'): {advice}" for fault in unended),
    ]
