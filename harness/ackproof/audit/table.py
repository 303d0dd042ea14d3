"""The table of an answer: a row for failures, a column for each assumption or change."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ackproof.audit import merging
from ackproof.audit.answer import (
    Answer,
    Assumed,
    Cell,
    Column,
    Effect,
    Facts,
    Grid,
    Risk,
    Row,
    Table,
    Word,
)
from ackproof.audit.assumption import Condition, Versions
from ackproof.audit.failure import EVENTS, Failure, Failures, covers, how_rare, kinds, milder
from ackproof.audit.identity import losses_after
from ackproof_model.kafka_settings import ACKS, REPLICATION_FACTOR

_SAFE, _UNDECIDED, _NO = Cell(word=Word.SAFE), Cell(word=Word.NOT_DECIDED), Cell(word=Word.NO)
_UNKNOWN = Cell(word=Word.UNKNOWN)
#: The word of a cell for an effect that is possible, and for one that is certain.
_WORDS: Mapping[Effect, tuple[Word, Word]] = {
    Effect.LOST: (Word.CAN_LOSE, Word.LOSES),
    Effect.DUPLICATED: (Word.REPEATS, Word.REPEATS),
    Effect.REORDERED: (Word.REORDERS, Word.REORDERS),
    Effect.UNPROCESSED: (Word.SKIPS, Word.SKIPS),
    Effect.REPROCESSED: (Word.REPEATS, Word.REPEATS),
    Effect.UNDELIVERED: (Word.SKIPS, Word.SKIPS),
    Effect.ARCHIVED: (Word.SKIPS, Word.SKIPS),
}
#: Effects of which a table has one row, with the smallest number of brokers that are down.
STOPS = (Effect.WRITES_STOP, Effect.READS_STOP)

_CRASH, _LAG, _POWER = Failure.CRASH, Failure.LAG, Failure.POWER_LOSS
_MOVE = Failure.REASSIGNMENT
#: Planned elections and moves with failures (B56, B57): shown unless fewer failures usually lose.
_BY_PLAN: tuple[Failures, ...] = (
    (Failure.LEADER_MOVE, _CRASH, _CRASH),
    (_MOVE, _MOVE, _LAG, _CRASH),
    (_MOVE, _MOVE, _MOVE, _LAG, _CRASH),
)
#: Failures that are shown if they are safe, too; larger sets replace their parts.
_FAMILIAR: tuple[Failures, ...] = (
    (Failure.RECREATED,),
    (_CRASH,),
    (Failure.CLEAN_RESTART,),
    (_POWER,),
    (Failure.DISK_REPLACED,),
    (_LAG, _CRASH),
    (_LAG, _POWER),
    (_LAG, Failure.DISK_REPLACED),
    *_BY_PLAN,
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
_SPLIT_BY, _MOST_VALUES = (ACKS, REPLICATION_FACTOR, "producer.version"), 3
_VERSION = "kafka.version"


def table(answer: Answer, grid: Grid, changed: Sequence[tuple[tuple[str, str], Assumed]]) -> Table:
    """Return the table of an answer.

    grid: of the answers from which it was merged. changed: each change of a setting to a value,
    with the answers after it and those before it.
    """
    parts = [*_split(grid), *(_changed(change, after) for change, after in changed)]
    parts, lost = _without_repetition(parts, _losses(answer, parts))
    rows, more = _loss_rows(parts, lost)
    rows += [*_other_rows(answer, parts), *_stop_rows(parts)]
    return Table(
        columns=tuple(part.head for part in parts),
        rows=tuple(rows),
        more=more,
        replicas=_replicas(answer),
    )


def _replicas(answer: Answer) -> int | None:
    given = answer.settings.get(REPLICATION_FACTOR)
    return int(given.value) if given and given.value.isdecimal() else None


def _brokers(failures: Failures) -> int:
    """Return how many brokers end."""
    return sum(EVENTS[one].severity > 0 for one in failures)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The answers of a column: today's, those with some values, or those after changes.

    after: the risks after changes, with the first combination of unstated values.
    """

    head: Column
    grid: Grid
    after: Sequence[Risk] = ()

    @cached_property
    def _space(self) -> merging.Space:
        return merging.Space(self.grid.whens)

    @cached_property
    def _risks(self) -> Mapping[Effect, Sequence[tuple[Facts, int]]]:
        """The answers that have each risk, as bit sets."""
        by_effect: dict[Effect, list[tuple[Facts, int]]] = {}
        for facts, points in self.grid.risks.items():
            by_effect.setdefault(facts.effect, []).append((facts, points))
        return by_effect

    @cached_property
    def _survived(self) -> Collection[Failures]:
        return merging.survived(dict.fromkeys(self.grid.survives))

    @cached_property
    def _undecided(self) -> Collection[Failures]:
        return set(merging.undecided(self.grid))

    @property
    def rare(self) -> Iterator[Failures]:
        """The sets of failures whose losses are rare."""
        for facts, _ in self._risks.get(Effect.LOST, ()):
            if facts.rare:
                yield facts.failures

    @property
    def losing(self) -> Iterable[Failures]:
        return (facts.failures for facts, _ in self._risks.get(Effect.LOST, ()))

    def cell(
        self, effect: Effect, failures: Failures | None, *, none: Cell, case: str | None = None
    ) -> Cell:
        """Return the cell for an effect of these failures, or of any; `none` if no answer has it.

        case: only risks of this known case.
        """
        having = certain = usual = 0
        by_own: dict[Condition, int] = {}
        for facts, points in self._risks.get(effect, ()):
            if case in (None, facts.case) and (
                failures is None or covers(facts.failures, failures)
            ):
                having |= points
                certain |= points if facts.certain else 0
                usual |= 0 if facts.rare else points
                by_own[facts.own] = by_own.get(facts.own, 0) | points
        if not having:
            return none
        always = by_own.get((), 0)
        conditions = tuple(
            (*when.items(), *own)
            for own, points in by_own.items()
            if not own or points & ~always
            for _, when in self._space.boxes(points)
        )
        rarely = effect is Effect.LOST and not usual
        return Cell(
            word=Word.RARELY if rarely else _WORDS[effect][having == certain],
            conditions=conditions if all(conditions) else (),
        )

    def lost(self, failures: Failures) -> Cell:
        """Return the cell about a loss; `_UNKNOWN` if it was not searched."""
        survived = tuple(sorted(failures)) in self._survived
        unfinished = any(covers(part, failures) for part in self._undecided)
        none = _SAFE if survived else _UNDECIDED if unfinished else _UNKNOWN
        return self.cell(Effect.LOST, failures, none=none)

    def down(self, effect: Effect) -> Cell:
        """Return how many brokers must be down, from the fewest to the most under all values."""
        by_number: dict[int, int] = {}
        always: dict[int, int] = {}  # without further conditions
        for facts, points in self._risks.get(effect, ()):
            if set(facts.failures) <= {_CRASH}:
                number = len(facts.failures)
                by_number[number] = by_number.get(number, 0) | points
                always[number] = always.get(number, 0) | (0 if facts.own else points)
        fewest, seen = [], 0
        for number, points in sorted(by_number.items()):
            if points & ~seen:
                fewest.append(number)
            seen |= always[number]
        if not fewest:
            return _UNKNOWN
        if fewest == [0]:
            return Cell(word=Word.ALWAYS)
        return Cell(word=Word.DOWN, down=(fewest[0], fewest[-1]))


def _split(grid: Grid) -> list[_Part]:
    """Return a column for each value of an unstated setting with few values, else one for today."""
    for key in _SPLIT_BY:
        values = list(dict.fromkeys(when[key] for when in grid.whens if key in when))
        if 1 < len(values) <= _MOST_VALUES and all(key in when for when in grid.whens):
            return [
                _Part(
                    head=Column(setting=key, values=(str(value),)),
                    grid=grid.only(
                        [at for at, when in enumerate(grid.whens) if when[key] == value]
                    ),
                )
                for value in values
            ]
    return [_Part(head=Column(), grid=grid)]


def _changed(change: tuple[str, str], after: Assumed) -> _Part:
    head = Column(changes=(change,))
    return _Part(head=head, grid=merging.grid(after), after=tuple(after.of(0)))


#: The cells of sets of failures.
_Cells = Mapping[Failures, tuple[Cell, ...]]


def _losses(answer: Answer, parts: Sequence[_Part]) -> _Cells:
    """Return the cells about losses, for familiar failures and for failures that lose.

    Three failures and more that rarely lose are shown only if they are familiar.
    """
    familiar = [one for one in _FAMILIAR if _brokers(one) <= (_replicas(answer) or math.inf)]
    every = [*familiar, *(risk.failures for risk in answer.risks if risk.effect is Effect.LOST)]
    for part in parts:
        every += part.losing
    rare = {failures for failures in _rare(parts) if len(failures) > 2}
    alike: dict[tuple[str, ...], Failures] = {}
    for failures in every:
        if failures in _FAMILIAR or failures not in rare:
            alike.setdefault(tuple(sorted(failures)), failures)
    return {
        failures: tuple(part.lost(failures) for part in parts)
        for failures in sorted(alike.values(), key=how_rare)
    }


def _rare(parts: Sequence[_Part]) -> set[Failures]:
    return {failures for part in parts for failures in part.rare}


def _without_repetition(
    parts: Sequence[_Part], cells: _Cells
) -> tuple[list[_Part], dict[Failures, tuple[Cell, ...]]]:
    """Join equal columns, and leave out changes that change no cell."""
    joined: list[tuple[_Part, tuple[Cell, ...]]] = []
    left_out: tuple[tuple[str, str], ...] = ()
    for number, part in enumerate(parts):
        own = tuple(of_part[number] for of_part in cells.values())
        at = next((at for at, (_, other) in enumerate(joined) if other == own), None)
        if at is None:
            head = replace(part.head, changes=(*left_out, *part.head.changes))
            joined.append((replace(part, head=head), own))
            left_out = ()
        elif part.head.changes:
            left_out = (*left_out, *part.head.changes)
        else:
            first = joined[at][0]
            values = (*first.head.values, *part.head.values)
            head = replace(first.head, values=values)
            joined[at] = (replace(first, head=head, grid=first.grid.and_(part.grid)), own)
    kept = [part for part, _ in joined]
    if sum(bool(part.head.values) for part in kept) == 1:  # the columns of all values were joined
        kept = [replace(one, head=Column()) if one.head.values else one for one in kept]
    return kept, {
        failures: tuple(own[number] for _, own in joined) for number, failures in enumerate(cells)
    }


def _loss_rows(parts: Sequence[_Part], cells: _Cells) -> tuple[list[Row], int]:
    """Return the rows about losses, and the number of losing sets that have no row."""
    usual = _WORDS[Effect.LOST]
    shown = {
        failures: of_set
        for failures, of_set in cells.items()
        if of_set[0] != _UNKNOWN and not (failures in _BY_PLAN and of_set[0].word in usual)
    }
    shown = {
        failures: of_set
        for failures, of_set in shown.items()
        if not any(_replaces(other, failures, shown[other], of_set) for other in shown)
    }
    alike: dict[object, list[Failures]] = {}
    for failures, of_set in shown.items():
        alike.setdefault((of_set, kinds(failures)), []).append(failures)
    groups = list(alike.values())
    short = [
        group
        for group in groups
        if len(group[0]) < 3 or how_rare(group[0])[1] == 1 or group[0] in _FAMILIAR
    ]
    long = [group for group in groups if group not in short]
    ranked = sorted(short, key=lambda group: _rank(shown[group[0]]))[:_MOST_ROWS]
    recent = [group for group in ranked if _rank(shown[group[0]]) < _OLD]
    ranked = ranked[: max(len(recent), _ENOUGH_ROWS)]
    rare = _rare(parts)
    lost = [group for group in ranked if set(shown[group[0]]) != {_SAFE} and group[0] not in rare]
    ranked += long[: max(0, _ENOUGH_LOST - len(lost), _ENOUGH_ROWS - len(ranked))]
    rows = [
        Row(
            effect=Effect.LOST,
            sets=tuple(group),
            cells=shown[group[0]],
            after=tuple(risk for one in group for risk in losses_after(parts[-1].after, one)),
        )
        for group in groups
        if group in ranked
    ]
    return rows, len(shown) - sum(map(len, ranked))


def _replaces(
    other: Failures, failures: Failures, others: tuple[Cell, ...], cells: tuple[Cell, ...]
) -> bool:
    """Whether `other` makes a row redundant: a safe superset, or a losing subset.

    A set in which brokers only end in worse ways has a row only if it is familiar.
    """
    alike = all(cell in (_UNKNOWN, said) for cell, said in zip(cells, others, strict=True))
    if other == failures or not alike:
        return False
    larger = covers(failures, other) and set(cells) == {_SAFE}
    smaller = covers(other, failures) and _SAFE not in cells
    return larger or smaller or (failures not in _FAMILIAR and milder(other, failures))


def _rank(cells: tuple[Cell, ...]) -> int:
    """Return the rank of a row; rows that concern only old versions are left out first."""
    if set(cells) == {_SAFE}:
        return 1
    lost = [cell for cell in cells if cell.word in (*_WORDS[Effect.LOST], Word.RARELY)]
    if any(not cell.conditions for cell in lost):
        return 0
    return 2 if any(_recent(cell) for cell in lost) else _OLD


def _recent(cell: Cell) -> bool:
    """Whether a condition holds for the newest version, or no condition names a version."""
    versions = [dict(condition).get(_VERSION) for condition in cell.conditions]
    return any(isinstance(one, Versions) and one.newest for one in versions) or not any(versions)


def _other_rows(answer: Answer, parts: Sequence[_Part]) -> Iterator[Row]:
    """Yield a row for each effect and case of clients, with all failures that have it."""
    sets: dict[tuple[Effect, str], dict[Failures, None]] = {}
    for risk in answer.risks:
        if risk.effect in _WORDS and risk.effect is not Effect.LOST:
            sets.setdefault((risk.effect, risk.case), {})[risk.failures] = None
    for (effect, case), failures in sets.items():
        cells = tuple(part.cell(effect, None, none=_NO, case=case) for part in parts)
        yield Row(effect=effect, case=case, sets=tuple(failures), cells=cells)


def _stop_rows(parts: Sequence[_Part]) -> Iterator[Row]:
    for effect in STOPS:
        cells = tuple(part.down(effect) for part in parts)
        if set(cells) != {_UNKNOWN}:
            yield Row(effect=effect, cells=cells)
