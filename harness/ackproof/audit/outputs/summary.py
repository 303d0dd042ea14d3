"""One answer as a question, a table of failures, a way to the loss, and changes.

The terminal, Markdown and the page show the same summary. Answers that differ only in the name of
the topic share one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ackproof.audit.answer import Answer, Audit, Decision, Effect, Risk
from ackproof.audit.failure import Failures, milder
from ackproof.audit.finishing import grouped, losses
from ackproof.audit.outputs.cells import ShownTable, shown
from ackproof.audit.table import STOPS
from ackproof.audit.words import EFFECTS, condition, phrase
from ackproof.own_config.configuration import JAVA_CLIENT, KAFKA, LIBRDKAFKA, Default, Origin
from ackproof.safer_settings import spelled
from ackproof_model.kafka_settings import (
    AUTO_OFFSET_RESET,
    DELIVERY_TIMEOUT_MS,
    ENABLE_AUTO_COMMIT,
    ENABLE_IDEMPOTENCE,
    ISOLATION_LEVEL,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    TRANSACTIONAL_ID,
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

    verdict: `YES`, `NO`, `DEPENDS` or `NOT DECIDED`. changes: each with the cost. notes: a sentence
    for each other risk that the table cannot explain.
    """

    answer: Answer
    topics: tuple[str, ...]
    question: str
    verdict: str
    verdict_text: str
    facts: tuple[str, ...]
    table: ShownTable
    how: tuple[str, ...]
    how_case: str
    how_when: str
    changes: tuple[Decision, ...]
    notes: tuple[str, ...]
    accepted: tuple[str, ...]

    @property
    def how_head(self) -> str:
        """The head of the way to a loss, with its case and the values for which it holds."""
        about = ", ".join(filter(None, (self.how_case, self.how_when)))
        return f"How, in the fewest steps{f' ({about})' if about else ''}"


#: The worst first.
_VERDICTS = ("YES", "DEPENDS", "NOT DECIDED", "NO")


def summaries(audit: Audit) -> list[Summary]:
    """Return a summary for each group of alike answers, the worst first."""
    groups = [[audit.answers[at] for at in group] for group in grouped(audit.answers)]
    ordered = sorted(groups, key=lambda group: _severity(group[0]), reverse=True)
    every = [_summary(group) for group in ordered]
    return sorted(every, key=lambda one: _VERDICTS.index(one.verdict))


def _severity(answer: Answer) -> tuple[int, ...]:
    lost = losses(answer.risks)
    certain = sum(risk.likelihood == "certain" for risk in lost)
    unconditional = sum(not risk.when for risk in lost)
    return (certain, unconditional, len(lost), len(answer.undecided), len(answer.risks))


def _summary(group: Sequence[Answer]) -> Summary:
    answer = group[0]
    topics = tuple(name for one in group for name in (one.topic, *one.alike) if name)
    lost = losses(answer.risks)
    verdict, text = _verdict(answer, lost)
    how = answer.worst
    return Summary(
        answer=answer,
        topics=topics,
        question=_question(topics, answer.cluster),
        verdict=verdict,
        verdict_text=text,
        facts=tuple(_facts(answer)),
        table=shown(answer),
        how=how.trace if how else (),
        how_case=how.case if how else "",
        how_when=condition(how.when) if how else "",
        changes=_changes(answer),
        notes=tuple(_notes(answer)),
        accepted=tuple(_accepted(answer)),
    )


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
    refused = next((r for r in answer.risks if r.effect is Effect.REFUSED and not r.when), None)
    if refused:
        return tuple(refused.decided_by)
    return answer.alternatives[-1].changes if answer.alternatives else ()


def _question(topics: Sequence[str], cluster: str) -> str:
    where = f" in {cluster}" if cluster else ""
    if not topics:
        return f"Can you lose acknowledged records{where}?"
    names = topics[0] if len(topics) == 1 else f"{topics[0]} and {len(topics) - 1:,} alike topics"
    return f"Can you lose acknowledged records of {names}{where}?"


def _milder_exists(failures: Failures, every: Collection[Failures]) -> bool:
    return any(other != failures and milder(other, failures) for other in every)


def _verdict(answer: Answer, lost: Sequence[Risk]) -> tuple[str, str]:
    every = {risk.failures for risk in lost}
    mildest = {one for one in every if len(one) < 3 or not _milder_exists(one, every)}
    always = {risk.failures for risk in lost if not risk.when} & mildest
    others = mildest - always
    keys = ", ".join(dict.fromkeys(key for risk in lost for key in risk.when))
    if always:
        ways = f"in {spelled(len(always))} way{'s' if len(always) > 1 else ''}"
        return "YES", f"{ways}, and in {len(others)} more that depend on {keys}" if others else ways
    if lost and answer.always_lost and not any(risk.accepted for risk in answer.risks):
        return "YES", f"in ways that depend on {keys}"
    if lost:
        return "DEPENDS", f"on {keys}, which the files leave open"
    if answer.undecided:
        return "NOT DECIDED", f"the searches do not decide {phrase(answer.undecided[0])}"
    if any(risk.effect is Effect.REFUSED and not risk.when for risk in answer.risks):
        return "NO", "nothing is acknowledged, because the configuration is refused"
    return "NO", "not by any failures that were looked at"


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
            listed = (one.setting, one.change) in above
            change = f"To end that: {one.setting}={one.change} ({one.source})."
            remedy = " A change above ends that." if listed else f" {change}"
        held = f" {condition(risk.when)}" if risk.when else ""
        yield f"{effect.capitalize()}{held}: {text.rstrip('.')}.{remedy}"
