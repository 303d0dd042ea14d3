"""The delivery log, which a share consumer of the user writes in any language, and its tables.

The format is JSON lines, and `DeliveryEvent` defines it. A line says what has happened to a record:

    {"event": "acquired", "topic": "orders", "partition": 0, "offset": 17, "at": 1767225600000,
     "delivery_count": 1, "head": "414b5031…"}
    {"event": "processed", "topic": "orders", "partition": 0, "offset": 17, "at": 1767225600004}
    {"event": "accept", "topic": "orders", "partition": 0, "offset": 17, "at": 1767225600005}
    {"event": "answered", "topic": "orders", "partition": 0, "offset": 17, "at": 1767225600009}

An event is of the last delivery of its record in the log. The tables are those of ackproof's share
consumers. Torn and wrong lines are skipped, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from ackproof.ledger import arrow_stream
from ackproof.ledger.log_lines import (
    LogFormat,
    LogProblems,
    LogReport,
    RecordDigest,
    RecordId,
    RecordKey,
    Time,
    parsed,
    part_hash,
)
from ackproof_model.share_groups.partition import Acknowledgement
from ackproof_spark.reading.application_records import PARTS
from ackproof_spark.record import END_MARKER, head_name, run_token
from ackproof_spark.tables import (
    ACKNOWLEDGEMENTS,
    ACQUISITIONS,
    EFFECTS,
    LOCATION,
    READ_IDENTITIES,
    SCHEMA_VERSION,
)


class DeliveryEvent(BaseModel):
    """What a share consumer did with a record, or what brokers answered. Other keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: Literal["acquired", "processed", Acknowledgement, "answered"] = Field(
        description="acquired: a poll returned the record; processed: its processing has an "
        "effect; accept, release, reject, renew: written before it is sent; answered: the brokers "
        "answered the last of these"
    )
    topic: str = Field(min_length=1, description="the topic")
    partition: int = Field(ge=0, le=2**31 - 1, description="the partition")
    offset: int = Field(ge=0, le=2**63 - 1, description="the offset")
    at: Time = Field(description="when: RFC 3339, or milliseconds since 1970")
    delivery_count: int | None = Field(
        default=None, ge=1, le=2**15 - 1, description="of an acquired record: the brokers' count"
    )
    head: str | None = Field(
        default=None,
        pattern=r"^([0-9a-fA-F]{2})*$",
        description="of an acquired record of ackproof's producers, required: the first 32 bytes "
        "of its value, hex, which name it",
    )
    id: RecordId = None
    digest: RecordDigest = None
    key: RecordKey = None
    error: str | None = Field(
        default=None,
        description="of an answer: the error with which brokers refused, such as "
        "INVALID_RECORD_STATE; null if they did not",
    )

    @property
    def record(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset

    @property
    def identity(self) -> list[str | None]:
        """The hashes of `PARTS` of its record, None for a part that the line lacks."""
        values = [getattr(self, part) for part in PARTS]
        return [
            None if value is None else part_hash(part, value)
            for part, value in zip(PARTS, values, strict=True)
        ]


_FORMAT = LogFormat(
    noun="a delivery log",
    keys=frozenset({"event", "topic", "partition", "offset"}),
    page="docs/reference/delivery-log.md",
)


def path(run_dir: Path, consumer: int) -> Path:
    """Return the delivery log that a consumer of a run writes."""
    return run_dir / "application" / f"deliveries-{consumer}.jsonl"


def is_delivery(line: bytes) -> bool:
    """Whether a line of JSON records an acquired record; no other check."""
    row = parsed(line)
    return row is not None and row.get("event") == "acquired"


def close(run_dir: Path) -> LogReport:
    """Convert the delivery logs that have no tables yet. Raises `DiskError`."""
    report = LogReport()
    answered: dict[str, bool] = {}
    for path_of_spec in sorted((run_dir / "clients").glob("consumer-*.json")):
        spec = parsed(path_of_spec.read_bytes()) or {}  # a killed harness leaves a part of it
        table = run_dir / LOCATION["acquisitions"] / f"{path_of_spec.stem}.parquet"
        if (spec.get("share") or {}).get("program") and not table.exists():
            common = {"run_id": run_dir.name, "consumer": spec["number"], "group": spec["group"]}
            rows = _Deliveries(token=None if spec.get("identities") else run_token(run_dir.name))
            of_log = _convert(rows, path(run_dir, spec["number"]), run_dir, common)
            report += of_log
            if rows.acknowledged:
                before = answered.get(spec["group"], False)
                answered[spec["group"]] = before or any(row[-2] for row in rows.acknowledged)
    unanswered = sorted(group for group, any_of_it in answered.items() if not any_of_it)
    return report + LogReport(remarks=[_NO_ANSWERS.format(group) for group in unanswered])


_NO_ANSWERS = (
    "what brokers answered to acknowledgements of {}, whose delivery logs have no line `answered`: "
    "delivered-after-accept and redelivered are not measured"
)


@dataclass
class _Deliveries:
    """The rows of the tables.

    `token`: that of the run in its producers' records; None if an application sends. `last`: the
    last delivery of each record; `asked`: its acknowledgement without an answer.
    """

    token: bytes | None
    identities: list[list[Any]] = field(default_factory=list)
    acquired: list[list[Any]] = field(default_factory=list)
    acknowledged: list[list[Any]] = field(default_factory=list)
    processed: list[list[Any]] = field(default_factory=list)
    strays: list[int] = field(default_factory=list)
    last: dict[tuple[str, int, int], list[Any]] = field(default_factory=dict)
    asked: dict[tuple[str, int, int], list[Any]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def take(self, event: DeliveryEvent, line: int) -> None:
        """Take the event of a line. Raises ValueError if it is of no delivery."""
        if event.event == "acquired":
            self._acquire(event, line)
            return
        if event.record not in self.last:
            raise ValueError(
                f"{event.event} of {event.topic}-{event.partition} offset {event.offset}, which "
                "no earlier line has acquired"
            )
        delivery = self.last[event.record]
        if event.event in ("processed", "accept") and delivery[0] not in self.done:
            self.done.add(delivery[0])
            self.processed.append([*delivery[2:], event.at])
        if event.event in get_args(Acknowledgement):
            self.asked[event.record] = [*delivery, event.event, event.at, None, None]
            self.acknowledged.append(self.asked[event.record])
        elif event.event == "answered" and (asked := self.asked.pop(event.record, None)):
            asked[-2:] = event.at, event.error

    def _acquire(self, event: DeliveryEvent, line: int) -> None:
        name = (None, None) if self.token is None else self._name(event, line)
        delivery = [len(self.acquired), 0, *event.record, *name]
        self.last[event.record] = delivery
        self.asked.pop(event.record, None)
        self.identities.append([*delivery[:2], *event.identity])
        self.acquired.append([*delivery, event.delivery_count, event.at])

    def _name(self, event: DeliveryEvent, line: int) -> tuple[int | None, int | None]:
        if event.head is None:
            raise ValueError("an acquired record needs its head: the first 32 bytes of its value")
        head = bytes.fromhex(event.head)
        token, *name = head_name(head) or (b"", None, None)
        if token == self.token:
            return name[0], name[1]
        if head != END_MARKER:
            self.strays.append(line)
        return None, None


def _convert(rows: _Deliveries, log: Path, run_dir: Path, common: Mapping[str, Any]) -> LogReport:
    problems = LogProblems()
    if log.exists():
        for number, row, _ in _FORMAT.objects(log, problems):
            try:
                rows.take(DeliveryEvent.model_validate(row), number)
            except ValueError as error:
                problems.wrong.append(_FORMAT.wrong(log, number, error).message)
    tables: dict[str, tuple[pa.Schema, Sequence[Sequence[Any]]]] = {
        "effects": (EFFECTS, rows.processed),
        "acknowledgements": (ACKNOWLEDGEMENTS, rows.acknowledged),
        **({"read_identities": (READ_IDENTITIES, rows.identities)} if rows.token is None else {}),
        "acquisitions": (ACQUISITIONS, rows.acquired),  # the last: a log with it is converted
    }
    for name, (schema, of_table) in tables.items():
        target = run_dir / LOCATION[name] / f"consumer-{common['consumer']}.parquet"
        target.parent.mkdir(exist_ok=True)
        constants = {"schema_version": SCHEMA_VERSION, **common}
        table = _table(schema, of_table, constants)
        arrow_stream.convert(log, target, partial(pq.write_table, table, compression="zstd"))
    return problems.report(log.name, "deliveries") + LogReport(unread=[*_strays(log, rows)])


def _table(
    schema: pa.Schema, rows: Sequence[Sequence[Any]], constants: Mapping[str, Any]
) -> pa.Table:
    own = [column for column in schema if column.name not in constants]
    columns = {
        column.name: pa.array([row[index] for row in rows], column.type)
        for index, column in enumerate(own)
    }
    return arrow_stream.assemble(schema, len(rows), constants, columns)


def _strays(log: Path, rows: _Deliveries) -> Iterator[str]:
    if rows.strays:
        yield (
            f"{log.name} has deliveries whose head is that of no record of this run, so that they "
            f"are not checked: {len(rows.strays):,} (the first in line {rows.strays[0]})"
        )
