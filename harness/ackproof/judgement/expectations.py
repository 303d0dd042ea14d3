"""Compares the observed anomalies with the scenario's `expect`, which gives the verdict.

An observed violation is definite even in an inconclusive run. So is a loss that `expect` accepts,
if only faults or producers did not do what the scenario says. The absence of an anomaly counts only
in a conclusive run. So do `unprocessed`, `undelivered` and `archived-unprocessed`: consumers that
were interrupted leave records unprocessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from ackproof.prediction import share_groups
from ackproof.runs.verdict import (
    COUNTS,
    CauseReport,
    Expectation,
    FaultReport,
    Likelihood,
    Metrics,
    Step,
    Word,
)
from ackproof.scenario.model import Expect, ExpectedStep, Scenario
from ackproof.scenario.model import Expectation as Wanted
from ackproof_spark.anomaly import (
    OF_CLIENTS,
    OF_CONSUMERS,
    OF_READS,
    OF_REPLICAS,
    OF_TRANSACTIONS,
    Anomaly,
)

_OTHER_NAMES = {"loss": "lost", "duplicates": "duplicated"}
#: The count that each key of `expect` limits: of an anomaly, of an outcome, or one of `COUNTS`.
ANOMALY_OF = {
    key: _OTHER_NAMES.get(key, key.replace("_", "-"))
    for key, field in Expect.model_fields.items()
    if get_args(field.annotation) == get_args(Wanted)
}

#: Anomalies that a client which ended early shows as well.
OF_UNFINISHED_WORK = tuple(
    map(
        str,
        (
            *(Anomaly.UNPROCESSED, Anomaly.UNDELIVERED),
            *(Anomaly.ARCHIVED_UNPROCESSED, Anomaly.DEAD_LETTER_MISSING),
        ),
    )
)

#: The word before `readable` or `writable`, by the probe's answer.
_WORDS = {"yes": "", "no": "not ", "unknown": "perhaps ", "some": "partly "}
_WANTED = {True: "yes", False: "no"}


def inapplicable(scenario: Scenario) -> list[str]:
    """Return the anomalies that the scenario's clients cannot show."""
    anomalies: list[Anomaly] = []
    if not scenario.senders.order_is_recorded:
        anomalies.append(Anomaly.REORDERED)
    if scenario.workload.transactions is None:
        anomalies += OF_TRANSACTIONS
    shared = scenario.share_groups
    anomalies += share_groups.inapplicable(scenario)
    if len(shared) == len(scenario.workload.consumers):  # a share group may reprocess, too
        both = {Anomaly.REPROCESSED, Anomaly.REPLAYED} if shared else set()
        anomalies += [one for one in OF_CONSUMERS if one not in both]
    if not any(map(scenario.resets, scenario.workload.consumers)):
        anomalies.append(Anomaly.REPLAYED)
    if not (scenario.workload.consumers or scenario.workload.probe):
        anomalies += OF_READS
    return [str(anomaly) for anomaly in anomalies]


def of_times(expect: Expect) -> bool:
    """Return whether an availability or a step is expected, which are measured in time."""
    shares = (expect.availability, expect.read_availability, expect.write_availability)
    return bool(expect.steps) or any(share is not None for share in shares)


def effective_expectations(scenario: Scenario) -> dict[str, str]:
    """Return the keys of `expect` that a run can violate, with their values."""
    excluded = inapplicable(scenario)
    values = {
        key: getattr(scenario.expect, key)
        for key, anomaly in ANOMALY_OF.items()
        if anomaly not in excluded
    }
    others = {
        key: getattr(scenario.expect, key)
        for key in ("cause", "availability", "read_availability", "write_availability")
    }
    return {key: value for key, value in values.items() if value != "any"} | {
        key: value for key, value in others.items() if value is not None
    }


def foreseen_violations(
    scenario: Scenario, predicted: Mapping[str, Likelihood], *, possible: bool
) -> list[str]:
    """Return a sentence for each expectation that the prediction contradicts.

    An anomaly that must not occur is certain, or an anomaly that must occur is impossible. With
    `possible`, also an anomaly that must not occur is possible.
    """
    excluding = {"none": {"certain", "possible"} if possible else {"certain"}}
    excluding["some"] = {"impossible"}
    return [
        f"{key}: {value} is expected, and {anomaly} is {predicted[anomaly]}"
        for key, value in effective_expectations(scenario).items()
        if (anomaly := ANOMALY_OF.get(key, "")) in predicted
        and predicted[anomaly] in excluding.get(value, ())
    ]


def check_expectations(
    expect: Expect,
    observed: Mapping[str, int],
    metrics: Metrics,
    causes: Sequence[CauseReport] = (),
) -> list[Expectation]:
    """Return every key of `expect` with the observed value."""
    expectations = []
    for key, anomaly in ANOMALY_OF.items():
        if anomaly in (*OF_CLIENTS, *OF_REPLICAS, *COUNTS, "reordered") and anomaly not in observed:
            continue  # the clients cannot show it, or the replicas were not compared
        value = getattr(expect, key)
        count = observed.get(anomaly, 0)
        if metrics.probe and key in ("failed", "unknown"):
            count -= metrics.probe.writes.get(key, 0)  # the probe does not retry, so many fail
        met = value == "any" or (count == 0) == (value == "none")
        expectations.append(Expectation(what=key, wanted=value, observed=str(count), met=met))
    if expect.cause is not None:
        expectations.append(_cause(expect.cause, causes))
    if expect.availability is not None:
        share = metrics.availability or 0.0  # if all sends have the same timestamp
        expectations.append(_availability("availability", expect.availability, share))
    for action in ("read", "write"):
        wanted = getattr(expect, f"{action}_availability")
        if wanted is not None:
            share = getattr(metrics.probe, action).share if metrics.probe else 0.0
            expectations.append(_availability(f"{action}_availability", wanted, share))
    return expectations


def conclude(
    expectations: Sequence[Expectation],
    doubts: Sequence[str],
    *,
    unless_lost: Sequence[str] = (),
    undisputed: Sequence[Expectation] | None = None,
) -> tuple[Word, str]:
    """Return the verdict and its reason.

    `doubts` are about what was recorded, `unless_lost` about faults and producers: they leave the
    acks, the final log and its readers undoubted, so that a missing record was lost for certain.
    `undisputed` are the same expectations for the records on which all readers of the final log
    agree. Only an undisputed violation is definite.
    """
    undisputed = expectations if undisputed is None else undisputed
    lost = not doubts and any(line.what == "loss" and line.observed != "0" for line in undisputed)
    incomplete = _listed([*unless_lost, *doubts])
    unfinished = OF_UNFINISHED_WORK if incomplete else ()
    expectations = [one for one in expectations if ANOMALY_OF.get(one.what) not in unfinished]
    definite = [
        line
        for line in undisputed
        if not line.met and line.wanted == "none" and ANOMALY_OF[line.what] not in unfinished
    ]
    if definite:
        return Word.VIOLATED, "; ".join(
            f"{line.text} {ANOMALY_OF[line.what]}, none expected" for line in definite
        )
    if incomplete and not lost:
        return Word.INCONCLUSIVE, incomplete
    although = f"; although {incomplete}" if incomplete else ""
    violated = [line for line in expectations if not line.met]
    if violated:
        return Word.VIOLATED, "; ".join(
            f"{line.what}: {line.text} observed, {line.wanted} expected" for line in violated
        ) + although
    restrictive = [
        f"{line.what} {line.wanted} (observed {line.text})"
        for line in expectations
        if line.wanted != "any"
    ]
    return Word.HOLDS, "as expected: " + ", ".join(restrictive) + although


def _listed(reasons: Sequence[str]) -> str:
    return "; ".join(
        reason if times == 1 else f"{reason} ({times} times)"
        for reason, times in Counter(reasons).items()
    )


def _cause(wanted: str, causes: Sequence[CauseReport]) -> Expectation:
    records: Counter[str] = Counter()
    for cause in causes:
        records[cause.case] += cause.count
    observed = max(records, key=records.__getitem__, default="no loss")
    return Expectation(what="cause", wanted=wanted, observed=observed, met=observed == wanted)


def _availability(what: str, expected: str, share: float) -> Expectation:
    match = re.fullmatch(r"(>=?) ?([0-9.]+) ?%", expected)
    assert match is not None  # the scenario's schema ensures it
    percent, bound = 100 * share, float(match[2])
    met = percent >= bound if match[1] == ">=" else percent > bound
    return Expectation(what=what, wanted=expected, observed=f"{percent:.2f} %", met=met)


def check_steps(
    expected: Mapping[str, ExpectedStep], faults: Sequence[FaultReport], steps: Sequence[Step]
) -> list[Expectation]:
    """Return a line for each window of a fault whose id is a key of `expected`.

    A step is the last period before the fault is healed, or before the run ends. A fault that never
    began has no line: its run is inconclusive.
    """
    return [
        _step(fault.id, expected[fault.id], last)
        for fault in faults
        if fault.id is not None and fault.id in expected
        for last in [step for step in steps if fault.window in step.in_force][-1:]
    ]


def unknown_steps(lines: Sequence[Expectation]) -> list[str]:
    """Return the lines in which an answer of the probe is unknown."""
    return [f"{line.what}: {line.observed}" for line in lines if _WORDS["unknown"] in line.observed]


def _step(name: str, wanted: ExpectedStep, step: Step) -> Expectation:
    answers = dict(_answers(wanted, step))
    return Expectation(
        what=f"step {name}",
        wanted=_joined({ability: _WANTED[getattr(wanted, ability)] for ability in answers}),
        observed=_joined(answers),
        met=all(answer == _WANTED[getattr(wanted, ability)] for ability, answer in answers.items()),
    )


def _answers(wanted: ExpectedStep, step: Step) -> Iterator[tuple[str, str]]:
    """Yield the combined answer of all partitions for each expected ability."""
    for ability, value in wanted:
        if value is None:
            continue
        answers = {getattr(partition, ability) for partition in step.partitions} or {"unknown"}
        if len(answers) == 1:
            yield ability, answers.pop()
        else:
            yield ability, "unknown" if "unknown" in answers else "some"


def _joined(answers: Mapping[str, str]) -> str:
    return ", ".join(f"{_WORDS[answer]}{ability}" for ability, answer in answers.items())
