"""Whether the clients used what a fault changed.

A fault that no client met proves nothing, even if it is verified: partitions that were added and
never written to, partitions that were moved and not read afterwards, a broker that was killed while
no transaction was open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ackproof.judgement.evidence import Evidence, micros
from ackproof.judgement.reads import last_reads
from ackproof.judgement.sends import NEVER, sends_of, transactions
from ackproof.runs.verdict import FaultReport
from ackproof.scenario.client import refresh_setting
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OFFSETS, TRANSACTIONS, coordinator_partition
from ackproof_faults import NoFault, registered
from ackproof_faults.interfaces.cluster import TopicPartition

#: What happens in each internal topic.
_COORDINATED = {OFFSETS: "offset was committed", TRANSACTIONS: "transaction ended"}

_OF_TRANSACTION = ["first_sequence", "end_sequence", "ended_at"]


def unexercised(evidence: Evidence) -> Iterator[str]:
    """Yield the faults that the clients did not meet, each with what was missing."""
    for fault in evidence.faults:
        if fault.verified:
            yield from _unsent(evidence, fault)
            yield from _unread(evidence, fault)
            yield from _uncoordinated(evidence, fault)
    yield from _without_transaction(evidence)


def _unsent(evidence: Evidence, fault: FaultReport) -> Iterator[str]:
    """Yield that no send was acked in partitions that a fault added or moved."""
    scenario = evidence.scenario
    changed = [one for one in (*fault.added, *fault.moved) if one[0] in scenario.sends]
    if not changed:
        return
    acked = _acked(evidence)
    idle = [one for one in changed if acked.get(one, -1) < _since(fault)]
    if idle:
        yield f"{fault}: no send was acked in {_named(idle)} afterwards" + _why_unsent(
            scenario, fault, idle[0][0]
        )


def _why_unsent(scenario: Scenario, fault: FaultReport, topic: str) -> str:
    sends = scenario.sends[topic]
    if not (scenario.senders.are_our_clients and fault.added):
        return ""
    if sends.partition is not None:
        return f" (workload.partition is {sends.partition}: remove it)"
    return _refresh("producers", sends.client.java, sends.client_settings)


def _unread(evidence: Evidence, fault: FaultReport) -> Iterator[str]:
    """Yield the groups that read nothing of partitions that a fault added or moved.

    A partition without an acked send has nothing to be read. Members whose partitions ackproof
    assigns never get added ones: their records count as unprocessed.
    """
    workload = evidence.scenario.workload
    if not workload.consumers:
        return
    acked = _acked(evidence)
    changed = [
        one
        for one in (*fault.added, *fault.moved)
        if one[0] == workload.topic and acked.get(one, -1) >= _since(fault)
    ]
    for name, group in workload.consumers.items():
        if fault.added and group.via == "assign":
            continue
        read = last_reads(evidence)
        unread = [
            one for one in changed if (name, one) not in read or read[name, one].at < _since(fault)
        ]
        if unread:
            settings = group.settings.as_client_settings()
            why = _refresh("consumers", group.client.java, settings) if fault.added else ""
            yield f"{fault}: {name} read no record of {_named(unread)} afterwards{why}"


def _uncoordinated(evidence: Evidence, fault: FaultReport) -> Iterator[str]:
    """Yield that no coordinator used what a fault moved of an internal topic.

    One of the partitions suffices: a group or a transactional.id uses only one.
    """
    moved = [one for one in fault.moved if one[0] in _COORDINATED]
    if not (moved and evidence.scenario.senders.are_our_clients):
        return  # an application's groups and transactions are not known
    used = evidence.once("coordinated", lambda: _last_coordinated(evidence))
    if all(used.get(one, -1) < _since(fault) for one in moved):
        yield f"{fault}: no {_COORDINATED[moved[0][0]]} in {_named(moved)} afterwards"


def _last_coordinated(evidence: Evidence) -> dict[TopicPartition, int]:
    """Return when each partition of an internal topic was last used, microseconds.

    A group's offsets, and the state of a transactional.id, are in the partition of its hash.
    """
    last: dict[TopicPartition, int] = {}

    def note(topic: str, name: str, at: int) -> None:
        partitions = evidence.scenario.every_topic[topic].partitions
        one = topic, coordinator_partition(name, partitions)
        last[one] = max(last.get(one, -1), at)

    for row in evidence.rows("consumer_events"):
        if row["event"] == "committed":
            note(OFFSETS, row["group"], micros(row["at"]))
            specification = _specification(evidence, f"consumer-{row['consumer']}")
            if name := specification.get("transactional_id"):
                note(TRANSACTIONS, name, micros(row["at"]))
    for path in evidence.ledgers():
        ended = transactions(evidence, path.stem)["ended_at"].to_pylist()
        own = _specification(evidence, path.stem).get("transactions")
        if own and (times := [micros(at) for at in ended if at is not None]):
            note(TRANSACTIONS, own["transactional_id"], max(times))
    return last


def _specification(evidence: Evidence, client: str) -> dict[str, Any]:
    """Return a client's specification; an absent one, which another check reports, is empty."""
    path = evidence.clients / f"{client}.json"

    def read() -> dict[str, Any]:
        known: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
        return known

    return evidence.once(path, read)


def _refresh(who: str, java: str | None, settings: Mapping[str, object]) -> str:
    key, milliseconds = refresh_setting(java, settings)
    return (
        f" ({who} learn of new partitions when they refresh their metadata, at the latest after "
        f"{key}={milliseconds}: lower it, or raise workload.tail)"
    )


def _named(partitions: Sequence[TopicPartition]) -> str:
    """Return `orders-1, orders-2`; several consecutive ones as `orders-1 to orders-3`."""
    first, last = partitions[0], partitions[-1]
    if len(partitions) > 2 and last[1] - first[1] == len(partitions) - 1:
        partitions, word = [first, last], " to "
    else:
        word = ", "
    return word.join(f"{topic}-{number}" for topic, number in partitions)


def _since(fault: FaultReport) -> int:
    """Return from when on its partitions must be used, microseconds; 0 for new partitions."""
    return 0 if fault.added else micros(fault.injected_at)


def _acked(evidence: Evidence) -> Mapping[TopicPartition, int]:
    """Return the time of each partition's last ack, without those of the probe."""

    def read() -> dict[TopicPartition, int]:
        last: dict[TopicPartition, int] = {}
        for path in evidence.own_ledgers():
            for partition, at in sends_of(evidence, path).last_acks.items():
                last[partition] = max(at, last.get(partition, at))
        return last

    return evidence.once("last acks", read)


def _without_transaction(evidence: Evidence) -> Iterator[str]:
    """Yield the faults that struck while no transaction of a producer was open."""
    if evidence.scenario.workload.transactions is None:
        return
    strikes = {name for name, kind in registered().items() if kind is not NoFault}
    faults = [fault for fault in evidence.faults if fault.verified and fault.fault in strikes]
    if not faults:
        return
    spans = np.array([*_open_spans(evidence)], np.int64).reshape(-1, 2)
    for fault in faults:
        begin = micros(fault.injected_at)
        end = max(begin, micros(fault.healed_at or fault.verified_at or fault.injected_at))
        if not ((spans[:, 0] <= end) & (spans[:, 1] >= begin)).any():
            yield f"{fault}: no transaction was open while it held"


def _open_spans(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each transaction, microseconds; one that never ended has no end.

    A transaction begins with its first send.
    """
    for path in evidence.transactional_ledgers():
        rows = transactions(evidence, path.stem).select(_OF_TRANSACTION).to_pylist()
        following = rows[-1]["end_sequence"] if rows else 0
        sends = sends_of(evidence, path)
        # A killed producer has no time of its last sends: then since the transaction before.
        ended_at = 0
        for row in rows:
            begun_at = sends.sent_at.get(row["first_sequence"], ended_at)
            ended_at = NEVER if row["ended_at"] is None else micros(row["ended_at"])
            yield begun_at, ended_at
        if following < sends.rows:
            yield sends.sent_at.get(following, ended_at), NEVER
