"""Whether the clients used what a fault changed.

A fault that no client met proves nothing, even if it is verified: partitions that were added and
never written to, partitions that were moved and not read afterwards, a broker that was killed while
no transaction was open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judgement.evidence import Evidence
from ackproof.runs import table_files
from ackproof.runs.verdict import FaultReport
from ackproof.scenario.client import refresh_setting
from ackproof.scenario.model import Scenario
from ackproof_faults import NoFault, registered
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome

TopicPartition = tuple[str, int]

#: A time after all others.
_NEVER = np.iinfo(np.int64).max


def unexercised(evidence: Evidence) -> Iterator[str]:
    """Yield the faults that the clients did not meet, each with what was missing."""
    for fault in evidence.faults:
        if fault.verified:
            yield from _unsent(evidence, fault)
            yield from _unread(evidence, fault)
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
    return 0 if fault.added else _us(fault.injected_at)


def _acked(evidence: Evidence) -> Mapping[TopicPartition, int]:
    """Return the time of each partition's last ack; an ack without a time is as late as any."""
    return evidence.once("last acks", lambda: _last_acks(evidence))


def _last_acks(evidence: Evidence) -> dict[TopicPartition, int]:
    last: dict[TopicPartition, int] = {}
    for path in evidence.ledgers():
        if _number(path.stem) >= PROBE_PRODUCERS:
            continue
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
    faults = [fault for fault in evidence.faults if fault.verified and _strikes(fault)]
    if not faults:
        return
    spans = np.array([*_open_spans(evidence)], np.int64).reshape(-1, 2)
    for fault in faults:
        begin = _us(fault.injected_at)
        end = max(begin, _us(fault.healed_at or fault.verified_at or fault.injected_at))
        if not ((spans[:, 0] <= end) & (spans[:, 1] >= begin)).any():
            yield f"{fault}: no transaction was open while it held"


def _strikes(fault: FaultReport) -> bool:
    kind = registered().get(fault.fault)
    return kind is not None and kind is not NoFault


def _open_spans(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each transaction, microseconds; one that never ended has no end.

    A transaction begins with its first send.
    """
    topic = evidence.scenario.workload.topic
    for path in evidence.ledgers():
        other = _number(path.stem) >= PROBE_PRODUCERS
        if other or table_files.distinct(path, "topic") - {topic}:
            continue
        sends = pq.read_table(path, columns=["sequence", "sent_at"]).sort_by("sequence")
        sent_at = sends["sent_at"].cast("int64").to_pylist()
        following = 0
        for row in _transactions(evidence, path.stem):
            first, following = row["first_sequence"], row["end_sequence"]
            if first < len(sent_at) and sent_at[first] is not None:
                yield sent_at[first], _NEVER if row["ended_at"] is None else _us(row["ended_at"])
        if following < len(sent_at) and sent_at[following] is not None:
            yield sent_at[following], _NEVER


def _transactions(evidence: Evidence, producer: str) -> Iterable[dict[str, Any]]:
    path = evidence.file("transactions", producer)
    if not path.is_file():
        return []
    columns = ["transaction", "first_sequence", "end_sequence", "ended_at"]
    rows: list[dict[str, Any]] = pq.read_table(path, columns=columns).to_pylist()
    return sorted(rows, key=lambda row: row["transaction"])


def _number(stem: str) -> int:
    return int(stem.removeprefix("producer-"))


def _us(time: datetime) -> int:
    return int(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1e6)
