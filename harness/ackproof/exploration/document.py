"""The coverage of a configuration as a document, and as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ackproof.exploration.coverage import Coverage
from ackproof.exploration.examined import examined
from ackproof.planning.compiler import brokers_of
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import AdversaryModel
from ackproof_model.coverage import Pair, Shape
from ackproof_model.perturbations import Counts
from ackproof_model.planning import Operation, OperationKind

#: How many missing pairs are listed as text; the JSON document has all.
LISTED = 20


def document(scenario: Scenario, coverage: Coverage) -> dict[str, Any]:
    """Return everything that is known of the coverage, with broker ids for replicas."""
    reached, brokers = coverage.reached, brokers_of(scenario)
    return {
        "scenario": scenario.name,
        "kafka_version": scenario.kafka,
        "budget": budget(reached.model),
        "states": reached.states,
        "controller_states": reached.controller_states,
        "pairs": len(reached.pairs),
        "certain": len(coverage.certain),
        "possible": len(coverage.possible),
        "share": round(len(coverage.certain) / len(reached.pairs), 4),
        "runs": list(coverage.counted),
        "runs_not_counted": dict(coverage.left_out),
        "missing": [
            {
                "step": pair.step,
                "before": _shape(pair.before, brokers),
                "after": _shape(pair.after, brokers),
                "possible": pair in coverage.possible,
                "schedule": _schedule(coverage, pair, brokers),
            }
            for pair in coverage.missing
        ],
        "explored": {
            "schedules": len(coverage.explored),
            "verdicts": dict(Counter(one.verdict for one in coverage.explored.values())),
            "origins": dict(Counter(one.proposal.origin for one in coverage.explored.values())),
            "not_counted": {
                name: one.not_counted for name, one in coverage.explored.items() if one.not_counted
            },
            "findings": [
                {
                    "result": name,
                    "run": one.run,
                    "schedule": _words_of(one.proposal.schedule.operations, brokers),
                    **finding.model_dump(mode="json"),
                }
                for name, one in coverage.explored.items()
                for finding in one.findings
            ],
            "examined": [
                {
                    "anomaly": one.anomaly,
                    "smallest": one.best,
                    "schedule": _words_of(one.schedule.operations, brokers),
                    "results": one.results,
                    "runs": one.runs,
                    "shown": one.shown,
                    "done": one.done,
                }
                for one in examined(reached.model, coverage.explored)
            ],
        },
    }


def budget(model: AdversaryModel) -> str:
    budgets = model.budgets
    kinds = zip(budgets.KINDS, budgets.of_kinds, strict=True)
    counts = Counts(**{kind: min(number, budgets.perturbations) for kind, number in kinds})
    return f"{counts.limits}, together at most {budgets.perturbations}"


def lines(scenario: Scenario, coverage: Coverage) -> Iterator[str]:
    """Yield the coverage as text."""
    reached, brokers = coverage.reached, brokers_of(scenario)
    total, seen = len(reached.pairs), len(coverage.certain)
    yield f"{scenario.name} on Kafka {scenario.kafka}, {budget(reached.model)}:"
    yield (
        f"the model reaches {reached.states:,} states and {total} pairs of a step and a change of "
        "leader, ISR and ELR"
    )
    yield from _explored(scenario, coverage)
    explored = sum(not one.not_counted for one in coverage.explored.values())
    yield (
        f"{len(coverage.counted) + explored} runs count: {seen} pairs passed for certain "
        f"({seen / total:.0%}), {len(coverage.possible)} more perhaps"
    )
    for name, why in coverage.left_out.items():
        yield f"  {name} does not count: {why}"
    missing = coverage.missing
    planned = [pair for pair in missing if pair in coverage.schedules]
    yield f"{len(missing)} pairs are missing; a schedule leads to {len(planned)} of them"
    yield ""
    every = Counter(pair.step for pair in reached.pairs)
    left = Counter(pair.step for pair in missing)
    ways = Counter(pair.step for pair in planned)
    yield f"{'step':12} {'pairs':>6} {'passed':>7} {'missing':>8} {'with a schedule':>16}"
    for step, number in sorted(every.items()):
        yield f"{step:12} {number:6} {number - left[step]:7} {left[step]:8} {ways[step]:16}"
    if missing:
        yield ""
    for pair in missing[:LISTED]:
        schedule = _schedule(coverage, pair, brokers)
        way = "no schedule found" if schedule is None else ", ".join(schedule) or "no fault at all"
        yield f"{_words(pair, brokers)}: {way}"
    if len(missing) > LISTED:
        yield f"and {len(missing) - LISTED} more; --json lists all"


def _explored(scenario: Scenario, coverage: Coverage) -> Iterator[str]:
    """Yield what an exploration did and found, if there is one."""
    results = coverage.explored
    if not results:
        return
    words = Counter(one.verdict for one in results.values())
    listed = ", ".join(f"{number} {word}" for word, number in sorted(words.items()))
    yield f"explored: {len(results)} schedules ({listed})"
    reasons = Counter(one.not_counted for one in results.values() if one.not_counted)
    for reason, number in reasons.most_common():
        yield f"  {number} of them do not count: {reason}"
    for one in examined(coverage.reached.model, results):
        found = results[one.best]
        schedule = operations_in_words(scenario, found.proposal.schedule.operations)
        yield f"  FOUND in {one.best} (runs/{found.run}), {one.anomaly}: {one.explanation}"
        yield (
            f"    by the schedule: {schedule}; found in {one.shown} of its {one.runs} runs, and in "
            f"{one.results} of all {len(results)}; findings/found-{one.anomaly}.yaml repeats it"
        )
        if not one.done:
            yield "    smaller schedules and repetitions are not complete: --for goes on with them"


def operations_in_words(scenario: Scenario, operations: Sequence[Operation]) -> str:
    return ", ".join(_words_of(operations, brokers_of(scenario))) or "no fault at all"


def _words_of(operations: Sequence[Operation], brokers: Sequence[int]) -> list[str]:
    return [_operation(one, brokers) for one in operations]


def _schedule(coverage: Coverage, pair: Pair, brokers: Sequence[int]) -> list[str] | None:
    plan = coverage.schedules.get(pair)
    return None if plan is None else _words_of(plan.operations, brokers)


#: An operation in words; the others are their own words.
_OPERATIONS = {
    OperationKind.LAG: "stop replication of",
    OperationKind.WITHHOLD: "stop fetches from",
    OperationKind.CUT_OFF: "cut off from the controllers",
    OperationKind.HOLD_FETCHES: "hold fetches by",
    OperationKind.HOLD_METADATA: "hold metadata of",
    OperationKind.HOLD_ISR: "hold ISR requests of",
    OperationKind.HOLD_WRITES: "hold writes to",
    OperationKind.HOLD_MARKERS: "hold markers to",
}


def _operation(operation: Operation, brokers: Sequence[int]) -> str:
    """Return an operation with its broker, such as `kill 2` or `end: stop replication of 3`."""
    broker = brokers[operation.broker]
    if operation.ends is not None:
        return f"end: {_OPERATIONS[operation.ends]} {broker}"
    words = f"{_OPERATIONS.get(operation.kind, operation.kind)} {broker}"
    if operation.kind is OperationKind.CANCEL:
        words = "cancel the move"
    elif operation.to:
        words = f"move to {', '.join(str(brokers[one]) for one in operation.to)}"
    return words if operation.settled else f"{words} and at once"


def _shape(shape: Shape, brokers: Sequence[int]) -> dict[str, Any]:
    return {
        "leader": brokers[shape.leader] if shape.leader >= 0 else None,
        "isr": [brokers[number] for number in shape.isr],
        "elr": [brokers[number] for number in shape.elr],
        "last_known_leader": brokers[shape.last_known] if shape.last_known >= 0 else None,
    }


def _words(pair: Pair, brokers: Sequence[int]) -> str:
    before = _shape_words(pair.before, brokers)
    if pair.before == pair.after:
        return f"{pair.step} at {before}"
    return f"{pair.step} from {before} to {_shape_words(pair.after, brokers)}"


def _shape_words(shape: Shape, brokers: Sequence[int]) -> str:
    def members(numbers: Sequence[int]) -> str:
        return "{" + ", ".join(str(brokers[number]) for number in numbers) + "}"

    words = f"leader {brokers[shape.leader]}" if shape.leader >= 0 else "no leader"
    words += f" ISR {members(shape.isr)}"
    if shape.elr:
        words += f" ELR {members(shape.elr)}"
    if shape.last_known >= 0:
        words += f" last leader {brokers[shape.last_known]}"
    return words
