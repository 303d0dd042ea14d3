"""One answer as a question, a table of failures, a way to the loss, and changes.

The terminal, Markdown and the page show the same summary. Answers that differ only in the name of
the topic share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ackproof.audit.answer import (
    Answer,
    Audit,
    Decision,
    Effect,
    Group,
    Outcome,
    Risk,
    Row,
    Verdict,
    Word,
)
from ackproof.audit.failure import Failures, covers
from ackproof.audit.outputs.cells import ShownTable, shown
from ackproof.audit.promise import losses
from ackproof.audit.risk import together
from ackproof.audit.table import STOPS
from ackproof.audit.words import EFFECTS, condition, phrase, phrase_of, phrase_of_any
from ackproof.own_config.configuration import (
    JAVA_CLIENT,
    KAFKA,
    LIBRDKAFKA,
    Default,
    Holder,
    NoFile,
    OfBrokers,
    Origin,
    Storage,
)
from ackproof.safer_settings import KAFKA as VERSION
from ackproof.safer_settings import spelled
from ackproof_model.kafka_settings import (
    AUTO_OFFSET_RESET,
    DELIVERY_TIMEOUT_MS,
    ENABLE_AUTO_COMMIT,
    ENABLE_IDEMPOTENCE,
    ISOLATION_LEVEL,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    MIN_INSYNC_REPLICAS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    REPLICATION_FACTOR,
    TRANSACTIONAL_ID,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

_CLIENT_SETTINGS = (
    "acks",
    ENABLE_IDEMPOTENCE,
    "retries",
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    DELIVERY_TIMEOUT_MS,
    TRANSACTIONAL_ID,
    ENABLE_AUTO_COMMIT,
    AUTO_OFFSET_RESET,
    ISOLATION_LEVEL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a reader wants to know about a producer and the topics that share an answer.

    verdict_text: in which ways, or on what it depends. storage: what empties the logs that no
    volume holds; '' if there are none. changes: each with the cost. notes: a
    sentence for each other risk that the table cannot explain. If files leave much open: always:
    what loses records whatever the rest is; questions: about the values that decide most, each with
    how to answer it; usual: the summary for the usual values.
    """

    answer: Answer
    topics: tuple[str, ...]
    question: str
    verdict_text: str
    storage: str
    facts: tuple[str, ...]
    table: ShownTable
    how: tuple[str, ...]
    how_case: str
    how_when: str
    changes: tuple[Decision, ...]
    notes: tuple[str, ...]
    accepted: tuple[str, ...]
    proofs: tuple[str, ...]
    always: tuple[str, ...] = ()
    questions: tuple[tuple[str, str], ...] = ()
    usual: Summary | None = None

    @property
    def verdict(self) -> Verdict:
        return self.answer.verdict

    @property
    def headline(self) -> str:
        """The verdict in a clause."""
        mark = {Verdict.YES: ",", Verdict.DEPENDS: ""}.get(self.verdict, ":")
        return f"{self.verdict}{mark} {self.verdict_text}"

    @property
    def how_head(self) -> str:
        """The head of the way to a loss, with its case and the values for which it holds."""
        about = ", ".join(filter(None, (self.how_case, self.how_when)))
        return f"How, in the fewest steps{f' ({about})' if about else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPromise:
    """A promise of `--survive` in a sentence, with its worst outcome."""

    text: str
    outcome: Outcome


def promises(audit: Audit) -> list[ShownPromise]:
    return [_shown_promise(audit, promise) for promise in audit.promises]


def _shown_promise(audit: Audit, promise: str) -> ShownPromise:
    outcomes = {
        one.outcome
        for group in audit.groups
        for one in group.answer.promised
        if one.promise == promise
    }
    worst = min(outcomes, key=list(Outcome).index, default=Outcome.KEPT)
    having: list[tuple[Group, list[Failures]]] = []
    for group in audit.groups:
        of_group = [
            one.failures
            for one in group.answer.promised
            if (one.promise, one.outcome) == (promise, worst)
        ]
        if of_group:
            having.append((group, of_group))
    return ShownPromise(
        text=f"Promise to survive '{promise}': {_outcome(worst, having)}", outcome=worst
    )


def _outcome(worst: Outcome, having: Sequence[tuple[Group, Sequence[Failures]]]) -> str:
    if worst is Outcome.KEPT:
        return "KEPT, no acknowledged record is lost."
    first, sets = having[0]
    answer = first.answer
    who = ", ".join(filter(None, (answer.topic, answer.producer)))
    others = sum(max(len(group.topics), 1) for group, _ in having) - 1
    more = f" and {others:,} more" if others else ""
    where = f" ({who}{more})" if who else ""
    after = phrase_of_any(sets)
    if worst is Outcome.ACCEPTED:
        return f"its losses were accepted, after {after}{where}."
    if worst is Outcome.NOT_DECIDED:
        return f"NOT DECIDED, no search decides whether records are lost after {after}{where}."
    breaking = [risk for one in sets for risk in losses(answer, one)]
    held = f", {condition(breaking[0].when)}" if all(risk.when for risk in breaking) else ""
    may = "may rarely be lost" if all(risk.rare for risk in breaking) else "may be lost"
    return f"BROKEN, acknowledged records {may} after {after}{held}{where}."


def summaries(audit: Audit) -> list[Summary]:
    """Return a summary for each group of alike answers, the worst first."""
    return [_summary(group) for group in audit.groups]


def _summary(group: Group) -> Summary:
    answer = group.answer
    how = answer.worst
    return Summary(
        answer=answer,
        topics=group.topics,
        question=_question(group.topics, answer.cluster),
        verdict_text=_verdict_text(answer),
        storage=_without_volume(answer.storage) if answer.storage else "",
        facts=tuple(_facts(answer)),
        table=shown(answer),
        how=how.trace if how else (),
        how_case=how.case if how else "",
        how_when=condition(how.when) if how else "",
        changes=_changes(answer),
        notes=tuple(_notes(answer)),
        accepted=tuple(_accepted(answer)),
        proofs=tuple(_proofs(answer)),
        always=tuple(_always(answer))[:_MOST_ALWAYS] if answer.usual else (),
        questions=tuple(_questions(answer)) if answer.usual else (),
        usual=_usual(answer.usual, group.topics) if answer.usual else None,
    )


def _proofs(answer: Answer) -> Iterator[str]:
    for risk in answer.risks:
        if found := risk.here:
            lost = f"lost {found.lost:,}" if found.lost else "lost none"
            after = f"after {phrase_of([risk.failures])}" + f" ({risk.case})" * bool(risk.case)
            yield f"{lost} of {found.acked:,} acked records {after}: {found.run}"


#: How many rows of an assumed table may lose, are safe, and are about clients.
_MOST_LOSING, _MOST_SAFE, _MOST_OTHERS = 4, 2, 1
#: How many columns: today and the first change. How many losses hold whatever the rest is.
_MOST_COLUMNS, _MOST_ALWAYS = 2, 1


def _few(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the first rows of each kind, and all about writes and reads that stop."""
    left = {"losing": _MOST_LOSING, "safe": _MOST_SAFE, "other": _MOST_OTHERS}
    for row in rows:
        loses = any(cell.word in _LOSES for cell in row.cells)
        kind = "other" if row.effect is not Effect.LOST else "losing" if loses else "safe"
        left[kind] -= row.effect not in STOPS
        if row.effect in STOPS or left[kind] >= 0:
            yield row


def _usual(usual: Answer, topics: tuple[str, ...]) -> Summary:
    """Return the summary for usual values, with few rows, and with the first change only."""
    if usual.table:
        columns = usual.table.columns[:_MOST_COLUMNS]
        rows = (replace(row, cells=row.cells[:_MOST_COLUMNS]) for row in _few(usual.table.rows))
        usual = replace(usual, table=replace(usual.table, columns=columns, rows=tuple(rows)))
    summary = _summary(Group(answer=usual, topics=topics))
    return replace(summary, changes=summary.changes[: _MOST_COLUMNS - 1])


#: How to state a value that no file states, as a question with its answer.
_ASKED = {
    VERSION: ("which version of Kafka do the brokers run?", "--kafka VERSION"),
    REPLICATION_FACTOR: (
        "how many replicas has the topic?",
        "add the output of kafka-topics --describe, or its file",
    ),
    MIN_INSYNC_REPLICAS: (
        "what is min.insync.replicas?",
        "add the brokers' and controllers' files, or the output of kafka-topics --describe",
    ),
    UNCLEAN_LEADER_ELECTION_ENABLE: (
        "are unclean elections enabled?",
        "add the brokers' and controllers' files, or the output of kafka-topics --describe",
    ),
    "kafka.mode": ("KRaft or ZooKeeper?", "add the brokers' file"),
    "acks": ("which acks has the producer?", "add its file"),
    "producer.version": (
        "which version has the producer's library?",
        "add the log of its start, or state its acks",
    ),
    "racks": ("over how many racks are brokers spread?", "add the brokers' files"),
}
_MOST_ASKED = 2
_LOSES = (Word.LOSES, Word.CAN_LOSE)


def _questions(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield the unstated values on which most losses depend, as questions with how to answer."""
    numbers = Counter(
        key for risk in answer.risks if risk.effect is Effect.LOST for key in risk.when
    )
    asked = [key for key, _ in numbers.most_common() if key in _ASKED]
    yield from (_ASKED[key] for key in asked[:_MOST_ASKED])


_WITH_SEVERAL = ", with any replication factor above 1"


def _always(answer: Answer) -> Iterator[str]:
    """Yield what loses records whatever the rest is, or with any factor above 1."""
    table = answer.table
    if table is None:
        return
    said: list[Failures] = []
    for row in table.rows:
        if row.effect is not Effect.LOST or all(_said(one, said) for one in row.sets):
            continue
        cells = [cell for cell, of in zip(row.cells, table.columns, strict=True) if not of.changes]
        sole = [of.values == ("1",) for of in table.columns if not of.changes]
        lost = [cell.word in _LOSES and not cell.conditions for cell in cells]
        if all(sole) or not all(loses or one for loses, one in zip(lost, sole, strict=True)):
            continue
        said += row.sets
        only = "" if all(lost) else _WITH_SEVERAL
        verb = "are" if all(cell.word is Word.LOSES for cell in cells) else "may be"
        yield f"{phrase_of(row.sets)}: acknowledged records {verb} lost{only}"


def _said(failures: Failures, said: Sequence[Failures]) -> bool:
    return any(covers(one, failures) for one in said)


def _accepted(answer: Answer) -> Iterator[str]:
    """Yield a sentence for each acceptance, with the first of its sets of failures."""
    alike: dict[tuple[str, str], list[Risk]] = {}
    for risk in answer.risks:
        if risk.accepted:
            alike.setdefault((risk.case or risk.effect, risk.accepted), []).append(risk)
    for (name, reason), risks in alike.items():
        others = len(risks) - 1
        more = f", or {others} other set{'s' * (others > 1)} of failures" if others else ""
        yield f"{name} after {phrase(risks[0].failures)}{more}: {reason}"


def _changes(answer: Answer) -> tuple[Decision, ...]:
    """Return the changes, the most useful first. A refused configuration has only its own."""
    if refused := _refused(answer):
        return tuple(refused.decided_by)
    return answer.alternatives[-1].changes if answer.alternatives else ()


def value_today(change: Decision) -> str:
    """Return the value that a change replaces, with its source."""
    if change.source is NoFile.UNSTATED:
        return "no file states it"
    if isinstance(change.source, OfBrokers):
        return str(change.source)
    return f"now {change.value}, {change.source}"


def _refused(answer: Answer) -> Risk | None:
    """Return why nothing starts, whatever the value of what is unstated."""
    every = (risk for risk in answer.risks if risk.effect is Effect.REFUSED and not risk.when)
    return next(every, None)


def _question(topics: Sequence[str], cluster: str) -> str:
    where = f" in {cluster}" if cluster else ""
    if not topics:
        return f"Can you lose acknowledged records{where}?"
    names = topics[0] if len(topics) == 1 else f"{topics[0]} and {len(topics) - 1:,} alike topics"
    return f"Can you lose acknowledged records of {names}{where}?"


def _verdict_text(answer: Answer) -> str:
    ways, keys = answer.ways, ", ".join(answer.ways.unstated)
    if answer.verdict is Verdict.YES and ways.always:
        several = ways.first_of_several
        others, sometimes = ways.always - (not several), ways.sometimes - several
        parts = [_first_way(answer) + (_WITH_SEVERAL if several else "")]
        if others:
            any_factor = " with any factor" if several else ""
            more = f"more way{'s' if others > 1 else ''}"
            parts.append(f"in {spelled(others)} {more}{any_factor}")
        if sometimes:
            parts.append(f"in {sometimes} more that depend on {keys}")
        return ", and ".join(parts)
    if answer.verdict is Verdict.YES:
        return f"in ways that depend on {keys}"
    if answer.verdict is Verdict.DEPENDS:
        return f"on {keys}, which the files leave open"
    if answer.verdict is Verdict.NOT_DECIDED:
        return f"no search decides whether records are lost after {phrase(answer.undecided[0])}"
    if _refused(answer):
        return "nothing is acknowledged, because the configuration is refused"
    return "not by any failures that were looked at"


#: What empties a log that no volume holds, by what holds it and whether a restart keeps it.
_EMPTIED_BY = {
    (Holder.POD, True): "each new pod starts with an empty log. A rolling update or a drain of a "
    "node replaces one pod after the other",
    (Holder.POD, False): "each new task starts with an empty log, also after a crash. An update "
    "replaces one task after the other",
    (Holder.CONTAINER, True): "each new container starts with an empty log, such as after `docker "
    "compose down` and `up`. A restart of the same container keeps it",
    (Holder.CONTAINER, False): "each new container starts with an empty log, also after a crash of "
    "the process. A rolling update or a drain of a node replaces one after the other",
}


def _without_volume(storage: Storage) -> str:
    """Return what empties the logs, with the line that shows it; '' if a volume holds them."""
    by = _EMPTIED_BY.get((storage.holder, storage.restart_keeps), "")
    shown = f"{storage.setting}={storage.value}, {storage.source}"
    return f"No volume holds the logs ({shown}): {by}." if by else ""


def _first_way(answer: Answer) -> str:
    """Return the failures of the worst loss, the fewest and most ordinary ones."""
    if answer.worst is None:
        return "in one way"
    given = answer.settings.get(REPLICATION_FACTOR)
    replicas = int(given.value) if given and given.value.isdecimal() else None
    after = phrase(answer.worst.failures, replicas)
    rare = " (rare)" if answer.worst.rare else ""
    return f"after {after}{rare}" if answer.worst.failures else f"{after}{rare}"


def _origin(source: Origin) -> str:
    """Return the mark of a default, with the name of software other than Kafka and its clients."""
    if not isinstance(source, Default):
        return ""
    return " (default)" if source.of in (KAFKA, JAVA_CLIENT, LIBRDKAFKA) else f" ({source})"


def _facts(answer: Answer) -> Iterator[str]:
    """Yield the settings that decide, without their sources: of the cluster, then of the client."""
    shown = {
        key: f"{key}={given.value}{_origin(given.source)}" for key, given in answer.settings.items()
    }
    client = [text for key, text in shown.items() if key in _CLIENT_SETTINGS]
    cluster = [text for key, text in shown.items() if key not in _CLIENT_SETTINGS]
    if cluster:
        yield ", ".join(cluster)
    name = answer.producer or answer.consumer
    if client or name:
        role = "consumer" if answer.consumer and not answer.producer else "producer"
        who = " ".join(filter(None, (role, name)))
        yield f"{who}: {', '.join(client) or 'all by default'}"


def _notes(answer: Answer) -> Iterator[str]:
    """Yield the sentences of all risks except losses by brokers, without repetition."""
    said: dict[tuple[str, str], Risk] = {}
    for risk in answer.risks:
        if risk.effect not in (Effect.LOST, *STOPS) and not risk.accepted:
            said.setdefault((EFFECTS[risk.effect], risk.text), risk)
    above = {(one.setting, one.change) for one in _changes(answer)}
    for (effect, text), risk in said.items():
        remedy = ""
        for one in risk.decided_by[:1]:
            listed = above.issuperset([(one.setting, one.change), *one.others])
            change = f"To end that: {_wanted(one)} ({one.source})."
            remedy = " A change above ends that." if listed else f" {change}"
        held = f" {condition(risk.when)}" if risk.when else ""
        yield f"{effect.capitalize()}{held}: {text.rstrip('.')}.{remedy}"


def _wanted(change: Decision) -> str:
    """Return a change with what must be changed, too, and with the topic that it is for."""
    pairs = ((change.setting, change.change), *change.others)
    named = not change.topic or change.setting == OFFSETS_TOPIC_REPLICATION_FACTOR
    return f"{together(pairs)}{'' if named else f' for {change.topic}'}"
