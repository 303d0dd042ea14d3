"""The result of a comparison: its table, and sentences on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ackproof.comparison.summary import Cell, Spread, Summary
from ackproof.report import formatting as fmt
from ackproof.report.wording import ACKS_0
from ackproof.runs.verdict import Verdict

#: A cell without a number.
_NOTHING = "-"
#: Precedes an upper bound.
_AT_MOST = "≤ "
#: Seconds of difference that are reported.
_NOTICED_S = 1.0
#: Faults whose times differ by no more than this factor lasted equally long.
_SAME_TIME = 1.5
#: From this share of acked sends on, latencies are those of all sends.
_ALL = 0.995

#: Why a comparison ended, by `Summary.ended`.
ENDED = {
    "settled": "every pair was settled",
    "trials": "the planned trials were done",
    "budget": "the time budget was used up",
    "interrupted": "the comparison was interrupted",
}

#: Maximum number of runs that the page shows in full.
SHOWN_RUNS = 8


def shown_runs(
    summary: Summary, results: Sequence[tuple[Path, Verdict]], *, most: int = SHOWN_RUNS
) -> list[Path]:
    """Return the runs to show in full.

    All runs of a single round; of several rounds the run of each configuration with most losses, at
    most `most`.
    """
    if summary.plan.trials == 1:
        return [run_dir for run_dir, _ in results]

    def lost(verdict: Verdict) -> int:
        return verdict.observed.get("lost", 0)

    examples: dict[str, tuple[Path, Verdict]] = {}
    for run_dir, verdict in results:
        label = f"{verdict.scenario}/{verdict.configuration_name}"
        best = examples.get(label)
        if best is None or lost(verdict) > lost(best[1]):
            examples[label] = (run_dir, verdict)
    return [run_dir for run_dir, _ in list(examples.values())[:most]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A cell of the table: the number, and what it needs to be understood.

    `tone`: `lost` if records were; `yes`, `no`, `undecided` for whether runs are as expected.
    """

    text: str
    note: str = ""
    tone: Literal["", "lost", "yes", "no", "undecided"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its answer for each configuration; `brief` is the question in few words.

    `names`: whether the answers name the configurations.
    """

    text: str
    brief: str
    answers: list[Answer]
    names: bool = False


def questions(summary: Summary) -> list[Question]:
    """Return the table of a comparison: first the gain, then its price.

    Questions to which every answer would be "no" are left out.
    """
    cells = summary.cells
    asked: list[tuple[str, str, Callable[[Cell], Answer]]] = [
        ("Are acked records lost?", "lost", _lost),
        ("How many sends are acked?", "acked", lambda cell: _sends(cell, cell.acked)),
        ("How many are refused?", "refused", lambda cell: _sends(cell, cell.refused)),
        ("How many stay unknown?", "unknown", lambda cell: _sends(cell, cell.unknown)),
        ("How long are there no acks?", "no acks", partial(_away, summary)),
        ("How long does an ack take (p50 / p99)?", "ack p50 / p99", partial(_latency, summary)),
    ]
    if any(cell.duplicated and cell.duplicated.high for cell in cells):
        asked.append(("How many are written twice?", "twice", lambda c: _spread(c.duplicated)))
    if any(cell.processed for cell in cells):
        asked += [
            ("How many are processed once?", "processed once", partial(_processed, "once")),
            ("How many are processed again?", "processed again", partial(_processed, "again")),
            ("How many are never processed?", "never processed", partial(_processed, "never")),
            ("How long until one is processed (p50 / p99)?", "processed after", _processed_after),
        ]
    if any(cell.stopped for cell in cells):
        asked.append(("Does a producer stop for good?", "stops", _stopped))
    asked.append(("As the scenario expects?", "as expected", _expected))
    made = _configurations(summary)
    for text, brief, answer in asked:
        also_without_trials = answer in (_expected, _stopped)
        answers = [
            answer(cell) if cell.trials or also_without_trials else Answer(text=_NOTHING)
            for cell in cells
        ]
        made.append(Question(text=text, brief=brief, answers=answers))
    return made


def _configurations(summary: Summary) -> list[Question]:
    """Return each differing setting, after the names unless settings are all of them.

    Names are as the matrix has them: `acks=all, min.insync.replicas=2`, or any words.
    """
    cells = summary.cells
    settings = [
        Question(
            text=key,
            brief=key,
            answers=[Answer(text=cell.settings[key]) for cell in cells],
            names=True,
        )
        for key in cells[0].settings
    ]
    distinct = {tuple(cell.settings.values()) for cell in cells}
    named = all(_is_named(cell, summary) for cell in cells) and not _differing_faults(summary)
    if settings and len(distinct) == len(cells) and named:
        return settings
    names = [Answer(text=cell.configuration) for cell in cells]
    configuration = Question(text="Configuration", brief="configuration", answers=names, names=True)
    return [configuration, *settings]


def _differing_faults(summary: Summary) -> bool:
    return len(set(summary.plan.faults.values())) > 1


def _is_named(cell: Cell, summary: Summary) -> bool:
    """Whether the name of a configuration consists of its settings."""
    settings = {f"{key}={value}" for key, value in (summary.shared | cell.settings).items()}
    return settings.issuperset(cell.configuration.split(", "))


def _lost(cell: Cell) -> Answer:
    model = f"the model: {cell.predicted}" if cell.predicted else ""
    runs = fmt.plural(cell.trials, "run")
    if not cell.losing or cell.lost is None:
        text = "no" if cell.trials == 1 else f"no, in {runs}"
        return Answer(text=text, note=model)
    text = _number(cell.lost)
    if cell.trials > 1:
        text = f"{text}, in {cell.losing} of {runs}"
    return Answer(text=text, note="; ".join(filter(None, (_rates(cell), model))), tone="lost")


def _rates(cell: Cell) -> str:
    """Return what the configuration lost per send and second of faults, and the scenario's cut."""
    parts = []
    if cell.lost_per_send:
        parts.append(f"{fmt.about(cell.lost_per_send.median)} of sends")
    if cell.lost_per_fault_s:
        parts.append(f"{fmt.number(cell.lost_per_fault_s.median)} per second of faults")
    if cell.lost_to_cut:
        more = f"{_number(cell.lost_to_cut)} more are " if parts else ""
        parts.append(f"{more}set by the scenario")
    return ", ".join(parts)


def _sends(cell: Cell, sends: Spread | None) -> Answer:
    if sends is None or cell.sent is None:
        return Answer(text=_NOTHING)
    note = f"{fmt.about(sends.median / cell.sent.median)} of sends" if sends.median else ""
    return Answer(text=_number(sends), note=note)


def _away(summary: Summary, cell: Cell) -> Answer:
    """Answer for how long the worst partition had no acks, and what the faults cost in any case."""
    if cell.unavailability_s is None or cell.duration_s is None:
        return Answer(text=_NOTHING, note="not measured" if cell.untimed else "")
    note = f"of {fmt.seconds(cell.duration_s.median)}"
    alike = comparable(cell, summary)
    # A difference of upper bounds bounds nothing.
    if len(alike) > 1 and not _unequal(alike) and all(map(is_measured, alike)):
        least = min(map(unavailable_s, alike))
        more = unavailable_s(cell) - least
        if more > _NOTICED_S:
            own = fmt.seconds(more)
            note += f": {fmt.seconds(least)} with any of these, {own} with this one"
    if cell.untimed:
        note += f"; measured in {cell.trials - cell.untimed} of {fmt.plural(cell.trials, 'run')}"
    times = _times(cell.unavailability_s, fmt.seconds)
    return Answer(text=_limit(cell) + times, note=note)


def _limit(cell: Cell) -> str:
    return _AT_MOST if cell.late else ""


def is_measured(cell: Cell) -> bool:
    """Whether its times are neither upper bounds nor unreliable."""
    return not cell.late and not cell.untimed


def unavailability(cell: Cell) -> str:
    return _limit(cell) + fmt.seconds(unavailable_s(cell))


def after(faults: Sequence[str]) -> str:
    """Return after which faults there were no acks; '' without any."""
    return f" after {fmt.listing(faults)}" if faults else ""


def p99(cell: Cell) -> str:
    """Return the p99 of ack latency, after `≤` if it is an upper bound; '' without any."""
    limit = "" if cell.ack_latency_ms else _AT_MOST
    return limit + fmt.duration(p99_ms(cell)) if p99_ms(cell) < math.inf else ""


def _latency(summary: Summary, cell: Cell) -> Answer:
    latency = cell.ack_latency_ms or cell.ack_latency_at_most_ms
    if not latency:
        unanswered = (summary.shared | cell.settings).get("acks") == "0"
        acked = bool(cell.acked and cell.acked.high)
        note = ACKS_0 if unanswered else "not measured"
        return Answer(text=_NOTHING, note=note if acked else "")
    limit = "" if cell.ack_latency_ms else _AT_MOST
    p50, p99 = (limit + fmt.duration(latency[key].median) for key in ("p50", "p99"))
    note = ""
    if cell.acked and cell.sent and cell.acked.median < _ALL * cell.sent.median:
        note = f"of the {fmt.about(cell.acked.median / cell.sent.median)} that were acked"
    return Answer(text=f"{p50} / {p99}", note=note)


def _processed(times: str, cell: Cell) -> Answer:
    return _spread(cell.processed.get(times))


def _processed_after(cell: Cell) -> Answer:
    latency = cell.processing_latency_ms
    if not latency:
        return Answer(text=_NOTHING)
    p50, p99 = (_limit(cell) + fmt.duration(latency[key].median) for key in ("p50", "p99"))
    return Answer(text=f"{p50} / {p99}")


def _stopped(cell: Cell) -> Answer:
    if not cell.stopped:
        return Answer(text="no")
    return Answer(
        text="yes"
        if cell.trials == 1
        else f"yes, in {fmt.plural(max(cell.stopped.values()), 'run')}"
    )


def _expected(cell: Cell) -> Answer:
    runs = cell.trials + cell.inconclusive
    if cell.unexpected:
        text = "no" if runs == 1 else f"no, in {cell.unexpected} of {runs} runs"
        return Answer(text=text, tone="no")
    undecided = f"{cell.undecided} of {runs} inconclusive" if cell.undecided else ""
    tone: Literal["", "yes", "undecided"]
    tone = "yes" if cell.undecided < runs else "undecided" if runs else ""
    failed = (f"not run: {cell.error}" if runs else cell.error) if cell.failed else ""
    note = "; ".join(filter(None, (undecided, failed)))
    return Answer(text=tone or "not run", note=note, tone=tone)


def _number(spread: Spread) -> str:
    return _times(spread, lambda value: fmt.count(round(value)))


def _spread(spread: Spread | None) -> Answer:
    return Answer(text=_number(spread) if spread else _NOTHING)


def _times(spread: Spread, shown: Callable[[float], str]) -> str:
    """Format a median; with its range if there is one."""
    if shown(spread.low) == shown(spread.high):
        return shown(spread.median)
    return f"{shown(spread.median)} ({shown(spread.low)} to {shown(spread.high)})"


def outages(summary: Summary) -> list[str]:
    """Return a sentence for each configuration and fatal error that ended producers."""
    return [
        f"OUTAGE with {fmt.quoted(cell.configuration)}: {error} stopped producers for good in "
        f"{fmt.plural(number, 'run')}. After this fatal error the client allows no further sends."
        for cell in summary.cells
        for error, number in cell.stopped.items()
    ]


def notes(summary: Summary) -> list[str]:
    """Return sentences on shared settings, unequal times, and trials that do not count."""
    shared = ", ".join(f"{key} {value}" for key, value in summary.shared.items())
    lines = [f"All configurations: {shared}."] if shared else []
    if _differing_faults(summary):
        lines.append("Not all had the same faults. Only those with the same are compared.")
    lines += _when_no_acks(summary)
    if any(cell.late for cell in summary.cells):
        lines.append(
            f"{_AT_MOST}at most: a producer of this configuration got too little CPU time and "
            "served acks late, so the cluster was faster than that or as fast."
        )
    if any(cell.untimed for cell in summary.cells):
        lines.append(
            "Not measured: a producer was slower than the cluster, so its times are not the "
            "cluster's."
        )
    lines += [
        f"Set by the scenario: how many records {cut} takes, in whole batches."
        for cut in dict.fromkeys(cell.cut for cell in summary.cells if cell.lost_to_cut)
    ]
    groups = {tuple(c.configuration for c in comparable(cell, summary)) for cell in summary.cells}
    unequal = [_unequal([summary.cell(name) for name in group]) for group in sorted(groups)]
    lines += filter(None, unequal)
    for cell in summary.cells:
        if cell.failed:
            times = "once" if cell.failed == 1 else f"{cell.failed} times"
            lines.append(f"{cell.configuration} could not be run {times}: {cell.error}.")
        if cell.inconclusive:
            lines.append(
                f"{fmt.plural(cell.inconclusive, 'inconclusive run')} of {cell.configuration} "
                f"{'does' if cell.inconclusive == 1 else 'do'} not count."
            )
    never = [c.configuration for c in summary.cells if not (c.trials or c.inconclusive or c.failed)]
    if never:
        lines.append(f"Not run, as {ENDED[summary.ended]}: {fmt.listing(map(fmt.quoted, never))}.")
    if summary.rounds == 1:
        lines.append("One run of each configuration shows what can happen, not how often.")
    return lines


def _when_no_acks(summary: Summary) -> list[str]:
    """Return after which faults the times without acks were measured."""
    timed: dict[str, list[str]] = {}
    for cell in summary.cells:
        if cell.unavailability_s and cell.faults:
            timed.setdefault(after(cell.faults), []).append(cell.configuration)
    if len(timed) == 1:
        return [f"No acks: in all, on the worst partition,{faults}." for faults in timed]
    return [
        f"No acks with {fmt.listing(map(fmt.quoted, names))}: in all, on the worst partition,"
        f"{faults}."
        for faults, names in timed.items()
    ]


def _unequal(cells: Sequence[Cell]) -> str:
    """Return a sentence if configurations had the same faults for different times."""
    seconds = {cell.configuration: cell.fault_s.median for cell in cells if cell.fault_s}
    if not seconds or max(seconds.values()) <= _SAME_TIME * min(seconds.values()) + _NOTICED_S:
        return ""
    each = fmt.listing(f"{fmt.seconds(s)} with {fmt.quoted(n)}" for n, s in seconds.items())
    return (
        f"The same faults were not in force for the same time: {each}. Times without acks and "
        "numbers of sends depend on that. Faults that begin and end by time or by the ISR, not by "
        "acks, last equally long in each configuration."
    )


def comparable(cell: Cell, summary: Summary) -> list[Cell]:
    """Return the configurations with trials under the same faults, with this one."""
    faults = summary.plan.faults
    return [
        other
        for other in summary.cells
        if other.trials and faults.get(other.configuration) == faults.get(cell.configuration)
    ]


def dominators(cell: Cell, summary: Summary) -> list[Cell]:
    """Return the configurations that are no worse in loss, unavailability and p99, better in one.

    Only configurations under the same faults are compared, and only measured times.
    """
    return [other for other in comparable(cell, summary) if _dominates(other, cell)]


def _dominates(a: Cell, b: Cell) -> bool:
    if not (is_measured(a) and is_measured(b)):
        return False
    ours, theirs = ((loss_rate(cell), unavailable_s(cell), p99_ms(cell)) for cell in (a, b))
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))


def loss_rate(cell: Cell) -> float:
    """Return the share of trials that lost; 1 without trials."""
    return cell.losing / cell.trials if cell.trials else 1.0


def unavailable_s(cell: Cell) -> float:
    return cell.unavailability_s.median if cell.unavailability_s else math.inf


def p99_ms(cell: Cell) -> float:
    """Return the p99 of ack latency, or its upper bound; infinite without any."""
    latency = cell.ack_latency_ms or cell.ack_latency_at_most_ms
    return latency["p99"].median if "p99" in latency else math.inf
