"""Reads and extracts the records of a stopped replica."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

from ackproof.errors import ScenarioError
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets
from ackproof_spark.errors import SegmentError
from ackproof_spark.forensics.segment_records import Record, records


def read_records(replica: Path, offsets: Offsets) -> Iterator[Record]:
    """Yield the records with these offsets. Raises ScenarioError if one cannot be read."""
    try:
        yield from records(replica, first=offsets.first, last=offsets.last)
    except SegmentError as error:
        raise ScenarioError(str(error)) from error


def extracted(
    replica: Path, place: TopicPartition, broker: int, offsets: Offsets, out: Path
) -> int:
    """Write the records with these offsets to a new file; return their number."""
    count = 0
    try:
        with out.open("x", encoding="utf-8") as file:
            for record in read_records(replica, offsets):
                file.write(json_line(record, *place, broker) + "\n")
                count += 1
    except FileExistsError:
        raise ScenarioError(f"{out} exists", hint="Name another file with --to.") from None
    except OSError as error:
        raise ScenarioError(f"{out} cannot be written: {error.strerror}") from error
    return count


def json_line(record: Record, topic: str, partition: int, broker: int) -> str:
    """Return a record as a line of JSON; key, value and headers' values are in base64."""
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "leader_epoch": record.leader_epoch,
            "timestamp": record.timestamp,
            "key": _base64(record.key),
            "value": _base64(record.value),
            "headers": [[name, _base64(value)] for name, value in record.headers],
            "transaction": record.transaction,
            "broker": broker,
        }
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
