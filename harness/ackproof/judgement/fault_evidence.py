"""Holds the fault windows against the faults of the scenario: each happened, here and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ackproof.runs.directory import RunRecord
from ackproof.runs.verdict import FaultReport
from ackproof.scenario.model import Scenario
from ackproof_faults import times_begun
from ackproof_faults.conditions.targets import TargetSpec

#: Targets that mean one node at a time.
_OF_ONE = ("leader", "active controller")


def contradictions(
    scenario: Scenario, record: RunRecord, faults: Sequence[FaultReport]
) -> Iterator[str]:
    """Yield what the windows of a run without troubles lack, or contradict."""
    yield from _of_counts(scenario, faults)
    for fault in faults:
        for problem in (*_of_target(scenario, fault), *_of_times(record, fault)):
            yield f"{fault} {problem}"
        if fault.verified and not fault.evidence:
            yield f"{fault} is called verified without evidence"


def _of_counts(scenario: Scenario, faults: Sequence[FaultReport]) -> Iterator[str]:
    names = Counter(fault.fault for fault in faults)
    begun = times_begun(scenario.faults, seed=scenario.seed)
    for name, (least, most) in begun.items():
        if not least <= names[name] <= most:
            wanted = least if names[name] < least else int(most)
            limit = "" if least == most else "at least " if names[name] < least else "at most "
            yield (
                f"the scenario injects {name} {limit}{_times(wanted)}, and fault_windows records "
                f"it {_times(names[name])}"
            )
    if scenario.faults and not faults and not any(least for least, _ in begun.values()):
        yield "the scenario injects faults, and fault_windows records none"
    for name in sorted(names.keys() - begun.keys()):
        yield f"fault_windows records {name}, which the scenario does not inject"
    if sorted(fault.window for fault in faults) != list(range(len(faults))):
        yield "the windows in fault_windows are not numbered from 0 without a gap"


def _of_target(scenario: Scenario, fault: FaultReport) -> Iterator[str]:
    targets = [one.target for one in scenario.every_fault if one.name == fault.fault]
    named = {str(target): target for target in targets}
    drawn = any(target.role == "any" for target in targets)
    if targets and fault.target not in named and not drawn:
        yield f"is none that the scenario injects: it injects {fault.fault} of {', '.join(named)}"
    if not fault.nodes:
        yield "has hit no node"
    elif fault.target in named and not _may_mean(named[fault.target], fault.nodes):
        yield f"has hit {', '.join(map(str, fault.nodes))}"


def _may_mean(target: TargetSpec, nodes: Sequence[int]) -> bool:
    if target.role == "brokers":
        return tuple(nodes) == target.brokers
    return target.role not in _OF_ONE or len(nodes) == 1


def _of_times(record: RunRecord, fault: FaultReport) -> Iterator[str]:
    times = [fault.injected_at, fault.verified_at, fault.healed_at, fault.recovered_at]
    known = [time for time in times if time is not None]
    if fault.verified and fault.verified_at is None:
        yield "is called verified without a time"
    if fault.healed_at is None:
        yield "was never healed"
    if known != sorted(known):
        yield "has times that are not in order"
    elif known[0] < record.started_at or (record.finished_at and known[-1] > record.finished_at):
        yield "is dated outside the run"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
