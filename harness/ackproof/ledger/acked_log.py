"""The acked log, which an application in any language writes about its sends, and its readers.

The format is JSON lines, one line a send, and `AckedSend` defines it::

    {"topic": "orders", "partition": 0, "offset": 17, "key": "order-17", "sent_at": 1767225600000}
    {"topic": "orders", "outcome": "unknown", "key": "order-18", "error": "timed out"}

The same columns are read from CSV (with a header line) and Parquet, and the lines of
kafka-verifiable-producer are understood.

Torn lines are skipped (`log_lines`), and those of other programs, because no send can be lost with
them. Lines with complete but wrong JSON are counted and skipped after a run; in files of a user
they raise AckedLogError.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ackproof.errors import AckedLogError, DiskError
from ackproof.ledger.log_lines import (
    ARRAY,
    SNIFFED,
    LogFormat,
    LogProblems,
    RecordDigest,
    RecordId,
    RecordKey,
    Time,
    parsed,
    part_hash,
)
from ackproof_spark.reading.application_records import PARTS, kind_of
from ackproof_spark.tables import Outcome

#: Rows of one batch of a Parquet file.
_ROWS = 65_536

#: Missing values in CSV.
_ABSENT = ("", None)


class AckedSend(BaseModel):
    """One send of an application. At least one of `id`, `digest` and `key` must be given.

    Other keys are ignored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    topic: str = Field(min_length=1, description="the topic")
    partition: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="the partition; required for an acked send",
    )
    offset: int | None = Field(
        default=None,
        ge=-1,
        le=2**63 - 1,
        description="the offset in the ack; null or -1 if there was none (acks=0)",
    )
    outcome: Outcome = Field(
        default=Outcome.ACKED,
        description="acked; failed: certainly not written; unknown: any other error or timeout",
    )
    id: RecordId = None
    digest: RecordDigest = None
    key: RecordKey = None
    error: str | None = Field(default=None, description="the error of a send that was not acked")
    sent_at: Time | None = Field(
        default=None,
        description="when it was handed to the producer: RFC 3339, or milliseconds since 1970",
    )
    resolved_at: Time | None = Field(
        default=None, description="when its outcome became known, in the same form"
    )

    @model_validator(mode="after")
    def _can_be_looked_up(self) -> Self:
        if not self.kind:
            raise ValueError("one of id, digest and key is needed to recognize the record")
        if self.outcome is Outcome.ACKED and self.partition is None:
            raise ValueError("an acked send needs its partition")
        return self

    @property
    def kind(self) -> str:
        """The parts of its identity, as in `tables.IDENTITIES`."""
        return kind_of(part for part in PARTS if getattr(self, part) is not None)

    @property
    def identity(self) -> str:
        """The value that identifies its record, as in `tables.IDENTITIES`."""
        return "".join(
            part_hash(part, value) for part in PARTS if (value := getattr(self, part)) is not None
        )

    @property
    def text(self) -> str:
        """What its owner knows it by: the key, else the id, else the digest of the value."""
        name = next(part for part in ("key", "id", "digest") if getattr(self, part) is not None)
        return f"{name} {getattr(self, name)}"

    def __str__(self) -> str:
        at = "without an offset" if self.offset is None else f"at offset {self.offset}"
        return f"{self.topic}-{self.partition}, acked {at}, key {self.key!r}"


class AckedLogWriter:
    """Appends sends to an acked log, each by one write(2). Every method raises `DiskError`.

    After a kill, the written lines stay readable, and another writer can continue.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                os.write(self._fd, b"\n")  # a torn line must not tear the next one
        except OSError as error:
            raise self._disk_error(error) from error

    def append(self, send: AckedSend) -> None:
        line = memoryview(send.model_dump_json(exclude_none=True).encode() + b"\n")
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except OSError as error:
            raise self._disk_error(error) from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _disk_error(self, error: OSError) -> DiskError:
        return DiskError(
            f"the acked log {self.path} cannot be written: {error.strerror}",
            hint="Everything recorded so far can still be read.",
        )


def path(run_dir: Path) -> Path:
    """Return the acked log that the application of a run writes."""
    return run_dir / "application" / "acked.jsonl"


def read(path: Path, problems: LogProblems, *, lenient: bool = False) -> Iterator[AckedSend]:
    """Yield the sends of an acked log; the suffix determines its format: .csv, .parquet, else JSON.

    Raises AckedLogError with file and line for a complete but wrong line, unless `lenient`.
    """
    for send, _ in read_lines(path, problems, lenient=lenient):
        yield send


def read_lines(
    path: Path, problems: LogProblems, *, lenient: bool = False
) -> Iterator[tuple[AckedSend, str]]:
    """Yield each send as `read` does, with its line as it stands; of CSV and Parquet as JSON."""
    suffix = path.suffix.lower()
    source = {".csv": _csv_rows, ".parquet": _parquet_rows}.get(suffix, _FORMAT.objects)
    try:
        for number, row, line in source(path, problems):
            try:
                send = _send(row)
            except ValueError as error:
                wrong = _FORMAT.wrong(path, number, error)
                if not lenient:
                    raise wrong from None
                problems.wrong.append(wrong.message)
                continue
            if send is not None:
                yield _with_usable_times(send, problems), line or json.dumps(row, default=str)
    except OSError as error:
        raise AckedLogError(f"{path} cannot be read: {error.strerror or error}") from None


def is_ack(line: bytes) -> bool:
    """Whether a line of JSON records an acked send; no other check."""
    row = parsed(line)
    if row is None:
        return False
    if "name" in row and "topic" in row and "outcome" not in row:
        return bool(row["name"] == _SUCCESS)
    return bool(row.get("outcome", Outcome.ACKED) == Outcome.ACKED) and "topic" in row


def is_acked_log(path: Path) -> bool:
    """Whether a file is an acked log, by its suffix or the first lines of JSON."""
    if path.suffix.lower() in (".csv", ".parquet"):
        return True
    with path.open("rb") as file:
        begin = file.read(SNIFFED)
    if ARRAY.match(begin):
        return b'"topic"' in begin
    return any("topic" in (parsed(line) or ()) for line in begin.splitlines())


#: Events of kafka-verifiable-producer: a send, and what it says of itself.
_SUCCESS, _ERROR = "producer_send_success", "producer_send_error"
_OF_ITSELF = ("startup_complete", "shutdown_complete", "tool_data")

#: Events of kafka-verifiable-consumer.
_CONSUMED = (
    *("partitions_assigned", "partitions_revoked", "offsets_committed"),
    *("records_consumed", "record_data"),
)

_FORMAT = LogFormat(
    noun="an acked log",
    keys=frozenset({"topic", "partition", "offset", "outcome", "digest"}),
    events=frozenset({*_OF_ITSELF, *_CONSUMED}),
    page="docs/reference/acked-log.md",
)


def _send(row: Mapping[str, Any]) -> AckedSend | None:
    """Return the send of a row; None for other lines of kafka-verifiable-producer."""
    name = row.get("name")
    readers = {
        "kafka-verifiable-consumer": name in _CONSUMED,
        "kcat": "tstype" in row,
        "a delivery log": row.get("event") == "acquired",
    }
    for reader in filter(readers.get, readers):
        raise ValueError(f"a line of {reader}: it says what was read, not what was acked")
    if name in (_SUCCESS, _ERROR):
        value = row.get("value")
        digest = hashlib.sha256(("" if value is None else str(value)).encode()).hexdigest()
        acked = name == _SUCCESS
        return AckedSend.model_validate(
            {
                "topic": row.get("topic"),
                "partition": row.get("partition"),
                "offset": row.get("offset"),
                "outcome": Outcome.ACKED if acked else Outcome.UNKNOWN,
                "digest": digest,
                "key": row.get("key"),
                "error": row.get("message"),
                "resolved_at": row.get("timestamp"),
            }
        )
    if name in _OF_ITSELF:
        return None
    return AckedSend.model_validate(row)


def _with_usable_times(send: AckedSend, problems: LogProblems) -> AckedSend:
    """Drop times if the ack is before the send."""
    if send.sent_at is None or send.resolved_at is None or send.sent_at <= send.resolved_at:
        return send
    problems.backwards += 1
    return send.model_copy(update={"sent_at": None, "resolved_at": None})


#: Number, values and text of each row; '' where a row is no text.
_Rows = Iterator[tuple[int, Mapping[str, Any], str]]


def _csv_rows(path: Path, problems: LogProblems) -> _Rows:
    with path.open(newline="", encoding="utf-8", errors="strict") as file:
        rows = csv.DictReader(file, strict=True)
        try:
            if "topic" not in (rows.fieldnames or ()):
                raise AckedLogError(
                    f"{path}: its first line names no column 'topic'",
                    hint="The first line of a CSV file has the names of the columns "
                    "(docs/reference/acked-log.md).",
                )
            for row in rows:
                problems.last_torn = None in row.values()
                if problems.last_torn or None in row:
                    problems.torn.append(rows.line_num)
                    continue
                yield (
                    rows.line_num,
                    {name: value for name, value in row.items() if value not in _ABSENT},
                    "",
                )
        except (csv.Error, UnicodeDecodeError) as error:
            raise AckedLogError(f"{path}, line {rows.line_num}: {error}") from None


def _parquet_rows(path: Path, problems: LogProblems) -> _Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    known = {name: value for name, value in row.items() if value is not None}
                    yield number, known, ""
    except (pa.ArrowException, UnicodeDecodeError) as error:  # names of columns are text
        raise AckedLogError(f"{path} is not a whole Parquet file: {error}") from None
