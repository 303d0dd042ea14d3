"""Small histories as readable text, and the run directory that Spark reads.

A history has one topic. Its notation, one line for each event::

    sends    "1/7 to 0: acked at 9"            producer 1, sequence 7, partition 0, offset 9
             "1/8 to 0: acked"                 no offset known
             "1/9 to 0: failed MSG_TIMED_OUT"  or `unknown`, with or without an error
             "2/0 to 1: acked at 0 [3-4.5]"    sent and resolved, in seconds
    log      "0@9: 1/7"                        an intact record
             "0@10: corrupt"                   `corrupt 1/8`: its header still says so;
             "0@11: foreign"                   `short`: cut short; `other 3/4`: of another run
    ends     "0: 0-12"                         `0: 0-12 read up to 8 of 12`: incomplete, why
    reads    "0@9: 1/7 by 2"                  given to consumer 2; `at 4.5`: in seconds
             "0@9: foreign by 2"              not a record of this run
    created  "0: 0"                           partition 0 was created, in seconds
             "0: 4 to 1,2"                    ZooKeeper: its replicas changed, not its epoch
    windows  "3: 10-20"                        fault window 3, seconds; `10-` never ended
    expected "lost 1/7 on 0 at 9 in 3: offset 9 holds producer 1 sequence 9"

Sends without times have a distance of 1 s and take 0.1 s.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic.dataclasses import dataclass as parsed

from ackproof_spark import record, tables
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import Outcome, RecordState

#: Outcomes of a send.
OUTCOMES = (Outcome.ACKED, Outcome.FAILED, Outcome.UNKNOWN, Outcome.ABORTED)

RUN_ID = "run-of-tests"
SIZE = 40
_START = datetime(2026, 1, 1, tzinfo=UTC)
#: Histories of one run share its fault windows, so each has its own day and window numbers.
_APART = timedelta(days=1)
_NUMBERS = 1000


@parsed(frozen=True, slots=True, kw_only=True)
class Send:
    producer: int
    sequence: int
    partition: int
    outcome: Outcome
    error: str | None = None
    offset: int | None = None
    sent: float | None = None
    resolved: float | None = None


@parsed(frozen=True, slots=True, kw_only=True)
class Record:
    """`producer` and `sequence`: from the record, or from the header of a corrupt record."""

    partition: int
    offset: int
    state: RecordState
    producer: int | None = None
    sequence: int | None = None
    short: bool = False


@parsed(frozen=True, slots=True, kw_only=True)
class Read:
    """A record that a consumer was given; `producer` and `sequence` are null if not of this run."""

    partition: int
    offset: int
    producer: int | None = None
    sequence: int | None = None
    consumer: int
    at: float = 0


@parsed(frozen=True, slots=True, kw_only=True)
class Creation:
    partition: int
    at: float
    replicas: str = "1"


@parsed(frozen=True, slots=True, kw_only=True)
class End:
    partition: int
    begin: int
    end: int
    reason: str | None = None


@parsed(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    number: int
    injected: float
    healed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    sends: Sequence[Send]
    log: Sequence[Record]
    ends: Sequence[End]
    windows: Sequence[FaultWindow] = ()
    reads: Sequence[Read] = ()
    created: Sequence[Creation] = ()


_TIME = r"\d+(?:\.\d+)?"
_NAME = r"(?P<producer>\d+)/(?P<sequence>\d+)"
_PLACE = r"(?P<partition>\d+)@(?P<offset>\d+):"
_SEND = re.compile(
    rf"{_NAME} to (?P<partition>\d+): (?P<outcome>\w+)(?: at (?P<offset>\d+))?(?: (?P<error>\w+))?"
    rf"(?: \[(?P<sent>{_TIME})-(?P<resolved>{_TIME})?\])?"
)
_RECORD = re.compile(rf"{_PLACE}(?: (?P<what>corrupt|foreign|short|other))?(?: {_NAME})?")
_READ = re.compile(rf"{_PLACE} (?:foreign|{_NAME}) by (?P<consumer>\d+)(?: at (?P<at>{_TIME}))?")
_CREATION = re.compile(rf"(?P<partition>\d+): (?P<at>{_TIME})(?: to (?P<replicas>[\d,]+))?")
_END = re.compile(r"(?P<partition>\d+): (?P<begin>\d+)-(?P<end>\d+)(?: (?P<reason>.+))?")
_WINDOW = re.compile(rf"(?P<number>\d+): (?P<injected>{_TIME})-(?P<healed>{_TIME})?")


def _words(pattern: re.Pattern[str], line: str) -> dict[str, Any]:
    found = pattern.fullmatch(line)
    if found is None:
        raise ValueError(f"not in the notation: {line!r}")
    return {name: word for name, word in found.groupdict().items() if word is not None}


def _send(line: str, index: int) -> Send:
    words = _words(_SEND, line)
    return Send(**words if "sent" in words else {**words, "sent": index, "resolved": index + 0.1})


def _record(line: str) -> Record:
    words = _words(_RECORD, line)
    what = words.pop("what", "intact")
    states = {"short": RecordState.CORRUPT, "other": RecordState.FOREIGN}
    return Record(**words, state=states.get(what, what), short=what == "short")


def parse(case: Mapping[str, Any]) -> History:
    """Return a history from its notation."""
    return History(
        sends=[_send(line, index) for index, line in enumerate(case.get("sends", []))],
        log=[_record(line) for line in case.get("log", [])],
        ends=[End(**_words(_END, line)) for line in case.get("ends", [])],
        windows=[FaultWindow(**_words(_WINDOW, line)) for line in case.get("windows", [])],
        reads=[Read(**_words(_READ, line)) for line in case.get("reads", [])],
        created=[Creation(**_words(_CREATION, line)) for line in case.get("created", [])],
    )


def value_of(item: Record) -> bytes | None:
    """Return the bytes of a record, damaged if its state says so."""
    if item.state is RecordState.FOREIGN and item.producer is None:
        return b"hello, this is somebody else's record"
    whose = RUN_ID if item.producer is not None and item.state is not RecordState.FOREIGN else "?"
    encode = record.encoder(run_id=whose, producer=item.producer or 0, size=SIZE)
    value = encode(item.sequence or 0)
    if item.state is RecordState.CORRUPT:
        value = value[:10] if item.short else value[:-1] + b"\xff"
    return value


def _at(topic: int, seconds: float | None) -> datetime | None:
    return None if seconds is None else _START + topic * _APART + timedelta(seconds=seconds)


def defaults(table: str) -> dict[str, Any]:
    """Return a row of a table with a legal value in every column."""
    return {
        field.name: None if field.nullable else _some(field.type) for field in tables.SCHEMAS[table]
    }


def _some(kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind):
        return _START
    if pa.types.is_list(kind):
        return []
    if pa.types.is_string(kind):
        return ""
    return False if pa.types.is_boolean(kind) else 0


def file_of(run_dir: Path, table: str, name: str = "part-0") -> Path:
    """Return the only file of a table, or the part `name` of it."""
    path = run_dir / tables.LOCATION[table]
    return path if path.suffix else path / f"{name}.parquet"


def write_table(
    run_dir: Path,
    table: str,
    rows: Iterable[Mapping[str, Any]] | Mapping[str, Any],
    *,
    name: str = "part-0",
    run_id: str = RUN_ID,
    **how: Any,
) -> None:
    """Write rows, or columns, as one file of a table; `how` as for `pq.write_table`.

    Columns that are omitted get a legal value, others that the table does not have are left out.
    """
    common = {**defaults(table), "schema_version": tables.SCHEMA_VERSION, "run_id": run_id}
    if isinstance(rows, Mapping):
        count = len(next(iter(rows.values())))
        columns = {key: [value] * count for key, value in common.items()} | dict(rows)
        written = pa.Table.from_pydict(columns, schema=tables.SCHEMAS[table])
    else:
        records = [{**common, **row} for row in rows]
        written = pa.Table.from_pylist(records, schema=tables.SCHEMAS[table])
    path = file_of(run_dir, table, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(written, path, **how)


def write_run(run_dir: Path, histories: Mapping[str, History], *, log: bool = True) -> None:
    """Write the run directory of a run with one topic a history; see `show` for the way back.

    `log=False` leaves out the final log and the ends, for tests that write them by other means.
    """
    rows = defaultdict[str, list[dict[str, Any]]](list)
    for index, (topic, history) in enumerate(histories.items()):
        for table, of_history in _rows(index, history).items():
            rows[table] += [{"topic": topic, **row} for row in of_history]
    for table in ("ledger", "fault_windows", *(("final_log", "partition_ends") if log else ())):
        write_table(run_dir, table, rows[table])
    for table in ("reads", "partition_states"):
        if rows[table]:
            write_table(run_dir, table, rows[table])


def _rows(index: int, history: History) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, without their topic."""
    at = partial(_at, index)
    return {
        "ledger": [
            {**asdict(send), "sent_at": at(send.sent), "resolved_at": at(send.resolved)}
            for send in history.sends
        ],
        "final_log": [_log_row(index, item) for item in history.log],
        "partition_ends": [
            {
                **asdict(end),
                "begin_offset": end.begin,
                "end_offset": end.end,
                "complete": end.reason is None,
            }
            for end in history.ends
        ],
        "fault_windows": [
            {
                "window": index * _NUMBERS + window.number,
                "fault": "kill",
                "target": "leader",
                "nodes": [1],
                "parameters": "{}",
                "injected_at": at(window.injected),
                "healed_at": at(window.healed),
                "recovered_at": at(window.healed),
                "verified": True,
            }
            for window in history.windows
        ],
        "reads": [
            {
                **asdict(read),
                "group": "billing",
                "isolation_level": "read_uncommitted",
                "poll": number,
                "read_at": at(read.at),
            }
            for number, read in enumerate(history.reads)
        ],
        "partition_states": [
            {
                "at": at(one.at),
                "metadata_offset": number,
                "partition": one.partition,
                "leader": 1,
                "replicas": [int(replica) for replica in one.replicas.split(",")],
                "isr": [1],
            }
            for number, one in enumerate(history.created)
        ],
    }


def _log_row(topic: int, item: Record) -> dict[str, Any]:
    value = value_of(item) or b""
    known: dict[str, Any] = {"producer": item.producer, "sequence": item.sequence}
    if item.state is not RecordState.INTACT:
        known = {"head": value[:64].hex().upper()}
    return {
        "partition": item.partition,
        "offset": item.offset,
        "written_at": _at(topic, item.offset),
        "state": item.state.value,
        "size": len(value),
        **known,
    }


def show(row: Mapping[str, Any], *, found: bool = True) -> str:
    """Return a row of the anomalies table in the notation of `expected`."""
    name = "" if row["producer"] is None else f" {row['producer']}/{row['sequence']}"
    at = "" if row["offset"] is None else f" at {row['offset']}"
    window = "" if (number := _own_window(row)) is None else f" in {number}"
    why = f": {row['found']}" if found else ""
    return f"{Anomaly(row['anomaly'])}{name} on {row['partition']}{at}{window}{why}"


def _own_window(row: Mapping[str, Any]) -> int | None:
    """Return the window's number in its history; None for an unended window of another one."""
    if row["window"] is None:
        return None
    history, number = divmod(row["window"], _NUMBERS)
    return number if history == (row["resolved_at"] - _START) // _APART else None


def anomalies_of(run_dir: Path) -> list[dict[str, Any]]:
    """Return the stored anomalies, read without Spark."""
    rows = pq.read_table(run_dir / tables.LOCATION["anomalies"]).to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], show(row)))
