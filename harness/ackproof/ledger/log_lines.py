"""The lines of a log that a program of the user writes: one JSON object a line.

A line with incomplete JSON is torn: its writer was killed, and another writer may have continued
after it. Lines of another program, such as log4j's, are passed over. Both are counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field, ValidationError, WithJsonSchema

from ackproof.errors import AckedLogError

#: Bytes of another program's line that a message quotes.
_QUOTED = 60

#: Bytes of a file that are read to see what it is.
SNIFFED = 65_536

#: The begin of a JSON array of objects.
ARRAY = re.compile(rb"\s*\[\s*(\{|\]|$)")


def _parse_time(value: object) -> object:
    """Accept milliseconds since 1970, Kafka's unit of time, besides RFC 3339 with an offset."""
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000, tz=UTC)
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"{value} is not a time in milliseconds since 1970") from None
    return value


Time = Annotated[
    AwareDatetime,
    BeforeValidator(_parse_time),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": 0}]}
    ),
]

#: The parts by which a record of an application is recognized, as `application_records.PARTS`.
RecordId = Annotated[
    str | None, Field(description="the value of the record's header ackproof-id, UTF-8")
]
RecordDigest = Annotated[
    str | None,
    Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the record's value (of no bytes for a null value), hex, lower case",
    ),
]
RecordKey = Annotated[str | None, Field(description="the record's key, UTF-8")]


def part_hash(part: str, value: str) -> str:
    """Return the SHA-256 of a part of a record's identity, in hex."""
    return value if part == "digest" else hashlib.sha256(value.encode()).hexdigest()


#: Maximum number of torn lines in a message.
_LISTED = 5


@dataclass(frozen=True, kw_only=True)
class LogReport:
    """What is said of logs: `unread` makes a run inconclusive, `remarks` do not."""

    unread: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def __add__(self, other: LogReport) -> LogReport:
        return LogReport(
            unread=[*self.unread, *other.unread], remarks=[*self.remarks, *other.remarks]
        )


@dataclass(kw_only=True)
class LogProblems:
    """The parts of a log that were not read.

    `torn` are numbers of lines, `wrong` messages, `backwards` counts sends with unusable times,
    `foreign` lines of other programs; `first_foreign` is the begin of the first, with its number.
    """

    torn: list[int] = field(default_factory=list)
    last_torn: bool = False
    wrong: list[str] = field(default_factory=list)
    backwards: int = 0
    foreign: int = 0
    first_foreign: str = ""

    def report(self, name: str, what: str) -> LogReport:
        """Return what is said of the log `name`, whose lines are of `what`."""
        torn = self.torn[:-1] if self.last_torn else self.torn
        remarks, unread = [], []
        if self.last_torn:
            remarks.append(f"the last line of {name} is cut short and not counted")
        if self.foreign:
            remarks.append(
                f"lines of {name} by other programs: {self.foreign:,} ({self.first_foreign})"
            )
        if self.backwards:
            remarks.append(
                f"{self.backwards:,} {what} of {name} have an ack before they were sent: "
                "their times are not used"
            )
        if torn:
            numbers = ", ".join(map(str, torn[:_LISTED])) + (", …" if len(torn) > _LISTED else "")
            unread.append(
                f"{name} has torn lines, whose {what} are not checked: {len(torn):,} ({numbers})"
            )
        if self.wrong:
            unread.append(
                f"{name} has wrong lines, whose {what} are not checked: {len(self.wrong):,} "
                f"({self.wrong[0]})"
            )
        return LogReport(unread=unread, remarks=remarks)


@dataclass(frozen=True, kw_only=True)
class LogFormat:
    """How a log is told from other lines, and where it is described.

    Each of its lines has one of the `keys`, or is an event of a known program with a name of
    `events`. `noun` names the log, `page` is its reference.
    """

    noun: str
    keys: frozenset[str]
    events: frozenset[str] = frozenset()
    page: str

    def objects(
        self, path: Path, problems: LogProblems
    ) -> Iterator[tuple[int, Mapping[str, Any], str]]:
        """Yield number, values and text of each line with an object of this log."""
        with path.open("rb") as lines:
            if ARRAY.match(lines.peek(SNIFFED)):
                raise AckedLogError(
                    f"{path} is a JSON array; {self.noun} has one JSON object a line",
                    hint=f"jq -c '.[]' {path} > lines.jsonl",
                )
            for number, line in enumerate(lines, 1):
                problems.last_torn = False
                if not line.strip():
                    continue
                row = parsed(line)
                if self._is_foreign(line, row):
                    problems.foreign += 1
                    text = line.strip()[:_QUOTED].decode(errors="replace")
                    problems.first_foreign = problems.first_foreign or f"line {number}: {text!r}"
                elif row is None:
                    problems.torn.append(number)
                    problems.last_torn = True
                else:
                    yield number, row, line.decode().rstrip("\r\n")

    def wrong(self, path: Path, number: int, error: ValueError) -> AckedLogError:
        value, message = "", str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            message = str(first["msg"]).removeprefix("Value error, ")
            value = f"{where}: {first['input']!r}: " if where and first["type"] != "missing" else ""
            value = value or (where and f"{where}: ")
        return AckedLogError(
            f"{path}, line {number}: {value}{message}", hint=f"{self.page} has the format."
        )

    def _is_foreign(self, line: bytes, row: Mapping[str, Any] | None) -> bool:
        """Whether another program wrote the line: it is neither an object of the log nor a part.

        A torn line has the begin or the end of its JSON, or one of its keys.
        """
        if row is not None:
            return not (self.keys & row.keys() or row.get("name") in self.events)
        begins, ends = line.lstrip().startswith(b"{"), line.count(b"}") > line.count(b"{")
        return not (begins or ends or any(b'"%s"' % key.encode() in line for key in self.keys))


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if it is not one, or nested too deeply."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


class GrowingLog:
    """Counts the lines of a kind in a log that grows."""

    def __init__(self, path: Path, kind: Callable[[bytes], bool]) -> None:
        self._path, self._kind = path, kind
        self._read_to = self._count = 0

    def count(self) -> int:
        """Return how many complete lines so far are of the kind."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read_to)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read_to += len(whole)
            self._count += sum(map(self._kind, whole.splitlines()))
        return self._count
