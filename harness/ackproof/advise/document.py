"""The JSON forms of advice. Keys may be added; none changes its meaning.

`docs/advise.v1.json` is their schema, which says what each key means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackproof.advise.acked import Lookup
from ackproof.advise.alternatives import Alternative, Failure, brokers_of
from ackproof.advise.dead_cluster import ClusterState
from ackproof.advise.outage import Outage
from ackproof.advise.reassigning import Judged
from ackproof.advise.rolling import Restarted
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets, Step

Document = dict[str, Any]


def of_advice(
    cluster: ClusterState,
    by_acks: Mapping[Any, Sequence[Alternative]],
    failures: Mapping[Any, Sequence[Failure]],
) -> Document:
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


def _alternative(one: Alternative, cluster: ClusterState) -> Document:
    return {
        "steps": [_step(step) for step in one.steps],
        "verdict": one.verdict,
        "offsets_at_risk": one.at_risk,
        "offsets_lost_for_certain": one.certain,
        "partitions": [_outcome(one, place, cluster) for place in one.outcomes],
    }


def _step(step: Step) -> Document:
    return {"step": type(step).__name__.lower(), "brokers": brokers_of(step), "text": str(step)}


def _outcome(whole: Alternative, place: TopicPartition, cluster: ClusterState) -> Document:
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


def _ranges(ranges: Sequence[Offsets]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in ranges]


def of_restart(
    broker: int,
    judged: Sequence[tuple[TopicPartition, Restarted]],
    assumed: Sequence[tuple[TopicPartition, Restarted]] = (),
) -> Document:
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
                "assumed": which is assumed,
            }
            for which in (judged, assumed)
            for (topic, number), one in which
        ],
    }


def of_reassign(judged: Sequence[Judged], *, cancels: bool) -> Document:
    return {
        "schema": "ackproof.advise.reassign/1",
        "cancels": cancels,
        "partitions": [
            {
                "topic": one.place[0],
                "partition": one.place[1],
                "replicas": list(one.now.replicas),
                "isr": list(one.now.isr),
                "elr": list(one.now.elr),
                "leader": one.now.leader,
                "adding": list(one.now.adding),
                "removing": list(one.now.removing),
                "target": None if one.target is None else list(one.target),
                "refused": one.outcome.refused,
                "completes": one.outcome.completes,
                "waits_for": list(one.outcome.waits_for),
                "isr_afterwards": list(one.outcome.isr),
                "left_eligible": list(one.outcome.left_eligible),
                "eligible_again": list(one.outcome.eligible_again),
                "may_lose": one.may_lose,
                "may_stop": one.may_stop,
                "later": one.later,
                "harms": [harm.value for harm in one.harms],
                "effects": list(one.effects),
            }
            for one in judged
        ],
    }


def of_outage(past: Mapping[TopicPartition, Outage], lookup: Lookup | None) -> Document:
    return {
        "schema": "ackproof.advise.outage/1",
        "partitions": [_past(place, one) for place, one in past.items()],
        "acked": _lookup(lookup) if lookup else None,
    }


def _past(place: TopicPartition, one: Outage) -> Document:
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


def _lookup(one: Lookup) -> Document:
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
