"""The part of a run in which workload and faults go on together."""

from __future__ import annotations

import time

from ackproof.clients.fault_target import StruckClients
from ackproof.clients.supervisor import Crew
from ackproof.cluster.attached import AnyCluster
from ackproof.execution.run_state import Recording, now
from ackproof.progress import Reporter
from ackproof.scenario.model import Scenario
from ackproof_faults import FaultError, Schedule, SendCounts

#: How often the schedule looks at the world, and progress is shown.
_TICK_S = 0.01
_SHOW_S = 0.2


def exercise(
    scenario: Scenario,
    cluster: AnyCluster,
    crew: Crew,
    recording: Recording,
    reporter: Reporter,
) -> None:
    """Run the workload and the faults; end with every fault healed and every send settled."""

    def sends() -> SendCounts:
        progress = crew.progress()
        return SendCounts(sent=progress.sent, acked=progress.acked)

    cluster.interfaces.offer("clients", StruckClients(crew))
    schedule = Schedule(
        scenario.faults,
        cluster.interfaces,
        partitions=[
            (name, n) for name, topic in scenario.topics.items() for n in range(topic.partitions)
        ],
        sends=sends,
        clock=now,
        monotonic=time.monotonic,
        seed=scenario.seed,
        blast_radius=scenario.blast_radius,
    )
    recording.schedule = schedule
    try:
        with reporter.phase("producing under faults"):
            _drive(schedule, crew, scenario.workload.tail, recording, reporter)
    except FaultError as error:
        recording.troubles.append(str(error))
    with reporter.phase("healing, and settling what is under way"):
        _note_unfinished(schedule, recording)
        crew.stop_producers()
        try:
            schedule.heal_all()
        except FaultError as error:
            recording.troubles.append(str(error))
        recording.troubles += crew.await_producers()
        recording.bottlenecks = crew.bottlenecks()


def _drive(
    schedule: Schedule,
    crew: Crew,
    tail: int,
    recording: Recording,
    reporter: Reporter,
) -> None:
    """Tick until the schedule is done and `tail` more sends are acked, or producers have ended."""
    shown = 0.0
    tail_from: int | None = None
    while crew.tend():
        schedule.tick()
        recording.write_windows()
        acked = crew.progress().acked
        if tail_from is None and schedule.done:
            tail_from = acked
        if tail_from is not None and acked >= tail_from + tail:
            return
        now = time.monotonic()
        if now - shown >= _SHOW_S:
            shown = now
            reporter.update(f"{acked:,} acked; waiting for {schedule.waiting_for}")
        time.sleep(_TICK_S)  # the tick of a control loop, not a wait for something


def _note_unfinished(schedule: Schedule, recording: Recording) -> None:
    """Note what of the schedule did not take place: the prediction assumes that it did."""
    advice = "the workload ended before (raise workload.records or workload.seconds)"
    if schedule.held_back:
        recording.troubles.append(f"{schedule.held_back}, until {advice}")
    for fault in schedule.waiting:
        recording.troubles.append(
            f"{fault.name} of {fault.target} never began ('{fault.when}'): {advice}"
        )
    for fault in schedule.unended:
        recording.troubles.append(
            f"{fault.name} of {fault.target} was not over ('{fault.heal_when}'): {advice}"
        )
