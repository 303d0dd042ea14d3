"""The fault phase of a run: producers send while the schedule injects and heals faults."""

from __future__ import annotations

import time
from statistics import fmean

from ackproof import machine
from ackproof.clients.fault_target import RunClients
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.cluster.admin import partitions_of
from ackproof.execution.run_state import RunCluster, RunState, now
from ackproof.progress import Reporter
from ackproof.scenario.model import Scenario
from ackproof_faults import FaultError, Schedule, ScheduleContext, SendCounts

#: Seconds between two ticks of the schedule, and between two updates of the progress.
_TICK_S = 0.01
_SHOW_S = 0.2

#: The schedule takes at most this share of a CPU: with 1,000 partitions a look at them takes longer
#: than `_TICK_S`. But it is never late by more than `_LONGEST_S`.
_SHARE = 0.2
_LONGEST_S = 0.25

#: A machine cannot keep up if some process waits for a CPU in this share of the time, and a tick is
#: late by this many seconds on average, over a period of `_WATCHED_S`.
_BUSY, _LATE_S = 0.8, 0.003
_WATCHED_S = 5.0


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
        return SendCounts(sent=progress.sent, acked=progress.acked, acquired=clients.acquired())

    cluster.interfaces.offer("clients", RunClients(clients))
    context = ScheduleContext(
        cluster=cluster.interfaces,
        partitions=partitions_of(scenario.every_topic),
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
        run.schedule_troubles.append(str(error))
    with reporter.phase("healing faults, waiting for the outcomes of sends"):
        run.schedule_troubles += unfinished(schedule, scenario)
        clients.stop_producers()
        try:
            schedule.heal_all()
        except FaultError as error:
            run.schedule_troubles.append(str(error))
        run.schedule_troubles += clients.await_producers()
        run.troubles += clients.other_settings()
        run.bottlenecks, run.late = clients.bottlenecks(), clients.late()


def _drive(
    schedule: Schedule,
    clients: ClientSupervisor,
    tail: int,
    run: RunState,
    reporter: Reporter,
) -> None:
    """Tick until `tail` sends are acked after the schedule is done, or until producers end.

    If producers have sent all records before a fault that waits for the cluster's state, it is
    waited for as long as they might have sent, `workload.seconds`.
    """
    shown_at = 0.0
    load = Load(now=time.monotonic(), waited=machine.cpu_wait_s())
    acked_when_done: int | None = None
    while goes_on(schedule, clients, running=clients.restart_crashed()):
        used = time.thread_time()
        schedule.tick()
        pause_s = pause_after(time.thread_time() - used)
        run.write_windows()
        acked = clients.progress().acked
        if acked_when_done is None and schedule.done:
            acked_when_done = acked
        if acked_when_done is not None and acked >= acked_when_done + tail:
            break
        if time.monotonic() - shown_at >= _SHOW_S:
            shown_at = time.monotonic()
            reporter.update(f"{acked:,} acked; waiting for {schedule.waiting_for}")
        before = time.monotonic()
        time.sleep(pause_s)  # the period of a control loop, not a wait for an event
        after = time.monotonic()
        late = after - before - pause_s
        if strained := load.tick(now=after, waited=machine.cpu_wait_s(), late=late):
            # The verdict does not need what the live view's job counts.
            stopped = run.live is not None and not run.live.job_failed and run.live.stop_job()
            relief = ". The live view goes on without reads, lag, unseen sends and loss candidates"
            reporter.note(strained + (relief if stopped else ""))


def pause_after(used_s: float) -> float:
    """Return the seconds until the next tick, after one that used a CPU for so many seconds."""
    return min(max(_TICK_S, used_s * (1 - _SHARE) / _SHARE), _LONGEST_S)


def goes_on(schedule: Schedule, clients: ClientSupervisor, *, running: bool) -> bool:
    """Whether the schedule goes on: producers are `running`, or have sent all and it can without.

    A producer that keeps its last transaction open runs until the schedule is done.
    """
    if clients.has_sent_all:
        return not schedule.done and not schedule.needs_sends
    return running


class Load:
    """Notices once that this machine cannot keep up.

    The first period does not count, as clients start in it. `waited`: the time since boot in which
    some process waited for a CPU, seconds. `late`: by how much a tick was late.
    """

    def __init__(self, *, now: float, waited: float) -> None:
        self._began, self._waited = now, waited
        self._late: list[float] = []
        self._noticed = False
        self._starting = True

    def tick(self, *, now: float, waited: float, late: float) -> str:
        """Return the message at the end of the first period in which the machine was too busy."""
        self._late.append(late)
        seconds = now - self._began
        if self._noticed or seconds < _WATCHED_S:
            return ""
        share, late_s = (waited - self._waited) / seconds, fmean(self._late)
        self._began, self._waited, self._late = now, waited, []
        starting, self._starting = self._starting, False
        if starting or share < _BUSY or late_s < _LATE_S:
            return ""
        self._noticed = True
        return (
            f"this machine cannot keep up: processes wait for a CPU in {min(share, 1):.0%} of the "
            "time. Counts of records hold; latencies and unavailability may be too long. Run less "
            "beside it, or lower workload.rate"
        )


def unfinished(schedule: Schedule, scenario: Scenario) -> list[str]:
    """Return the faults that were not executed, as troubles: the prediction assumes all of them."""
    senders = scenario.senders
    advice = f"the {senders.noun} ended before (raise {senders.limits})"
    # A producer that may stop ends the workload while a fault is in force.
    unended = [] if scenario.workload.may_stop_for else schedule.unended
    return [
        *([f"{schedule.held_back}, until {advice}"] if schedule.held_back else []),
        *(f"{fault} never began ('{fault.when}'): {advice}" for fault in schedule.waiting),
        *(f"{fault} did not end ('{fault.heal_when}'): {advice}" for fault in unended),
    ]
