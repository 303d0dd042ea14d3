"""Whether the clients used what a fault changed.

A fault that no client met proves nothing, even if it is verified: partitions that were added and
never written to, partitions that were moved and not read afterwards, a broker that was killed while
no transaction was open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judgement.evidence import Evidence, micros, row_count
from ackproof.runs.verdict import FaultReport
from ackproof.scenario.client import refresh_setting
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OFFSETS, TRANSACTIONS
from ackproof_faults import NoFault, registered
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.tables import Outcome

#: What happens in each internal topic.
_COORDINATED = {OFFSETS: "offset was committed", TRANSACTIONS: "transaction ended"}

#: A time after all others.
_NEVER = np.iinfo(np.int64).max


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
    if scenario.workload.application is not None or not fault.added:
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
        read = evidence.once("last reads", lambda: _last_reads(evidence)).get(name, {})
        unread = [one for one in changed if read.get(one, -1) < _since(fault)]
        if unread:
            settings = group.settings.as_client_settings()
            why = _refresh("consumers", group.client.java, settings) if fault.added else ""
            yield f"{fault}: {name} read no record of {_named(unread)} afterwards{why}"


def _uncoordinated(evidence: Evidence, fault: FaultReport) -> Iterator[str]:
    """Yield that no coordinator used what a fault moved of an internal topic.

    One of the partitions suffices: a group or a transactional.id uses only one. An application's
    use is not known.
    """
    moved = [one for one in fault.moved if one[0] in _COORDINATED]
    if not moved or evidence.scenario.workload.application is not None:
        return
    used = evidence.once("coordinated", lambda: _last_coordinated(evidence))
    if all(used.get(one, -1) < _since(fault) for one in moved):
        yield f"{fault}: no {_COORDINATED[moved[0][0]]} in {_named(moved)} afterwards"


def _last_coordinated(evidence: Evidence) -> dict[TopicPartition, int]:
    """Return when each partition of an internal topic was last used, microseconds.

    A group's offsets, and the state of a transactional.id, are in the partition of its hash.
    """
    last: dict[TopicPartition, int] = {}

    def note(topic: str, name: str, at: int) -> None:
        one = topic, java_hash(name) % evidence.scenario.every_topic[topic].partitions
        last[one] = max(last.get(one, -1), at)

    for row in evidence.rows("consumer_events"):
        if row["event"] == "committed":
            note(OFFSETS, row["group"], micros(row["at"]))
            specification = _specification(evidence, f"consumer-{row['consumer']}")
            if name := specification.get("transactional_id"):
                note(TRANSACTIONS, name, micros(row["at"]))
    for path in evidence.ledgers():
        ended = [row["ended_at"] for row in _transactions(evidence, path.stem)]
        own = _specification(evidence, path.stem).get("transactions")
        if own and (times := [micros(at) for at in ended if at is not None]):
            note(TRANSACTIONS, own["transactional_id"], max(times))
    return last


def java_hash(name: str) -> int:
    """Return `Utils.abs(name.hashCode())` of Kafka, for a name in ASCII."""
    code = 0
    for character in name.encode():
        code = (31 * code + character) % 2**32
    code = abs(code - 2**32 if code >= 2**31 else code)
    return code if code < 2**31 else 0


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
    """Return the time of each partition's last ack; an ack without a time is as late as any."""
    return evidence.once("last acks", lambda: _last_acks(evidence))


def _last_acks(evidence: Evidence) -> dict[TopicPartition, int]:
    last: dict[TopicPartition, int] = {}
    for path in evidence.own_ledgers():
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(
                columns=["topic", "partition", "outcome", "resolved_at"]
            ):
                acked = batch.filter(pc.equal(batch["outcome"], str(Outcome.ACKED)))
                times = pc.fill_null(acked["resolved_at"].cast("int64"), _NEVER)
                _keep_last(last, acked["topic"], acked["partition"], times)
    return last


def _last_reads(evidence: Evidence) -> dict[str, dict[TopicPartition, int]]:
    """Return the time of each group's last read of each partition, without closing records."""
    ends = {
        (row["topic"], row["partition"]): row["end_offset"]
        for row in evidence.rows("partition_ends")
    }
    last: dict[str, dict[TopicPartition, int]] = {}
    columns = ["group", "topic", "partition", "offset", "read_at"]
    for batch in evidence.batches("reads", columns):
        below = pa.array(
            [
                offset < ends.get((topic, partition), _NEVER)
                for topic, partition, offset in zip(
                    *(batch[name].to_pylist() for name in ("topic", "partition", "offset")),
                    strict=True,
                )
            ],
            pa.bool_(),
        )
        records = batch.filter(below)
        for group in pc.unique(records["group"]).to_pylist():
            of = records.filter(pc.equal(records["group"], group))
            times = of["read_at"].cast("int64")
            _keep_last(last.setdefault(group, {}), of["topic"], of["partition"], times)
    return last


def _keep_last(
    last: dict[TopicPartition, int], topics: pa.Array, partitions: pa.Array, times: pa.Array
) -> None:
    table = pa.table({"topic": topics, "partition": partitions, "at": times})
    for row in table.group_by(["topic", "partition"]).aggregate([("at", "max")]).to_pylist():
        key = row["topic"], row["partition"]
        last[key] = max(last.get(key, -1), row["at_max"])


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
        rows = _transactions(evidence, path.stem)
        following = rows[-1]["end_sequence"] if rows else 0
        sent_at = _sent_at(path, [*(row["first_sequence"] for row in rows), following])
        # A killed producer has no time of its last sends: then since the transaction before.
        ended_at = 0
        for row in rows:
            begun_at = sent_at.get(row["first_sequence"], ended_at)
            ended_at = _NEVER if row["ended_at"] is None else micros(row["ended_at"])
            yield begun_at, ended_at
        if following < row_count(path):
            yield sent_at.get(following, ended_at), _NEVER


def _sent_at(ledger: Path, sequences: Sequence[int]) -> dict[int, int]:
    """Return the known times of these sends, microseconds."""
    times: dict[int, int] = {}
    with pq.ParquetFile(ledger) as file:
        for batch in file.iter_batches(columns=["sequence", "sent_at"]):
            wanted = batch.filter(pc.is_in(batch["sequence"], pa.array(sequences, pa.int64())))
            pairs = zip(
                wanted["sequence"].to_pylist(),
                wanted["sent_at"].cast("int64").to_pylist(),
                strict=True,
            )
            times |= {sequence: at for sequence, at in pairs if at is not None}
    return times


def _transactions(evidence: Evidence, producer: str) -> list[dict[str, Any]]:
    path = evidence.file("transactions", producer)
    if not path.is_file():
        return []
    columns = ["transaction", "first_sequence", "end_sequence", "ended_at"]
    rows: list[dict[str, Any]] = pq.read_table(path, columns=columns).to_pylist()
    return sorted(rows, key=lambda row: row["transaction"])
