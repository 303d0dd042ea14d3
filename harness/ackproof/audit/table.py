"""The table of an answer: a row for failures, a column for each assumption or change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ackproof.audit import merging
from ackproof.audit.answer import Answer, Assumed, Effect, Failure, Failures, Risk
from ackproof.audit.words import condition, covers, kinds, milder, phrase_of, short

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
#: How many rows about losses a table has; those of three failures only if it has few others.
_MOST_ROWS, _ENOUGH_ROWS, _ENOUGH_LOST = 10, 5, 2
#: The rank of losses of old versions only.
_OLD = 3
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
    """footnotes: the conditions of cells, with their marks. more: losing sets without a row."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]
    more: int


def table(answer: Answer) -> Table:
    columns = _columns(answer)
    lost = _losses(answer, columns)
    columns, lost = _without_repetition(columns, lost)
    rows, more = _loss_rows(answer, columns, lost)
    rows += [*_other_rows(answer, columns), *_stop_rows(columns)]
    conditions = list(dict.fromkeys(_parted(cell)[1] for row in rows for cell in row.cells))
    marks = {text: chr(ord("a") + at) for at, text in enumerate(filter(None, conditions))}
    return Table(
        columns=tuple(column.head for column in columns),
        rows=tuple(
            replace(row, cells=tuple(_marked(cell, marks) for cell in row.cells)) for row in rows
        ),
        footnotes=tuple(f"({mark}) {text}" for text, mark in marks.items()),
        more=more,
    )


def _parted(cell: str) -> tuple[str, str]:
    """Return the word of a cell, and the condition under which it holds."""
    word, found, condition = cell.partition(" with ")
    return word, found.lstrip() + condition


def _marked(cell: str, marks: Mapping[str, str]) -> str:
    word, condition = _parted(cell)
    return f"{word} ({marks[condition]})" if condition else word


@dataclass(frozen=True, kw_only=True)
class _Column:
    """The answers under some assumptions: all of today, those of one value, or after changes.

    value: of the unstated setting that the column is about; '' for today and for changes.
    """

    head: str
    assumed: tuple[Assumed, ...]
    value: str = ""

    @cached_property
    def _space(self) -> merging.Space:
        return merging.Space([one.when for one in self.assumed])

    @cached_property
    def _risks(self) -> Mapping[Effect, Mapping[tuple[Failures, str, str], int]]:
        """The answers with each effect, a bit each, by failures, known case and likelihood."""
        found: dict[Effect, dict[tuple[Failures, str, str], int]] = {}
        for risk, points in merging.having(self.assumed):
            of_effect = found.setdefault(risk.effect, {})
            key = risk.failures, risk.case, risk.likelihood
            of_effect[key] = of_effect.get(key, 0) | points
        return found

    @cached_property
    def _survived(self) -> Collection[Failures]:
        return merging.survived(dict.fromkeys(one.survives for one in self.assumed))

    @cached_property
    def _undecided(self) -> Collection[Failures]:
        return {part for one in self.assumed for part in one.undecided}

    @property
    def losing(self) -> Iterable[Failures]:
        return (failures for failures, _, _ in self._risks.get(Effect.LOST, ()))

    def word(
        self, effect: Effect, failures: Failures | None, *, none: str, case: str | None = None
    ) -> str:
        """Return the word for an effect of these failures, or of any; `none` if it has none.

        case: only risks of this known case.
        """
        having = certain = 0
        for (some, known, likelihood), points in self._risks.get(effect, {}).items():
            if case in (None, known) and (failures is None or covers(some, failures)):
                having |= points
                certain |= points if likelihood == "certain" else 0
        if not having:
            return none
        word = _WORDS[effect][having == certain]
        held = [condition(when) for _, when in self._space.boxes(having)]
        if not all(held):
            return word
        return f"{word} {' or '.join(held)}"

    def lost(self, failures: Failures) -> str:
        """Return the word about a loss; '' if nobody searched for it."""
        survived = tuple(sorted(failures)) in self._survived
        unfinished = any(covers(part, failures) for part in self._undecided)
        none = _SAFE if survived else _UNDECIDED if unfinished else ""
        return self.word(Effect.LOST, failures, none=none)

    def down(self, effect: Effect) -> list[int]:
        """Return how many brokers must be down for an effect, the fewest of each answer."""
        by_number: dict[int, int] = {}
        for (failures, _, _), points in self._risks.get(effect, {}).items():
            if set(failures) <= {_CRASH}:
                by_number[len(failures)] = by_number.get(len(failures), 0) | points
        fewest, seen = [], 0
        for number, points in sorted(by_number.items()):
            if points & ~seen:
                fewest.append(number)
            seen |= points
        return fewest


def _columns(answer: Answer) -> list[_Column]:
    columns = _split(answer.assumed)
    changed = [
        _Column(
            head=f"+ {short(one.changes[-1].setting, one.changes[-1].change)}",
            assumed=one.assumed,
        )
        for one in answer.alternatives
    ]
    return columns + changed


def _split(assumed: tuple[Assumed, ...]) -> list[_Column]:
    """Return a column for each value of an unstated setting that has few, else one for today."""
    for key in _SPLIT_BY:
        values = list(dict.fromkeys(one.when[key] for one in assumed if key in one.when))
        if 1 < len(values) <= _MOST_VALUES and all(key in one.when for one in assumed):
            return [
                _Column(
                    head=short(key, value),
                    value=value,
                    assumed=tuple(one for one in assumed if one.when[key] == value),
                )
                for value in values
            ]
    return [_Column(head="today", assumed=assumed)]


def _replicas(answer: Answer) -> int | None:
    given = answer.settings.get("replication.factor")
    return int(given.value) if given and given.value.isdecimal() else None


#: The cells of sets of failures.
_Cells = Mapping[Failures, tuple[str, ...]]


def _losses(answer: Answer, columns: Sequence[_Column]) -> _Cells:
    """Return the cells about losses, of familiar failures and of those that lose."""
    every = [*_FAMILIAR, *(risk.failures for risk in _lost(answer.risks))]
    for column in columns:
        every += column.losing
    alike: dict[tuple[str, ...], Failures] = {}
    for failures in every:
        alike.setdefault(tuple(sorted(failures)), failures)
    return {
        failures: tuple(column.lost(failures) for column in columns)
        for failures in sorted(alike.values(), key=len)
    }


def _lost(risks: Iterable[Risk]) -> Iterator[Risk]:
    return (risk for risk in risks if risk.effect is Effect.LOST)


def _without_repetition(
    columns: Sequence[_Column], cells: _Cells
) -> tuple[list[_Column], dict[Failures, tuple[str, ...]]]:
    """Join columns of values with the same cells, and leave out changes that change no cell."""
    joined: list[tuple[_Column, tuple[str, ...]]] = []
    left_out = ""
    for number, column in enumerate(columns):
        own = tuple(words[number] for words in cells.values())
        at = next((at for at, (_, other) in enumerate(joined) if other == own), None)
        if at is None:
            head = f"{left_out}{column.head}"
            joined.append((replace(column, head=head), own))
            left_out = ""
        elif not column.value:
            left_out = f"{left_out}{column.head} "
        else:
            first = joined[at][0]
            both = replace(
                first,
                head=f"{first.head} or {column.value}",
                assumed=(*first.assumed, *column.assumed),
            )
            joined[at] = (both, own)
    kept = [column for column, _ in joined]
    if sum(bool(column.value) for column in kept) == 1:  # the columns of all values were joined
        kept = [replace(one, head="today") if one.value else one for one in kept]
    return kept, {
        failures: tuple(own[number] for _, own in joined) for number, failures in enumerate(cells)
    }


def _loss_rows(answer: Answer, columns: Sequence[_Column], cells: _Cells) -> tuple[list[Row], int]:
    """Return the rows about losses, and the number of sets of failures that have none."""
    shown = {failures: words for failures, words in cells.items() if words[0]}
    shown = {
        failures: words
        for failures, words in shown.items()
        if not any(_replaces(other, failures, shown[other], words) for other in shown)
    }
    alike: dict[object, list[Failures]] = {}
    for failures, words in shown.items():
        alike.setdefault((words, kinds(failures)), []).append(failures)
    groups = list(alike.values())
    short = [group for group in groups if len(group[0]) < 3 or group[0] in _FAMILIAR]
    long = [group for group in groups if group not in short]
    ranked = sorted(short, key=lambda group: _rank(shown[group[0]]))[:_MOST_ROWS]
    recent = [group for group in ranked if _rank(shown[group[0]]) < _OLD]
    ranked = ranked[: max(len(recent), _ENOUGH_ROWS)]
    lost = [group for group in ranked if set(shown[group[0]]) != {_SAFE}]
    ranked += long[: max(0, _ENOUGH_LOST - len(lost), _ENOUGH_ROWS - len(ranked))]
    rows = [
        _loss_row(answer, columns, group, shown[group[0]]) for group in groups if group in ranked
    ]
    return rows, len(shown) - sum(map(len, ranked))


def _loss_row(
    answer: Answer, columns: Sequence[_Column], group: Sequence[Failures], words: tuple[str, ...]
) -> Row:
    """Return the row of a set of failures, or of several single ones with the same words."""
    risks = [risk for failures in group for risk in _same(answer.risks, Effect.LOST, failures)]
    if not risks:
        after = [*columns[-1].assumed[0].risks]
        risks = [risk for failures in group for risk in _same(after, Effect.LOST, failures)]
    label = phrase_of(group, _replicas(answer))
    if risks and all(risk.accepted for risk in risks):
        words = (f"{words[0].lower()} (accepted)", *words[1:])
    return _row(label, words, risks)


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
    """Return how soon a row is left out of a long table: losses of old versions only first."""
    if set(cells) == {_SAFE}:
        return 1
    lost = [cell for cell in cells if cell.startswith(_WORDS[Effect.LOST])]
    if set(lost) & set(_WORDS[Effect.LOST]):
        return 0
    return 2 if any("or later" in cell or "Kafka" not in cell for cell in lost) else _OLD


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
    """Yield a row for each effect and case of clients, with all failures that have it."""
    found: dict[tuple[Effect, str], list[Risk]] = {}
    for risk in answer.risks:
        if risk.effect in _WORDS and risk.effect is not Effect.LOST:
            found.setdefault((risk.effect, risk.case), []).append(risk)
    for (effect, case), risks in found.items():
        alike: dict[object, dict[Failures, None]] = {}
        for risk in risks:
            alike.setdefault(kinds(risk.failures), {})[risk.failures] = None
        causes = [phrase_of(list(sets)) for sets in alike.values()]
        cells = tuple(column.word(effect, None, none=_NO, case=case) for column in columns)
        few = len(causes) < 3
        label = " or ".join(causes) if few else f"{causes[0]}, or {len(causes) - 1} other failures"
        yield _row(label, cells, risks)


def _stop_rows(columns: Sequence[_Column]) -> Iterator[Row]:
    for effect, label in STOPS.items():
        cells = tuple(_stop_cell(column, effect) for column in columns)
        if any(cells):
            yield Row(label=label, cases="", cells=cells)


def _stop_cell(column: _Column, effect: Effect) -> str:
    """Return how many brokers must be down, from the fewest to the most under all assumptions."""
    known = column.down(effect)
    if not known:
        return ""
    if known == [0]:
        return "always"
    return f"{known[0]} to {known[-1]} down" if len(known) > 1 else f"{known[0]} down"
