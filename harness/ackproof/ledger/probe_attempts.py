"""The table `probe`: the probe's reads as it recorded them, and its writes from the ledger."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.ledger import arrow_stream, producer_ledger
from ackproof_spark.tables import LOCATION, PROBE, PROBE_PRODUCERS, Outcome


def reads_path(run_dir: Path, producer: int) -> Path:
    """Return the stream of the reads of the partition to which a producer of the probe writes."""
    return arrow_stream.stream_path(run_dir, "probe", f"reads-{producer}")


def close(run_dir: Path) -> None:
    """Write the table, once the ledger is closed; a second call changes nothing.

    Raises `DiskError`.
    """
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
    """Return the attempts to write that a ledger of the probe records, in `tables.PROBE`."""
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
