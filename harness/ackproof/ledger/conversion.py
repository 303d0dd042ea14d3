"""Converts the streams of a run's clients to the run's tables.

The probe's writes come from its ledgers. Each acked log is a producer. Its sends are numbered in
the order of the file. Files are read and written in parts of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof import safe_files
from ackproof.ledger import acked_log, arrow_stream, delivery_log, producer_ledger, transaction_log
from ackproof.ledger.acked_log import AckedSend
from ackproof.ledger.log_lines import LogProblems, LogReport
from ackproof_spark.tables import (
    ACKNOWLEDGEMENTS,
    ACQUISITIONS,
    CONSUMER_EVENTS,
    EFFECTS,
    IDENTITIES,
    LEDGER,
    LOCATION,
    PROBE,
    PROBE_PRODUCERS,
    READ_IDENTITIES,
    READS,
    SCHEMA_VERSION,
    Outcome,
)


def reads_path(run_dir: Path, producer: int) -> Path:
    """Return the stream of the probe's reads from the partition of its producer `producer`."""
    return arrow_stream.stream_path(run_dir, "probe", f"reads-{producer}")


def _close_probe(run_dir: Path) -> None:
    folder = run_dir / LOCATION["probe"]
    if not folder.exists():
        return
    arrow_stream.close(run_dir, "probe", PROBE)
    for ledger in sorted((run_dir / LOCATION["ledger"]).glob("producer-*.parquet")):
        number = int(ledger.stem.removeprefix("producer-"))
        target = folder / f"writes-{number}.parquet"
        if number >= PROBE_PRODUCERS and not target.exists():
            arrow_stream.convert(
                producer_ledger.table_path(run_dir, number), target, partial(_write, ledger)
            )


def _write(ledger: Path, target: Path) -> None:
    pq.write_table(writes(ledger), target, compression="zstd")


def writes(ledger: Path) -> pa.Table:
    """Return the attempts to write in a ledger of the probe, as `tables.PROBE`."""
    sends = pq.read_table(ledger)
    sends = sends.filter(pc.is_valid(sends["sent_at"]))  # the others may never have been sent
    columns = {
        "action": pa.repeat("write", sends.num_rows),
        "at": sends["sent_at"],
        "answered_at": sends["resolved_at"],
        "ok": pc.equal(sends["outcome"], str(Outcome.ACKED)),
    }
    columns |= {name: sends[name] for name in PROBE.names if name not in columns}
    rows = pa.table([columns[field.name].cast(field.type) for field in PROBE], schema=PROBE)
    return rows.sort_by("at")


#: Sends that are converted together.
_PART = 100_000


@dataclass(frozen=True, kw_only=True)
class AckedLogs(LogReport):
    """What is said of converted acked logs: `unread` if an acked send may be missing.

    `lowest` is the lowest acked offset of each partition with acked sends, None if one of them has
    no offset.
    """

    lowest: dict[tuple[str, int], int | None]


def convert(paths: Sequence[Path], run_dir: Path, *, lenient: bool) -> AckedLogs:
    """Convert acked logs; a missing file has no sends.

    Raises AckedLogError if a line is wrong, unless `lenient`; DiskError if the tables cannot be
    written.
    """
    report = LogReport()
    lowest: dict[tuple[str, int], int | None] = {}
    for producer, path in enumerate(paths):
        problems = LogProblems()
        sends = acked_log.read(path, problems, lenient=lenient) if path.exists() else iter(())
        _convert(_with_lowest(sends, lowest), producer=producer, run_dir=run_dir)
        report += problems.report(path.name, "sends")
    return AckedLogs(unread=report.unread, remarks=report.remarks, lowest=lowest)


def _close_acked_log(run_dir: Path) -> None:
    """Convert the acked log of an interrupted run; raises `DiskError`."""
    path = acked_log.path(run_dir)
    if path.exists() and not producer_ledger.table_path(run_dir, 0).exists():
        convert([path], run_dir, lenient=True)


def _with_lowest(
    sends: Iterator[AckedSend], lowest: dict[tuple[str, int], int | None]
) -> Iterator[AckedSend]:
    for send in sends:
        if send.outcome is Outcome.ACKED and send.partition is not None:
            partition = (send.topic, send.partition)
            offset = _offset(send)
            before = lowest.get(partition, offset)
            lowest[partition] = None if offset is None or before is None else min(before, offset)
        yield send


def _convert(sends: Iterator[AckedSend], *, producer: int, run_dir: Path) -> None:
    ledger = producer_ledger.table_path(run_dir, producer)
    identities = run_dir / LOCATION["identities"] / ledger.name

    def write(partial: Path) -> None:
        identities.parent.mkdir(parents=True, exist_ok=True)
        safe_files.create(identities)
        with (
            producer_ledger.parquet_writer(partial) as rows,
            pq.ParquetWriter(identities, IDENTITIES, compression="zstd") as names,
        ):
            first = 0
            while part := list(islice(sends, _PART)):
                common = {
                    "schema_version": SCHEMA_VERSION,
                    "run_id": run_dir.name,
                    "producer": producer,
                }
                rows.write_table(_ledger(part, first, common))
                names.write_table(_identities(part, first, common))
                first += len(part)

    ledger.parent.mkdir(parents=True, exist_ok=True)
    arrow_stream.convert(identities, ledger, write)


def _ledger(sends: Sequence[AckedSend], first: int, common: dict[str, object]) -> pa.Table:
    columns = {
        "sequence": pa.array(range(first, first + len(sends)), pa.int64()),
        "topic": pa.array([send.topic for send in sends]),
        # Only an acked send must have a partition.
        "partition": pa.array([-1 if s.partition is None else s.partition for s in sends]),
        "outcome": pa.array([str(send.outcome) for send in sends]),
        "error": pa.array([send.error for send in sends], pa.string()),
        "offset": pa.array([_offset(send) for send in sends], pa.int64()),
        "sent_at": pa.array([send.sent_at for send in sends], pa.timestamp("us", tz="UTC")),
        "resolved_at": pa.array([s.resolved_at for s in sends], pa.timestamp("us", tz="UTC")),
    }
    table = arrow_stream.assemble(LEDGER, len(sends), common, columns)
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def _identities(sends: Sequence[AckedSend], first: int, common: dict[str, object]) -> pa.Table:
    columns = {
        "sequence": pa.array(range(first, first + len(sends)), pa.int64()),
        "kind": pa.array([send.kind for send in sends]),
        "identity": pa.array([send.identity for send in sends]),
        "text": pa.array([send.text for send in sends]),
    }
    return arrow_stream.assemble(IDENTITIES, len(sends), common, columns)


def _offset(send: AckedSend) -> int | None:
    acked = send.outcome is Outcome.ACKED and send.offset is not None and send.offset >= 0
    return send.offset if acked else None


def _with_answers(rows: pa.Table) -> pa.Table:
    """Return the last row of each acknowledgement: the one with its answer, if there was one.

    A consumer records what it asks for before it asks, so that a SIGKILL hides no request. It may
    renew a record more than once.
    """
    request = [rows[name].to_pylist() for name in ("poll", "number", "asked_at")]
    last = {key: index for index, key in enumerate(zip(*request, strict=True))}
    return rows.take(pa.array(last.values(), pa.int64()))


def close(run_dir: Path) -> None:
    """Convert all streams; a second call changes nothing. Raises `DiskError`."""
    transaction_log.close(run_dir)
    producer_ledger.close(run_dir)
    arrow_stream.close(run_dir, "reads", READS)
    arrow_stream.close(run_dir, "read_identities", READ_IDENTITIES)
    arrow_stream.close(run_dir, "consumer_events", CONSUMER_EVENTS)
    arrow_stream.close(run_dir, "effects", EFFECTS)
    arrow_stream.close(run_dir, "acquisitions", ACQUISITIONS)
    arrow_stream.close(run_dir, "acknowledgements", ACKNOWLEDGEMENTS, reduced=_with_answers)
    _close_probe(run_dir)
    _close_acked_log(run_dir)
    delivery_log.close(run_dir)
