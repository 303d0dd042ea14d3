"""The table of an answer: a row for failures, a column for each assumption or change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.audit import merging
from ackproof.audit.answer import Answer, Assumed, Effect, Failure, Failures, Risk
from ackproof.audit.words import condition, covers, milder, phrase, short

_SAFE, _UNDECIDED, _NO = "safe", "not decided", "no"
#: The word of a cell for an effect that is possible, and for one that is certain.
_WORDS: Mapping[Effect, tuple[str, str]] = {
    Effect.LOST: ("CAN LOSE", "LOSES"),
    Effect.DUPLICATED: ("repeats", "repeats"),
    Effect.REORDERED: ("reorders", "reorders"),
    Effect.UNPROCESSED: ("skips", "skips"),
    Effect.REPROCESSED: ("repeats", "repeats"),
}
#: Effects of which a table has one row, with the smallest number of brokers that are down.
STOPS = {Effect.WRITES_STOP: "writes stop after", Effect.READS_STOP: "reads stop after"}

_CRASH, _LAG, _POWER = Failure.CRASH, Failure.LAG, Failure.POWER_LOSS
#: Failures that are shown if they are safe, too; larger sets replace their parts.
_FAMILIAR: tuple[Failures, ...] = (
    (_CRASH,),
    (Failure.CLEAN_RESTART,),
    (_POWER,),
    (Failure.DISK_REPLACED,),
    (_LAG, _CRASH),
    (_LAG, _POWER),
    (_LAG, Failure.DISK_REPLACED),
    (Failure.RACK,),
    (_CRASH, _CRASH),
    (_POWER, _POWER),
    (_POWER, _POWER, _POWER),
)
#: How many rows about losses a table has, and how many columns.
_MOST_ROWS, _MOST_COLUMNS = 10, 5
#: Unstated settings of which each value has a column, the first that decides; not more values.
_SPLIT_BY, _MOST_VALUES = ("acks", "replication.factor", "producer.version"), 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Failures, the known losses they cause, and a word for each column.

    runs: `10/10`, those on real brokers that showed it, or the losses of `--prove`.
    """

    label: str
    cases: str
    cells: tuple[str, ...]
    runs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """more: how many sets of failures that lose have no row."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    more: int


def table(answer: Answer) -> Table:
    columns = _columns(answer)
    rows, more = _loss_rows(answer, columns)
    return Table(
        columns=tuple(column.head for column in columns),
        rows=(*rows, *_other_rows(answer, columns), *_stop_rows(columns)),
        more=more,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """The answers under some assumptions: all of today, those of one value, or after changes."""

    head: str
    assumed: tuple[Assumed, ...]

    def word(self, effect: Effect, failures: Failures | None, *, none: str) -> str:
        """Return the word for an effect of these failures, or of any; `none` if it has none."""
        having: dict[int, bool] = {}
        for at, one in enumerate(self.assumed):
            risks = [
                risk
                for risk in one.risks
                if risk.effect is effect and (failures is None or covers(risk.failures, failures))
            ]
            if risks:
                having[at] = any(risk.likelihood == "certain" for risk in risks)
        if not having:
            return none
        word = _WORDS[effect][all(having.values())]
        space = merging.Space([one.when for one in self.assumed])
        held = [condition(when) for _, when in space.boxes(having)]
        if not all(held):
            return word
        return f"{word} {' or '.join(held)}" if len(held) < 3 else f"{word} for some versions"

    def lost(self, failures: Failures, undecided: Sequence[Failures]) -> str:
        """Return the word about a loss; '' if nobody searched for it."""
        survived = all(
            any(covers(failures, larger) for larger in one.survives) for one in self.assumed
        )
        open_ = any(covers(one, failures) for one in undecided)
        none = _SAFE if survived else _UNDECIDED if open_ else ""
        return self.word(Effect.LOST, failures, none=none)


def _columns(answer: Answer) -> list[_Column]:
    columns = _split(answer.assumed)
    changed = [
        _Column(
            head=f"+ {short(one.changes[-1].setting, one.changes[-1].change)}",
            assumed=one.assumed,
        )
        for one in answer.alternatives
    ]
    return columns + changed[: max(1, _MOST_COLUMNS - len(columns))]


def _split(assumed: tuple[Assumed, ...]) -> list[_Column]:
    """Return a column for each value of an unstated setting that has few, else one for today."""
    for key in _SPLIT_BY:
        values = list(dict.fromkeys(one.when[key] for one in assumed if key in one.when))
        if 1 < len(values) <= _MOST_VALUES and all(key in one.when for one in assumed):
            return [
                _Column(
                    head=short(key, value),
                    assumed=tuple(one for one in assumed if one.when[key] == value),
                )
                for value in values
            ]
    return [_Column(head="today", assumed=assumed)]


def _replicas(answer: Answer) -> int | None:
    given = answer.settings.get("replication.factor")
    return int(given.value) if given and given.value.isdecimal() else None


def _loss_rows(answer: Answer, columns: Sequence[_Column]) -> tuple[list[Row], int]:
    """Return the rows about losses, and the number of sets of failures that have none."""
    minimal = [risk.failures for risk in answer.risks if risk.effect is Effect.LOST]
    minimal += [
        risk.failures
        for one in columns
        for each in one.assumed
        for risk in each.risks
        if risk.effect is Effect.LOST
    ]
    alike: dict[tuple[str, ...], Failures] = {}
    for failures in (*_FAMILIAR, *minimal):
        alike.setdefault(tuple(sorted(failures)), failures)
    shown = {
        failures: tuple(column.lost(failures, answer.undecided) for column in columns)
        for failures in sorted(alike.values(), key=len)
    }
    shown = {failures: cells for failures, cells in shown.items() if cells[0]}
    shown = {
        failures: cells
        for failures, cells in shown.items()
        if not any(_replaces(other, failures, shown[other], cells) for other in shown)
    }
    ranked = sorted(shown, key=lambda failures: _rank(shown[failures]))
    kept = set(ranked[:_MOST_ROWS])
    replicas = _replicas(answer)
    rows = [
        _row(
            phrase(failures, replicas),
            _with_accepted(answer, failures, cells),
            _same(answer.risks, Effect.LOST, failures)
            or _same(columns[-1].assumed[0].risks, Effect.LOST, failures),
        )
        for failures, cells in shown.items()
        if failures in kept
    ]
    return rows, len(shown) - len(rows)


def _replaces(
    other: Failures, failures: Failures, others: tuple[str, ...], cells: tuple[str, ...]
) -> bool:
    """Whether a row says what another one says, too: a safe one of more, a losing one of fewer.

    Of sets in which brokers end in worse ways, only familiar ones have a row.
    """
    alike = all(cell in ("", said) for cell, said in zip(cells, others, strict=True))
    if other == failures or not alike:
        return False
    larger = covers(failures, other) and set(cells) == {_SAFE}
    smaller = covers(other, failures) and _SAFE not in cells
    return larger or smaller or (failures not in _FAMILIAR and milder(other, failures))


def _rank(cells: tuple[str, ...]) -> int:
    """Return how soon a row is left out of a long table: conditional losses first."""
    words = set(_WORDS[Effect.LOST])
    return 0 if words & set(cells) else 1 if set(cells) == {_SAFE} else 2


def _with_accepted(answer: Answer, failures: Failures, cells: tuple[str, ...]) -> tuple[str, ...]:
    same = _same(answer.risks, Effect.LOST, failures)
    if same and all(risk.accepted for risk in same):
        return (f"{cells[0].lower()} (accepted)", *cells[1:])
    return cells


def _same(risks: Iterable[Risk], effect: Effect, failures: Failures) -> list[Risk]:
    return [
        risk
        for risk in risks
        if risk.effect is effect and sorted(risk.failures) == sorted(failures)
    ]


def _row(label: str, cells: tuple[str, ...], risks: Sequence[Risk]) -> Row:
    cases = ", ".join(dict.fromkeys(risk.case for risk in risks if risk.case))
    return Row(label=label, cases=cases, cells=cells, runs=_seen(risks))


def _seen(risks: Sequence[Risk]) -> str:
    for risk in risks:
        if risk.here:
            return f"lost {risk.here.lost:,} of {risk.here.acked:,} here"
    runs = {risk.case: risk.runs for risk in risks if risk.runs}
    if not runs:
        return ""
    return f"{sum(one.showed for one in runs.values())}/{sum(one.of for one in runs.values())}"


def _other_rows(answer: Answer, columns: Sequence[_Column]) -> Iterator[Row]:
    """Yield a row for each effect of clients, with all failures after which it happens."""
    for effect in _WORDS:
        risks = [risk for risk in answer.risks if risk.effect is effect]
        if effect is Effect.LOST or not risks:
            continue
        causes = list(dict.fromkeys(phrase(risk.failures) for risk in risks))
        more = f", or {len(causes) - 1} more" if len(causes) > 1 else ""
        cells = tuple(column.word(effect, None, none=_NO) for column in columns)
        yield _row(f"{causes[0]}{more}", cells, risks)


def _stop_rows(columns: Sequence[_Column]) -> Iterator[Row]:
    for effect, label in STOPS.items():
        cells = tuple(_stop_cell(column, effect) for column in columns)
        if any(cells):
            yield Row(label=label, cases="", cells=cells)


def _stop_cell(column: _Column, effect: Effect) -> str:
    """Return how many brokers must be down, from the fewest to the most under all assumptions."""
    counts = []
    for one in column.assumed:
        down = [
            len(risk.failures)
            for risk in one.risks
            if risk.effect is effect and set(risk.failures) <= {_CRASH}
        ]
        counts.append(min(down, default=-1))
    known = sorted({count for count in counts if count >= 0})
    if not known:
        return ""
    if known == [0]:
        return "always"
    return f"{known[0]} to {known[-1]} down" if len(known) > 1 else f"{known[0]} down"
