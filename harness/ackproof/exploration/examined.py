"""What is known of each finding: the smallest schedule that shows it, and how often it does.

Before an exploration goes on, a finding is examined: schedules with one operation less run, until
none of them shows it any more, and then the smallest one again and again. What runs next follows
from the stored results, as every proposal does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ackproof.exploration.results import Proposal, Results, Schedule
from ackproof_model.adversary import AdversaryModel
from ackproof_model.planning import smaller

#: A smaller schedule does not show a finding if it has not in so many runs.
TRIES = 2

#: So many times the smallest schedule runs after it has shown a finding.
REPEATED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A finding of one kind.

    results: how many have found it. best: the first of them with the smallest schedule that shows
    it. runs, shown: how often this schedule ran, and how often it has shown the finding. done:
    nothing is left to try.
    """

    anomaly: str
    explanation: str
    results: int
    best: str
    schedule: Schedule
    runs: int
    shown: int
    done: bool


def examined(model: AdversaryModel, results: Results) -> list[Examined]:
    """Return what is known of each kind of finding, the first that was found first."""
    kinds = dict.fromkeys(found.anomaly for one in results.values() for found in one.findings)
    return [_examined(model, results, anomaly) for anomaly in kinds]


def examination(
    model: AdversaryModel, results: Results, begun: Sequence[Schedule]
) -> Proposal | None:
    """Return the schedule that examines a finding further, None if nothing is left to examine.

    begun: the schedules that run meanwhile.
    """
    for one in examined(model, results):
        left = _left(model, results, one.schedule, begun)
        if schedule := next(left, None):
            return Proposal(schedule=schedule, origin="examined", parent=one.best)
    return None


def _examined(model: AdversaryModel, results: Results, anomaly: str) -> Examined:
    showing = {
        name: found.explanation
        for name, one in results.items()
        for found in one.findings
        if found.anomaly == anomaly
    }
    best = min(
        showing,
        key=lambda name: (
            len(results[name].proposal.schedule.operations),
            results[name].proposal.schedule.records,
            name,
        ),
    )
    schedule = results[best].proposal.schedule
    ran = [name for name, one in results.items() if one.proposal.schedule == schedule]
    return Examined(
        anomaly=anomaly,
        explanation=showing[best],
        results=len(showing),
        best=best,
        schedule=schedule,
        runs=len(ran),
        shown=sum(name in showing for name in ran),
        done=next(_left(model, results, schedule, []), None) is None,
    )


def _left(
    model: AdversaryModel, results: Results, best: Schedule, begun: Sequence[Schedule]
) -> Iterator[Schedule]:
    """Yield what is left to run for a finding whose smallest schedule so far is `best`."""
    ran = Counter([*(one.proposal.schedule for one in results.values()), *begun])
    for operations in smaller(model, best.operations):
        schedule = Schedule(operations=operations, records=best.records)
        if ran[schedule] < TRIES:
            yield schedule
    if ran[best] <= REPEATED:
        yield best
