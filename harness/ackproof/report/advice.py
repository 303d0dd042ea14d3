"""One line of advice: the recommended configuration and its cost in availability and latency.

For a comparison the advice comes from the runs and predictions, for one run from the model's
prediction for safer settings (`Overview.safer`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ackproof.comparison.summary import Summary
from ackproof.report import comparison as trials
from ackproof.report import formatting as fmt
from ackproof.report.comparison import conclusive, p99_of_runs, unavailable_of_runs
from ackproof.runs.overview import Safer
from ackproof.runs.verdict import REMOVED, PartAvailability, Verdict, Word


def of_runs(verdicts: Sequence[Verdict]) -> str:
    """Return the advice for a comparison with few runs of each configuration."""
    groups = conclusive(verdicts)
    keeping = {
        name: group
        for name, group in groups.items()
        if not any(verdict.observed.get("lost", 0) for verdict in group)
    }
    losing = {name: group for name, group in groups.items() if name not in keeping}
    if not groups:
        return ""
    if not keeping:
        return "None of these configurations kept every acked record under these faults."

    def preference(name: str) -> tuple[bool, float, float]:
        group = keeping[name]
        return not _proven(group[0]), unavailable_of_runs(group), p99_of_runs(group) or math.inf

    best = min(keeping, key=preference)
    why = "it lost nothing here"
    if _proven(keeping[best][0]):
        why += ", and the model finds no way to lose an acked record under these faults"
    others = losing or {name: group for name, group in keeping.items() if name != best}
    if not others:
        return f"Use {best}: {why}."
    other = min(others, key=lambda name: unavailable_of_runs(others[name]))
    cost = _cost(
        other,
        (unavailable_of_runs(keeping[best]), unavailable_of_runs(others[other])),
        (p99_of_runs(keeping[best]), p99_of_runs(others[other])),
    )
    return f"Use {best}: {why}. {cost}"


def of_trials(summary: Summary) -> str:
    """Return the advice for a comparison of many trials: the first recommendation and its cost."""
    recommended = trials.recommendations(summary)
    if not recommended:
        return ""
    best, why = recommended[0]
    if best.losing:
        return "None of these configurations kept every acked record under these faults."
    others = [cell for cell, _ in recommended[1:] if cell.losing] or [
        cell for cell, _ in recommended[1:]
    ]
    line = f"Use {fmt.quoted(best.configuration)} {why.removeprefix('perhaps, ')}."
    if not others:
        return line
    other = min(others, key=trials.unavailable_s)
    latencies = [
        value if math.isfinite(value) else None
        for value in (trials.p99_ms(best), trials.p99_ms(other))
    ]
    cost = _cost(
        fmt.quoted(other.configuration),
        (1000 * trials.unavailable_s(best), 1000 * trials.unavailable_s(other)),
        (latencies[0], latencies[1]),
    )
    return f"{line} {cost}"


def of_run(verdict: Verdict, safer: Safer | None) -> str:
    """Return the advice for one run; empty if the run is inconclusive or not modelled."""
    if verdict.verdict is Word.INCONCLUSIVE:
        return ""
    protocol = _of_protocol(safer) if safer else ""
    if not verdict.observed.get("lost", 0) and (without_loss := _without_loss(verdict)):
        advice = [protocol, without_loss]
    elif safer is not None and safer.predicted != "not modelled":
        enough = protocol and not safer.changes and "lost" in safer.protocol_2
        advice = [protocol] if enough else [_of_settings(safer), protocol]
    else:
        advice = []
    return " ".join(filter(None, advice))


def _of_protocol(safer: Safer) -> str:
    """Return the advice to use another client, for aborted reads and losses by late requests."""
    if not safer.protocol_2:
        return ""
    excluded = " or ".join(_EXCLUDED[anomaly] for anomaly in safer.protocol_2)
    return (
        "Use a client with transaction protocol 2 (KIP-890), such as Java's from 4.0 on, with "
        f"transaction.version=2: with that, the model finds no way to {excluded} under these "
        "faults."
    )


#: What the model excludes, by anomaly.
_EXCLUDED = {"lost": "lose an acked record", "aborted-read": "read an aborted record"}


def _of_settings(safer: Safer) -> str:
    if safer.replicas == 1:
        return (
            "Give the topic more replicas: with one, no setting keeps a record that its broker "
            "loses. 3 replicas with acks=all and min.insync.replicas=2 are usual."
        )
    if not safer.changes:
        return (
            "acks, min.insync.replicas and unclean.leader.election.enable have their safest values "
            f"already: against these faults only other measures help{_because(safer)}."
        )
    return _of_model(safer)


def _because(safer: Safer) -> str:
    return f" ({safer.reason})" if safer.reason else ""


def _without_loss(verdict: Verdict) -> str:
    if verdict.predicted.get(REMOVED, "impossible") != "impossible":
        return (
            "Kafka removes acked records of this topic on purpose: "
            f"{verdict.prediction.reasons.get(REMOVED, '')}. To keep them, set retention.ms=-1, "
            "retention.bytes=-1 and cleanup.policy=delete; with "
            "message.timestamp.type=LogAppendTime the age does not depend on producers."
        )
    if _proven(verdict):
        return (
            "Keep this configuration: the model finds no way to lose an acked record under these "
            f"faults. {_price(verdict)}"
        )
    return ""


def _of_model(safer: Safer) -> str:
    what = fmt.listing(f"{key}={value}" for key, value in safer.changes.items())
    if safer.predicted == "impossible":
        return (
            f"Set {what}: with that, the model finds no way to lose an acked record under these "
            f"faults. {_model_price(safer.availability)}"
        )
    return (
        f"Set {what}. That alone is not enough: the model calls a loss {safer.predicted} under "
        f"these faults even so{_because(safer)}."
    )


def _proven(verdict: Verdict) -> bool:
    return verdict.predicted.get("lost") == "impossible"


def _cost(
    other: str, unavailable: tuple[float, float], p99: tuple[float | None, float | None]
) -> str:
    parts = [
        f"the worst partition acked nothing for {fmt.duration(unavailable[0])} instead of "
        f"{fmt.duration(unavailable[1])}"
    ]
    if p99[0] is not None and p99[1] is not None:
        parts.append(
            f"ack latency at p99 was {fmt.duration(p99[0])} instead of {fmt.duration(p99[1])}"
        )
    return f"Against {other}, {fmt.listing(parts)}."


def _price(verdict: Verdict) -> str:
    latency = verdict.metrics.ack_latency_ms
    if latency is None:  # a producer was slower than the cluster
        return "Its cost in availability and latency was not observed."
    down = fmt.seconds(verdict.metrics.unavailability_s)
    p99 = fmt.duration(latency.p99)
    return (
        f"It costs: here the worst partition acked nothing for {down}, and ack latency was {p99} "
        "at p99."
    )


def _model_price(parts: Sequence[PartAvailability]) -> str:
    price = "It costs: every ack waits for the in-sync replicas"
    for ability, word in (("cannot", "cannot"), ("either", "may not")):
        when = [part.part for part in parts if part.writable == ability]
        if when:
            later = ", and at times after that" if len(when) > 1 else ""
            return f"{price}, and the partition {word} take writes {when[0]}{later}."
    return f"{price}; the partition can be written all the time."
