"""The table of an answer in words, which the terminal, Markdown and the page show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ackproof.audit.answer import Answer, Cell, Column, Effect, Risk, Row, Word
from ackproof.audit.identity import losses_after
from ackproof.audit.words import condition, phrase_of, phrase_of_any, short

_STOPS = {Effect.WRITES_STOP: "writes stop after", Effect.READS_STOP: "reads stop after"}
_Tone = Literal["good", "bad", "unclear", "plain"]
_TONES: Mapping[Word, _Tone] = {
    Word.LOSES: "bad",
    Word.CAN_LOSE: "bad",
    Word.RARELY: "unclear",
    Word.SAFE: "good",
    Word.NO: "good",
    Word.DOWN: "plain",
    Word.UNKNOWN: "plain",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCell:
    """text: with the mark of its footnote. tone: bad for a loss that was not accepted.

    footnote: as the table has it; '' without a condition.
    """

    text: str
    tone: _Tone
    footnote: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """Failures, the effect and the known losses that they have, and a cell for each column.

    runs: such as `10/10`: how many runs on real brokers showed it, or lost records with `--prove`.
    """

    effect: Effect
    label: str
    cases: str
    cells: tuple[ShownCell, ...]
    runs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """footnotes: the conditions of cells, with their marks. more: losing sets without a row."""

    columns: tuple[str, ...]
    rows: tuple[ShownRow, ...]
    footnotes: tuple[str, ...]
    more: int


#: The most rows of a table on one screen.
_MOST_ROWS = 9


def on_one_screen(table: ShownTable) -> ShownTable:
    """Return a table that leaves out rows about clients if it is long.

    Rows whose effect or known loss a row above has, too, are left out, with their footnotes.
    """
    if len(table.rows) <= _MOST_ROWS:
        return table
    rows: list[ShownRow] = []
    for row in table.rows:
        of_brokers = row.effect is Effect.LOST or row.effect in _STOPS
        above = any(
            one.effect is row.effect or one.cases == row.cases != ""
            for one in rows
            if one.effect is not Effect.LOST
        )
        if of_brokers or not above:
            rows.append(row)
    used = {cell.footnote for row in rows for cell in row.cells}
    kept = tuple(one for one in table.footnotes if one in used)
    return replace(table, rows=tuple(rows), footnotes=kept)


def shown(answer: Answer) -> ShownTable:
    """Return the table of an answer that has one."""
    table = answer.table
    if table is None:
        return ShownTable(columns=(), rows=(), footnotes=(), more=0)
    conditions = dict.fromkeys(_condition(cell) for row in table.rows for cell in row.cells)
    marks = {text: chr(ord("a") + at) for at, text in enumerate(filter(None, conditions))}
    return ShownTable(
        columns=tuple(map(_head, table.columns)),
        rows=tuple(_row(answer, row, table.replicas, marks) for row in table.rows),
        footnotes=tuple(_footnote(mark, text) for text, mark in marks.items()),
        more=table.more,
    )


def _head(column: Column) -> str:
    parts = [f"+ {short(setting, value)}" for setting, value in column.changes]
    if column.values:
        first, *others = column.values
        parts.append(" or ".join([short(column.setting, first), *others]))
    return " ".join(parts) or "today"


def _footnote(mark: str, text: str) -> str:
    return f"({mark}) {text}"


def _condition(cell: Cell) -> str:
    return " or ".join(condition(dict(pairs)) for pairs in cell.conditions)


def _row(answer: Answer, row: Row, replicas: int | None, marks: Mapping[str, str]) -> ShownRow:
    risks = [*_risks(answer, row)]
    accepted = row.effect is Effect.LOST and bool(risks) and all(risk.accepted for risk in risks)
    return ShownRow(
        effect=row.effect,
        label=f"{_label(row, replicas)}{_why(risks) if row.effect is Effect.LOST else ''}",
        cases=", ".join(dict.fromkeys(risk.case for risk in risks if risk.case)),
        cells=tuple(
            _cell(cell, marks, accepted=accepted and at == 0) for at, cell in enumerate(row.cells)
        ),
        runs=_runs(risks),
    )


def _cell(cell: Cell, marks: Mapping[str, str], *, accepted: bool) -> ShownCell:
    text = str(cell.word)
    if cell.word is Word.DOWN:
        fewest, most = cell.down
        text = f"{fewest} to {most} down" if fewest < most else f"{fewest} down"
    if accepted:
        text = f"{text.lower()} (accepted)"
    footnote = ""
    if stated := _condition(cell):
        text = f"{text} ({marks[stated]})"
        footnote = _footnote(marks[stated], stated)
    tone = "unclear" if accepted else _TONES.get(cell.word, "unclear")
    return ShownCell(text=text, tone=tone, footnote=footnote)


def _risks(answer: Answer, row: Row) -> Iterator[Risk]:
    """Yield the risks of a row; those after all changes if there are none today."""
    if row.effect is Effect.LOST:
        today = [risk for one in row.sets for risk in losses_after(answer.risks, one)]
        yield from today or row.after
    elif row.sets:
        yield from (
            risk for risk in answer.risks if (risk.effect, risk.case) == (row.effect, row.case)
        )


def _why(losses: Sequence[Risk]) -> str:
    """Return what the failures of a row do not say: the cause, and whether all losses are rare."""
    causes = list(dict.fromkeys(risk.cause for risk in losses if risk.cause))
    causes += ["rare"] * (bool(losses) and all(risk.rare for risk in losses))
    return f" ({', '.join(causes)})" if causes else ""


def _label(row: Row, replicas: int | None) -> str:
    if not row.sets:
        return _STOPS[row.effect]
    if row.effect is Effect.LOST:
        return phrase_of(row.sets, replicas)
    return phrase_of_any(row.sets)


def _runs(risks: Sequence[Risk]) -> str:
    for risk in risks:
        if risk.here:
            return f"lost {risk.here.lost:,} of {risk.here.acked:,} here"
    runs = {risk.case: risk.runs for risk in risks if risk.runs}
    if not runs:
        return ""
    return f"{sum(one.showed for one in runs.values())}/{sum(one.of for one in runs.values())}"
