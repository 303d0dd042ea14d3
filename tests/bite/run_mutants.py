"""Falsification of a recorded run: the verdict must not be `holds`.

`falsify` changes rows of one table and writes a new manifest. `reorder` changes only the order of
rows, and how files are written.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.runs import directory as runs
from ackproof.runs import manifest
from ackproof_spark.tables import LOCATION, Outcome, RecordState
from bite.mutant import Mutant, copy, write
from bite.run_documents import DOCUMENTS
from bite.shared_files import parts, remembered

Row = dict[str, Any]


#: A change returns changed rows of a table, None if it does not apply.
Change = Callable[[random.Random, list[Row]], list[Row] | None]


def _set(name: str, **values: Any) -> Change:
    """Return a change that sets these values in a row."""

    def change(draw: random.Random, rows: list[Row]) -> list[Row] | None:
        return _with(rows, draw.randrange(len(rows)), **values)

    change.__name__ = name
    return change


_GONE = {"producer": None, "sequence": None, "head": "00"}
_corrupt = _set("_corrupt", state=str(RecordState.CORRUPT), **_GONE)
_rename = _set("_rename", sequence=10**9)
_misspell = _set("_misspell", outcome="Acked")
_incomplete = _set("_incomplete", complete=False, reason="cut")
_unverified = _set("_unverified", verified=False)
_verified_at_no_time = _set("_verified_at_no_time", verified_at=None)
_never_healed = _set("_never_healed", healed_at=None, recovered_at=None)
_at_nobody = _set("_at_nobody", nodes=[])
_without_proof = _set("_without_proof", evidence="")
_read_a_ghost = _set("_read_a_ghost", producer=0, sequence=10**9)
_call_damaged = _set("_call_damaged", crc_ok=False)


def _drop(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    first = draw.randrange(len(rows))
    length = draw.choice([1, 1, 3, 100])
    return rows[:first] + rows[first + length :]


def _drop_inner(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Drop a row that has others before and after it."""
    if len(rows) < 3:
        return None
    index = draw.randrange(1, len(rows) - 1)
    return rows[:index] + rows[index + 1 :]


def _repeat(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    return [*rows, dict(draw.choice(rows))]


def _repeat_behind(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Append a copy of a record at a later offset."""
    row = draw.choice(rows)
    last = max(one["offset"] for one in rows if _place(one) == _place(row))
    return [*rows, {**row, "offset": last + 1}]


def _swap_names(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    first, second = draw.sample(range(len(rows)), 2)
    changed = [dict(row) for row in rows]
    for key in ("producer", "sequence"):
        changed[first][key], changed[second][key] = rows[second][key], rows[first][key]
    return changed if changed != rows else None


def _move(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Move a row to the next partition, but not an aborted send, which is in none."""
    aborted = str(Outcome.ABORTED)
    index = draw.choice([at for at, row in enumerate(rows) if row.get("outcome") != aborted])
    return _with(rows, index, partition=rows[index]["partition"] + 1)


def _ack_falsely(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    row = draw.choice(rows)
    return [*rows, {**row, "sequence": 10**9, "outcome": str(Outcome.ACKED), "offset": None}]


def _withdraw(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Change an acked send to failed: its record is then a phantom."""
    acked = [n for n, row in enumerate(rows) if row["outcome"] == Outcome.ACKED]
    return _with(rows, draw.choice(acked), outcome=str(Outcome.FAILED)) if acked else None


def _call_unknown(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    acked = [n for n, row in enumerate(rows) if row["outcome"] == Outcome.ACKED]
    return _with(rows, draw.choice(acked), outcome=str(Outcome.UNKNOWN)) if acked else None


def _shift_offset(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    placed = [n for n, row in enumerate(rows) if row["offset"] is not None]
    index = draw.choice(placed)
    return _with(rows, index, offset=rows[index]["offset"] + draw.randint(1, 5))


def _end_early(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return _with(rows, index, end_offset=rows[index]["end_offset"] - draw.randint(1, 50))


def _end_late(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return _with(rows, index, end_offset=rows[index]["end_offset"] + draw.choice([1, 50, 2**40]))


def _begin_late(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return _with(rows, index, begin_offset=draw.randint(1, 50))


def _no_isr(_: random.Random, rows: list[Row]) -> list[Row] | None:
    """Empty every ISR, so that no replica is compared."""
    return [{**row, "isr": []} for row in rows]


def _another_fault(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return None if rows[index]["fault"] == "kill" else _with(rows, index, fault="kill")


def _healed_before(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    early = rows[index]["injected_at"] - timedelta(seconds=1)
    return _with(rows, index, healed_at=early)


def _at_another_time(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Move a window out of the run."""
    index = draw.randrange(len(rows))
    by = timedelta(days=draw.choice([-1000, -1, 1, 1000]))
    times = ("injected_at", "verified_at", "healed_at", "recovered_at")
    moved = {name: rows[index][name] + by for name in times if rows[index][name] is not None}
    return _with(rows, index, **moved)


def _once_more(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Append a copy of a window, with a new number."""
    return [*rows, {**draw.choice(rows), "window": len(rows)}]


def _double(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    return [dict(row) for row in rows for _ in range(2)]


def _trade_checksum(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return _with(rows, index, crc=rows[index]["crc"] ^ 1)


def _another_epoch(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return _with(rows, index, leader_epoch=rows[index]["leader_epoch"] + 1)


def _turn_outcome(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Change a committed transaction to aborted, or an aborted one to committed."""
    index = draw.randrange(len(rows))
    other = "aborted" if rows[index]["outcome"] == "committed" else "committed"
    return _with(rows, index, outcome=other)


def _widen(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    index = draw.randrange(len(rows))
    return _with(rows, index, end_sequence=rows[index]["end_sequence"] + draw.randint(1, 5))


def _turn_answer(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Invert whether an attempt of the probe to write was answered."""
    writes = [n for n, row in enumerate(rows) if row["action"] == "write"]
    if not writes:
        return None
    index = draw.choice(writes)
    return _with(rows, index, ok=not rows[index]["ok"])


def _probe_a_ghost(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Let the probe read a record that was never sent."""
    reads = [n for n, row in enumerate(rows) if row["action"] == "read" and row["ok"]]
    return _with(rows, draw.choice(reads), producer=0, sequence=10**9, offset=0) if reads else None


def _nothing(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    return []


#: The changes that a judge must notice, by table.
FALSIFICATIONS: Mapping[str, Sequence[Change]] = {
    "ledger": (
        *(_drop, _repeat, _ack_falsely, _withdraw, _call_unknown, _misspell, _shift_offset),
        *(_move, _rename, _nothing),
    ),
    "final_log": (_drop, _repeat, _repeat_behind, _swap_names, _move, _corrupt, _rename, _nothing),
    "partition_ends": (
        *(_drop, _repeat, _double, _end_early, _end_late, _begin_late, _incomplete, _move),
        _nothing,
    ),
    "fault_windows": (
        *(_drop, _repeat, _double, _unverified, _verified_at_no_time, _another_fault),
        *(_healed_before, _never_healed, _at_another_time, _at_nobody, _without_proof),
        *(_once_more, _nothing),
    ),
    "reads": (_drop, _repeat, _move, _shift_offset, _read_a_ghost, _nothing),
    "effects": (_drop, _repeat, _move, _shift_offset, _rename, _nothing),
    "consumer_events": (_nothing,),
    "transactions": (_drop, _repeat, _turn_outcome, _widen, _nothing),
    "probe": (_drop, _repeat, _turn_answer, _probe_a_ghost, _nothing),
    "replica_batches": (_drop_inner, _trade_checksum, _call_damaged, _another_epoch, _nothing),
    "replica_logs": (_drop_inner, _incomplete, _nothing),
    "partition_states": (_no_isr, _nothing),
}


def falsify(run_dir: Path, to: Path, seed: int) -> Mutant:
    """Change rows of one table, or another file, and write a manifest that confirms it."""
    draw = random.Random(seed)
    copy(run_dir, to)
    if (run_dir / "clients").exists() and draw.random() < 0.1:
        document = draw.choice(DOCUMENTS)
        document(draw, to)
        _seal(to, run_dir)
        return Mutant(run_dir=to, what=f"{document.__name__} (seed {seed})")
    tables = [name for name in FALSIFICATIONS if (run_dir / LOCATION[name]).exists()]
    while True:
        table = draw.choice(tables)
        change = draw.choice(FALSIFICATIONS[table])
        files = parts(to / LOCATION[table])
        recorded = {path: run_dir / path.relative_to(to) for path in files}
        filled = [path for path in files if _rows(recorded[path])[1]]
        if not filled:
            continue
        chosen = filled if change is _nothing else [draw.choice(filled)]
        done = [_change(path, recorded[path], change, draw) for path in chosen]
        if any(done):
            break
    _seal(to, run_dir)
    return Mutant(run_dir=to, what=f"{change.__name__} of {table} (seed {seed})")


def _change(path: Path, recorded: Path, change: Change, draw: random.Random) -> bool:
    schema, before = _rows(recorded)
    rows = change(draw, before)
    if rows is None:
        return False
    write(path, pa.Table.from_pylist(rows, schema=schema))
    return True


@functools.lru_cache(maxsize=32)
def _rows(path: Path) -> tuple[pa.Schema, list[Row]]:
    """Return the rows of a recorded file, which changes must not modify."""
    table = pq.read_table(path, partitioning=None)
    return table.schema, table.to_pylist()


def reorder(run_dir: Path, to: Path, seed: int) -> Mutant:
    """Write the same rows in another order, with other row groups and another compression."""
    draw = random.Random(seed)
    copy(run_dir, to)
    for table in ("ledger", "final_log", "partition_ends", "fault_windows"):
        for path in parts(to / LOCATION[table]):
            rows = pq.read_table(path)
            order = pa.array(draw.sample(range(rows.num_rows), rows.num_rows), pa.int64())
            codec = draw.choice(["none", "snappy", "zstd", "gzip"])
            group = draw.choice([7, 100, 10**6])
            write(path, rows.take(order), compression=codec, row_group_size=group)
    _seal(to, run_dir)
    return Mutant(run_dir=to, what=f"reordered (seed {seed})")


def _seal(run_dir: Path, recorded: Path) -> None:
    """Write a manifest that confirms the files of a copy."""
    (run_dir / manifest.NAME).unlink()
    with remembered(recorded):
        manifest.write(run_dir, runs.read_record(run_dir).run_id)


def _with(rows: list[Row], index: int, **changes: Any) -> list[Row]:
    return [*rows[:index], {**rows[index], **changes}, *rows[index + 1 :]]


def _place(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]
