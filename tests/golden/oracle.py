"""A second implementation of all anomalies in plain Python: slow, and easy to check."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import Outcome, RecordState
from spark_histories import History, Record, Send


def anomalies(history: History) -> list[str]:  # noqa: PLR0912  one branch a rule
    """Return a history's anomalies, as `spark_histories.show` writes them without `found`."""
    found: list[str] = []

    def report(anomaly: Anomaly, partition: int, name, offset: int | None, send: Send | None):
        send_name = "" if name is None else f" {name[0]}/{name[1]}"
        at = "" if offset is None else f" at {offset}"
        window = _window(history, send.resolved if send else None)
        inside = "" if window is None else f" in {window}"
        found.append(f"{anomaly}{send_name} on {partition}{at}{inside}")

    sent = {(send.partition, send.producer, send.sequence): send for send in history.sends}
    copies: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for item in sorted(history.log, key=lambda item: item.offset):
        if item.state is RecordState.INTACT:
            copies[item.partition, item.producer, item.sequence].append(item.offset)

    explained = set()
    for item in history.log:
        if item.state is RecordState.CORRUPT:
            name = _stands_for(item, history)
            send = sent[item.partition, *name] if name else None
            report(Anomaly.CORRUPT, item.partition, name, item.offset, send)
            explained.add((item.partition, *(name or ())))
        elif item.state is RecordState.FOREIGN:
            report(Anomaly.PHANTOM, item.partition, None, item.offset, None)

    for key, offsets in copies.items():
        partition, *name = key
        send = sent.get(key)
        if send is None or send.outcome is Outcome.FAILED:
            report(Anomaly.PHANTOM, partition, name, offsets[0], send)
        elif send.outcome is Outcome.ABORTED:
            report(Anomaly.ABORTED_READ, partition, name, offsets[0], send)
        for offset in offsets[1:]:
            report(Anomaly.DUPLICATED, partition, name, offset, send)

    claimed = {
        key: offsets[0]
        for key, offsets in copies.items()
        if key in sent and sent[key].outcome in (Outcome.ACKED, Outcome.UNKNOWN)
    }
    for (partition, producer, sequence), offset in claimed.items():
        if any(
            key[:2] == (partition, producer) and key[2] > sequence and before < offset
            for key, before in claimed.items()
        ):
            send = sent[partition, producer, sequence]
            report(Anomaly.REORDERED, partition, (producer, sequence), offset, send)

    for key, send in sent.items():
        if _contradicted(key, send, history, copies) and key not in explained:
            name = (send.producer, send.sequence)
            report(Anomaly.INCONSISTENT, send.partition, name, send.offset, send)

    for key, send in sent.items():
        if send.outcome is Outcome.ACKED and key not in copies and key not in explained:
            verdict = _absent(send, history)
            if verdict is not None:
                name = (send.producer, send.sequence)
                report(verdict, send.partition, name, send.offset, send)
    return sorted(found)


def _contradicted(key, send: Send, history: History, copies) -> bool:
    if send.outcome is not Outcome.ACKED or send.offset is None:
        return False
    if send.offset in copies.get(key, []):
        return False
    claims = [
        other
        for other in history.sends
        if other.outcome is Outcome.ACKED
        and (other.partition, other.offset) == (send.partition, send.offset)
    ]
    if len(claims) > 1:
        return True
    end = next((end for end in history.ends if end.partition == send.partition), None)
    if key not in copies or end is None or send.offset < end.begin:
        return False
    offsets = [item.offset for item in history.log if item.partition == send.partition]
    return end.reason is None or any(offset >= send.offset for offset in offsets)


def _absent(send: Send, history: History) -> Anomaly | None:
    offsets = [item.offset for item in history.log if item.partition == send.partition]
    end = next((end for end in history.ends if end.partition == send.partition), None)
    if end is None:
        return Anomaly.UNSEEN
    complete = end.reason is None
    if send.offset is None:
        return Anomaly.LOST if complete and end.begin == 0 else Anomaly.UNSEEN
    if send.offset < end.begin:
        return None
    passed = any(offset >= send.offset for offset in offsets)
    return Anomaly.LOST if complete or passed else Anomaly.UNSEEN


def _stands_for(item: Record, history: History) -> tuple[int, int] | None:
    header: Any = None if item.short or item.producer is None else (item.producer, item.sequence)
    here = [send for send in history.sends if send.partition == item.partition]
    acked_here = sorted(
        (send.producer, send.sequence)
        for send in here
        if send.outcome is Outcome.ACKED and send.offset == item.offset
    )
    if header in acked_here:
        return header
    named = [send for send in here if (send.producer, send.sequence) == header]
    if named and named[0].offset is None:
        return header
    return acked_here[0] if acked_here else None


def _window(history: History, at: float | None) -> int | None:
    in_force = [
        (window.injected, window.number)
        for window in history.windows
        if at is not None
        and window.injected <= at
        and (window.healed is None or at < window.healed)
    ]
    return max(in_force)[1] if in_force else None
