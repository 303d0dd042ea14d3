"""One answer as a question, a table of failures, a way to the loss, and changes.

The terminal, Markdown and the page show the same summary. Answers that differ only in the name of
the topic share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.audit.answer import (
    Alternative,
    Answer,
    Audit,
    Decision,
    Effect,
    Failure,
    Failures,
    Risk,
)
from ackproof.audit.words import EFFECTS, condition, covers, phrase, short, spelled

_SAFE, _UNDECIDED = "safe", "not decided"
#: The word of a cell for an effect that is possible, and for one that is certain.
_WORDS: Mapping[Effect, tuple[str, str]] = {
    Effect.LOST: ("CAN LOSE", "LOSES"),
    Effect.DUPLICATED: ("may repeat", "repeats"),
    Effect.REORDERED: ("may reorder", "reorders"),
    Effect.UNPROCESSED: ("may skip", "skips"),
    Effect.REPROCESSED: ("may repeat", "repeats"),
    Effect.REMOVED: ("may remove", "removes"),
    Effect.REFUSED: ("may be refused", "REFUSED"),
}
#: Effects of which a table has one row, with the smallest number of brokers that are down.
_STOPS = {Effect.WRITES_STOP: "writes stop after", Effect.READS_STOP: "reads stop after"}

_CRASH, _LAG, _POWER = Failure.CRASH, Failure.LAG, Failure.POWER_LOSS
#: Failures that are shown if they are safe, too; larger sets replace their parts.
_FAMILIAR: tuple[Failures, ...] = (
    (_CRASH,),
    (Failure.CLEAN_RESTART,),
    (_LAG, _CRASH),
    (_CRASH, _CRASH),
    (_POWER,),
    (_LAG, _POWER),
    (Failure.DISK_REPLACED,),
    (_LAG, Failure.DISK_REPLACED),
    (Failure.RACK,),
    (_POWER, _POWER),
    (_POWER, _POWER, _POWER),
)

_CLIENT_SETTINGS = (
    "acks",
    "enable.idempotence",
    "retries",
    "max.in.flight.requests.per.connection",
    "delivery.timeout.ms",
    "transactional.id",
    "enable.auto.commit",
    "auto.offset.reset",
    "isolation.level",
)


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
class Summary:
    """What a reader wants to know about the topics and the producer of alike answers.

    verdict: `YES`, `NO`, `DEPENDS` or `NOT DECIDED`. changes: each with the cost. notes: a sentence
    for each other risk that the table cannot explain.
    """

    answer: Answer
    topics: tuple[str, ...]
    question: str
    verdict: str
    verdict_text: str
    facts: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    how: tuple[str, ...]
    how_case: str
    changes: tuple[Decision, ...]
    notes: tuple[str, ...]
    accepted: tuple[str, ...]


def summaries(audit: Audit) -> list[Summary]:
    """Return a summary for each group of alike answers, the worst first."""
    groups: dict[object, list[Answer]] = {}
    for answer in audit.answers:
        groups.setdefault(_key(answer), []).append(answer)
    ordered = sorted(groups.values(), key=lambda group: _severity(group[0]), reverse=True)
    return [_summary(group) for group in ordered]


def losses(risks: Iterable[Risk]) -> list[Risk]:
    """Return the losses that nobody accepted, the worst first."""
    lost = [risk for risk in risks if risk.effect is Effect.LOST and not risk.accepted]
    return sorted(
        lost, key=lambda risk: (risk.likelihood != "certain", len(risk.when), len(risk.failures))
    )


def _key(answer: Answer) -> object:
    return (
        answer.producer,
        answer.consumer,
        tuple(sorted((key, given.value) for key, given in answer.settings.items())),
        answer.unstated,
        tuple(
            (risk.effect, risk.likelihood, risk.failures, str(risk.when), bool(risk.accepted))
            for risk in answer.risks
        ),
        answer.survives,
    )


def _severity(answer: Answer) -> tuple[int, ...]:
    lost = losses(answer.risks)
    certain = sum(risk.likelihood == "certain" for risk in lost)
    unconditional = sum(not risk.when for risk in lost)
    return (certain, unconditional, len(lost), len(answer.undecided), len(answer.risks))


def _summary(group: Sequence[Answer]) -> Summary:
    answer = group[0]
    topics = tuple(one.topic for one in group if one.topic)
    lost = losses(answer.risks)
    verdict, text = _verdict(answer, lost)
    how = next((risk for risk in lost if risk.trace), None)
    return Summary(
        answer=answer,
        topics=topics,
        question=_question(topics),
        verdict=verdict,
        verdict_text=text,
        facts=tuple(_facts(answer)),
        columns=(
            "today",
            *(
                f"+ {short(one.changes[-1].setting, one.changes[-1].change)}"
                for one in answer.alternatives
            ),
        ),
        rows=tuple(_rows(answer)),
        how=how.trace if how else (),
        how_case=how.case if how else "",
        changes=answer.alternatives[-1].changes if answer.alternatives else (),
        notes=tuple(_notes(answer)),
        accepted=tuple(
            f"{risk.case or risk.effect} after {phrase(risk.failures)}: {risk.accepted}"
            for risk in answer.risks
            if risk.accepted
        ),
    )


def _question(topics: Sequence[str]) -> str:
    if not topics:
        return "Can you lose acknowledged records?"
    names = topics[0] if len(topics) == 1 else f"{topics[0]} and {len(topics) - 1:,} alike topics"
    return f"Can you lose acknowledged records of {names}?"


def _verdict(answer: Answer, lost: Sequence[Risk]) -> tuple[str, str]:
    ways = len({risk.failures for risk in lost})
    if any(not risk.when for risk in lost):
        ways = len({risk.failures for risk in lost if not risk.when})
        return "YES", f"in {spelled(ways)} way{'s' if ways > 1 else ''}"
    if lost:
        keys = dict.fromkeys(key for risk in lost for key in risk.when)
        return "DEPENDS", f"on {', '.join(keys)}, which nobody states"
    if answer.undecided:
        return "NOT DECIDED", f"the search did not end for {phrase(answer.undecided[0])}"
    if any(risk.effect is Effect.REFUSED and not risk.when for risk in answer.risks):
        return "NO", "nothing is acknowledged, because the configuration is refused"
    return "NO", "not by any failures that were looked at"


def _facts(answer: Answer) -> Iterator[str]:
    """Yield the settings that decide, without their sources: of the cluster, then of the client."""
    shown = {
        key: f"{key}={given.value}" + (" (default)" if given.source.startswith("default") else "")
        for key, given in answer.settings.items()
    }
    client = [text for key, text in shown.items() if key in _CLIENT_SETTINGS]
    cluster = [text for key, text in shown.items() if key not in _CLIENT_SETTINGS]
    if cluster:
        yield ", ".join(cluster)
    name = answer.producer or answer.consumer
    if client or name:
        role = "consumer" if answer.consumer and not answer.producer else "producer"
        yield f"{role} {name}: ".replace(" :", ":") + (", ".join(client) or "all by default")


def _replicas(answer: Answer) -> int | None:
    given = answer.settings.get("replication.factor")
    return int(given.value) if given and given.value.isdecimal() else None


def _rows(answer: Answer) -> Iterator[Row]:
    today = Alternative(changes=(), risks=answer.risks, survives=answer.survives)
    columns = (today, *answer.alternatives)
    replicas = _replicas(answer)
    shown = [
        (failures, tuple(_lost_cell(one, failures, answer) for one in columns))
        for failures in _failures(columns)
    ]
    for failures, cells in shown:
        part = any(
            covers(failures, larger) and failures != larger and cells == others
            for larger, others in shown
        )
        if cells[0] and not (part and set(cells) == {_SAFE}):
            yield _row(phrase(failures, replicas), cells, _matching(columns, Effect.LOST, failures))
    for effect in _WORDS:
        if effect is not Effect.LOST:
            yield from _other_rows(columns, effect, replicas)
    for effect, label in _STOPS.items():
        cells = tuple(_stop_cell(one, effect) for one in columns)
        if any(cells):
            yield Row(label=label, cases="", cells=cells)


def _failures(columns: Sequence[Alternative]) -> list[Failures]:
    """Return the sets of failures of the rows about losses, smaller ones first."""
    minimal = [risk.failures for one in columns for risk in one.risks if risk.effect is Effect.LOST]
    familiar = [
        known
        for known in _FAMILIAR
        if not any(covers(small, known) and small != known for small in minimal)
    ]
    alike: dict[tuple[str, ...], Failures] = {}
    for failures in (*familiar, *minimal):
        alike.setdefault(tuple(sorted(failures)), failures)
    return sorted(alike.values(), key=len)


def _matching(columns: Sequence[Alternative], effect: Effect, failures: Failures) -> list[Risk]:
    """Return the risks, today's first, whose failures are these."""
    return [
        risk
        for one in columns
        for risk in one.risks
        if risk.effect is effect and sorted(risk.failures) == sorted(failures)
    ]


def _row(label: str, cells: tuple[str, ...], risks: Sequence[Risk]) -> Row:
    cases = ", ".join(dict.fromkeys(risk.case for risk in risks if risk.case))
    return Row(label=label, cases=cases, cells=cells, runs=_seen(risks))


def _seen(risks: Sequence[Risk]) -> str:
    for risk in risks:
        if risk.here:
            return f"lost {risk.here.lost:,} of {risk.here.acked:,} here"
    for risk in risks:
        if risk.runs:
            return f"{risk.runs.showed}/{risk.runs.of}"
    return ""


def _lost_cell(column: Alternative, failures: Failures, answer: Answer) -> str:
    risks = [
        risk
        for risk in column.risks
        if risk.effect is Effect.LOST and covers(risk.failures, failures)
    ]
    if risks:
        return _word(Effect.LOST, risks)
    if any(covers(failures, survived) for survived in column.survives):
        return _SAFE
    return _UNDECIDED if failures in answer.undecided else ""


def _word(effect: Effect, risks: Sequence[Risk]) -> str:
    """Return the word of a cell, with the conditions of risks that do not hold for all values."""
    always = [risk for risk in risks if not risk.when]
    certain = any(risk.likelihood == "certain" for risk in always or risks)
    word = _WORDS[effect][certain]
    if all(risk.accepted for risk in risks):
        word = f"{word.lower()} (accepted)"
    if always:
        return word
    conditions = list(dict.fromkeys(condition(risk.when) for risk in risks))
    if len(conditions) > 2:
        return f"{word} in {len(conditions)} cases"
    return f"{word} {' or '.join(conditions)}"


def _other_rows(
    columns: Sequence[Alternative], effect: Effect, replicas: int | None
) -> Iterator[Row]:
    sets = dict.fromkeys(
        risk.failures for one in columns for risk in one.risks if risk.effect is effect
    )
    for failures in sets:
        cells = []
        for one in columns:
            risks = _matching([one], effect, failures)
            cells.append(_word(effect, risks) if risks else "no")
        risks = _matching(columns, effect, failures)
        yield _row(phrase(failures, replicas), tuple(cells), risks)


def _stop_cell(column: Alternative, effect: Effect) -> str:
    """Return how many brokers must be down, or else which failures stop reads or writes."""
    risks = [risk for risk in column.risks if risk.effect is effect]
    down = [len(risk.failures) for risk in risks if set(risk.failures) <= {_CRASH}]
    if down:
        return f"{min(down)} down" if min(down) else "always"
    return phrase(risks[0].failures) if risks else ""


def _notes(answer: Answer) -> Iterator[str]:
    """Yield the sentences of risks that are no losses of records by brokers."""
    for risk in answer.risks:
        if risk.effect in (Effect.LOST, *_STOPS) or risk.accepted:
            continue
        where = next((one.source for one in risk.decided_by), "")
        change = next((f"{one.setting}={one.change}" for one in risk.decided_by), "")
        remedy = f" ({where}; {change} ends that)" if change else ""
        yield f"{EFFECTS[risk.effect].capitalize()}: {risk.text}{remedy}"
