"""The JSON forms of advice. Keys may be added; none changes its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from ackproof.advise.acked import Lookup
from ackproof.advise.alternatives import Alternative, Failure, brokers_of
from ackproof.advise.dead_cluster import ClusterState
from ackproof.advise.outage import Outage
from ackproof.advise.rolling import Restarted
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets, Step

#: First and last offset.
Range = tuple[int, int]
Ability = Literal["no", "perhaps", "yes"]


class StepDocument(TypedDict):
    """A step; `text` is what `advise what-if --step` takes."""

    step: Literal["start", "stop", "elect", "fail", "replace", "minisr", "move"]
    brokers: list[int]
    text: str


class OutcomeDocument(TypedDict):
    """The outcome for a partition. leaders: null for none. complete: whether all was searched.

    sent: about, when the first and last of `may_lose` were sent. writes_after: how many steps are
    done by the time writes return for certain, 0 for now. fenced_first: brokers that the
    controllers fence before, which takes up to a session timeout.
    """

    topic: str
    partition: int
    may_lose: list[Range]
    loses: list[Range]
    on_disk_of: list[int]
    leaders: list[int | None]
    reads: Ability
    writes: Ability
    complete: bool
    sent: tuple[str, str] | None
    writes_after: int | None
    fenced_first: list[int]


class AlternativeDocument(TypedDict):
    """Steps and what they do; the offsets are counts of records."""

    steps: list[StepDocument]
    verdict: Literal["keeps everything", "may lose", "loses", "not decided"]
    offsets_at_risk: int
    offsets_lost_for_certain: int
    partitions: list[OutcomeDocument]


class FailureDocument(TypedDict):
    """One more failure during the best steps; numbers of partitions."""

    what: str
    losing: int
    unavailable: int
    decided: bool


class AnswerDocument(TypedDict):
    """The alternatives for producers with these acks, the best first."""

    acks: Literal["0", "1", "all"]
    alternatives: list[AlternativeDocument]
    if_one_more_fails: list[FailureDocument]


class GoneRangeDocument(TypedDict):
    """Committed offsets that are on no disk any more."""

    topic: str
    partition: int
    first: int
    last: int


class StartDocument(TypedDict):
    """What `advise start` and `advise what-if` print.

    offsets_known: if not, an offset stands for all records of a partition. not_judged: how many
    partitions are in no answer; `unknown` has the reasons. session_timeout: in words.
    """

    schema: Literal["ackproof.advise.start/1"]
    offsets_known: bool
    answers: list[AnswerDocument]
    gone: list[GoneRangeDocument]
    defaults_used: list[str]
    not_judged: int
    session_timeout: str
    unknown: list[str]


class RestartedDocument(TypedDict):
    """The restart of a broker, for one of its partitions and producers with these acks.

    may_lose, stops_writes, stops_reads: beyond what is lost and stopped without the restart.
    writes_before: without the restart.
    """

    topic: str
    partition: int
    acks: Literal["0", "1", "all"]
    leader: int | None
    isr: list[int]
    min_insync_replicas: int
    may_lose: bool
    stops_writes: bool
    stops_reads: bool
    writes_before: Ability
    common_rule_says_safe: bool
    complete: bool


class RestartDocument(TypedDict):
    """What `advise restart` prints."""

    schema: Literal["ackproof.advise.restart/1"]
    broker: int
    partitions: list[RestartedDocument]


class TermDocument(TypedDict):
    """A leader's time in one epoch. start: where its log ended when it was elected."""

    epoch: int
    leader: int
    elected_at: str
    election: Literal["first", "clean", "eligible", "last-known", "unclean"]
    start: int | None
    isr: list[int]


class TruncationDocument(TypedDict):
    """A truncation in a broker's log. end: where its log ended before."""

    at: str
    broker: int
    to: int
    end: int | None


class GoneDocument(TypedDict):
    """Offsets of an epoch that the partition's log lacks.

    acks: the producers' acks with which they may have been acknowledged. times: about, of the first
    and last.
    """

    first: int
    last: int
    epoch: int
    reason: str
    acks: list[Literal["0", "1", "all"]]
    committed: bool
    on_disk_of: list[int]
    times: tuple[str, str] | None


class PastDocument(TypedDict):
    """The past of a partition.

    silent: epochs after clean elections, where nothing tells whether the former leader had more.
    """

    topic: str
    partition: int
    replicas: list[int]
    compared_with: int | None
    terms: list[TermDocument]
    truncations: list[TruncationDocument]
    gone: list[GoneDocument]
    undecided: list[str]
    silent: list[int]


class MissingDocument(TypedDict):
    """An acked send that the log lacks; `send` as in the acked log."""

    send: dict[str, Any]
    certain: bool
    why: str
    on_disk_of: list[int]


class LookupDocument(TypedDict):
    """What became of the sends of an acked log: counts, and those that are missing."""

    acked: int
    present: int
    removed: int
    without_offset: int
    undecided: int
    torn_lines: int
    missing: list[MissingDocument]


class OutageDocument(TypedDict):
    """What `advise outage` prints."""

    schema: Literal["ackproof.advise.outage/1"]
    partitions: list[PastDocument]
    acked: LookupDocument | None


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of what `advise --json` prints; `docs/advise.v1.json` stores it."""
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(StartDocument | RestartDocument | OutageDocument)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter.json_schema()}


def of_advice(
    cluster: ClusterState,
    by_acks: Mapping[Any, Sequence[Alternative]],
    failures: Mapping[Any, Sequence[Failure]],
) -> StartDocument:
    return {
        "schema": "ackproof.advise.start/1",
        "offsets_known": cluster.offsets_known,
        "answers": [
            {
                "acks": acks,
                "alternatives": [_alternative(one, cluster) for one in judged],
                "if_one_more_fails": [
                    {
                        "what": one.what,
                        "losing": one.losing,
                        "unavailable": one.unavailable,
                        "decided": one.decided,
                    }
                    for one in failures.get(acks, ())
                ],
            }
            for acks, judged in by_acks.items()
        ],
        "gone": [
            {"topic": topic, "partition": number, "first": gone.first, "last": gone.last}
            for (topic, number), (*_, one) in cluster.situations.items()
            if (gone := one.gone)
        ],
        "defaults_used": list(cluster.defaults),
        "not_judged": cluster.not_judged,
        "session_timeout": cluster.session,
        "unknown": list(cluster.unknown),
    }


def _alternative(one: Alternative, cluster: ClusterState) -> AlternativeDocument:
    return {
        "steps": [_step(step) for step in one.steps],
        "verdict": one.verdict,
        "offsets_at_risk": one.at_risk,
        "offsets_lost_for_certain": one.certain,
        "partitions": [_outcome(one, place, cluster) for place in one.outcomes],
    }


def _step(step: Step) -> StepDocument:
    kind: Any = type(step).__name__.lower()
    return {"step": kind, "brokers": brokers_of(step), "text": str(step)}


def _outcome(whole: Alternative, place: TopicPartition, cluster: ClusterState) -> OutcomeDocument:
    one, back = whole.outcomes[place], whole.writes_return(place)
    times = cluster.spans(place, one.may_lose)
    return {
        "topic": place[0],
        "partition": place[1],
        "may_lose": _ranges(one.may_lose),
        "loses": _ranges(one.loses),
        "on_disk_of": list(one.disks),
        "leaders": list(one.leaders),
        "reads": one.reads.value,
        "writes": one.writes.value,
        "complete": one.complete,
        "sent": (min(times).isoformat(), max(times).isoformat()) if times else None,
        "writes_after": back.after,
        "fenced_first": list(back.fenced_first),
    }


def _ranges(ranges: Sequence[Offsets]) -> list[Range]:
    return [(one.first, one.last) for one in ranges]


def of_restart(broker: int, judged: Sequence[tuple[TopicPartition, Restarted]]) -> RestartDocument:
    return {
        "schema": "ackproof.advise.restart/1",
        "broker": broker,
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "acks": one.acks,
                "leader": one.leader,
                "isr": list(one.isr),
                "min_insync_replicas": one.min_insync_replicas,
                "may_lose": one.may_lose,
                "stops_writes": one.stops_writes,
                "stops_reads": one.stops_reads,
                "writes_before": one.before.writes.value,
                "common_rule_says_safe": one.rule,
                "complete": one.decided,
            }
            for (topic, number), one in judged
        ],
    }


def of_outage(past: Mapping[TopicPartition, Outage], lookup: Lookup | None) -> OutageDocument:
    return {
        "schema": "ackproof.advise.outage/1",
        "partitions": [_past(place, one) for place, one in past.items()],
        "acked": _lookup(lookup) if lookup else None,
    }


def _past(place: TopicPartition, one: Outage) -> PastDocument:
    return {
        "topic": place[0],
        "partition": place[1],
        "replicas": list(one.replicas),
        "compared_with": one.compared,
        "terms": [
            {
                "epoch": term.epoch,
                "leader": term.leader,
                "elected_at": term.elected_at.isoformat(),
                "election": term.election.value,
                "start": term.start,
                "isr": list(term.changes[-1][1]),
            }
            for term in one.terms
        ],
        "truncations": [
            {"at": cut.at.isoformat(), "broker": cut.broker, "to": cut.to, "end": cut.end}
            for cut in one.truncations
        ],
        "gone": [
            {
                "first": gone.offsets.first,
                "last": gone.offsets.last,
                "epoch": gone.epoch,
                "reason": gone.reason,
                "acks": list(gone.acks),
                "committed": gone.committed,
                "on_disk_of": list(gone.disks),
                "times": (gone.times[0].isoformat(), gone.times[1].isoformat())
                if gone.times
                else None,
            }
            for gone in one.gone
        ],
        "undecided": list(one.undecided),
        "silent": list(one.silent),
    }


def _lookup(one: Lookup) -> LookupDocument:
    return {
        "acked": one.acked,
        "present": one.present,
        "removed": one.removed,
        "without_offset": one.without_offset,
        "undecided": sum(one.undecided.values()),
        "torn_lines": len(one.problems.torn),
        "missing": [
            {
                "send": missing.send.model_dump(mode="json", exclude_none=True),
                "certain": missing.certain,
                "why": missing.why,
                "on_disk_of": list(missing.disks),
            }
            for missing in one.missing
        ],
    }
