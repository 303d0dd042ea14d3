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


def _row(
    name: str,
    new: Callable[[random.Random, Row], Row | None] = lambda draw, row: {},
    *,
    where: Callable[[Row], bool] = lambda row: True,
    **values: Any,
) -> Change:
    """Return a change of one row, drawn from those `where` is true, by `values` and `new`."""

    def change(draw: random.Random, rows: list[Row]) -> list[Row] | None:
        suitable = [index for index, row in enumerate(rows) if where(row)]
        if not suitable:
            return None
        index = draw.choice(suitable)
        changed = new(draw, rows[index])
        if changed is None:
            return None
        return [*rows[:index], {**rows[index], **values, **changed}, *rows[index + 1 :]]

    change.__name__ = name
    return change


def _by(name: str, *amounts: int) -> Callable[[random.Random, Row], Row]:
    """Return a change of a number by an amount from the first to the second."""
    return lambda draw, row: {name: row[name] + draw.randint(*amounts)}


def _acked(row: Row) -> bool:
    return bool(row["outcome"] == Outcome.ACKED)


_GONE = {"producer": None, "sequence": None, "head": "00"}
_corrupt = _row("_corrupt", state=str(RecordState.CORRUPT), **_GONE)
_rename = _row("_rename", sequence=10**9)
_misspell = _row("_misspell", outcome="Acked")
_incomplete = _row("_incomplete", complete=False, reason="cut")
_unverified = _row("_unverified", verified=False)
_verified_at_no_time = _row("_verified_at_no_time", verified_at=None)
_never_healed = _row("_never_healed", healed_at=None, recovered_at=None)
_at_nobody = _row("_at_nobody", nodes=[])
_without_proof = _row("_without_proof", evidence="")
_read_a_ghost = _row("_read_a_ghost", producer=0, sequence=10**9)
_call_damaged = _row("_call_damaged", crc_ok=False)
#: An acked send becomes failed: its record is then a phantom.
_withdraw = _row("_withdraw", where=_acked, outcome=str(Outcome.FAILED))
_call_unknown = _row("_call_unknown", where=_acked, outcome=str(Outcome.UNKNOWN))
_shift_offset = _row(
    "_shift_offset", _by("offset", 1, 5), where=lambda row: row["offset"] is not None
)
_end_early = _row(
    "_end_early", lambda draw, row: {"end_offset": row["end_offset"] - draw.randint(1, 50)}
)
_end_late = _row(
    "_end_late",
    lambda draw, row: {"end_offset": row["end_offset"] + draw.choice([1, 50, 2**40])},
)
_begin_late = _row("_begin_late", lambda draw, row: {"begin_offset": draw.randint(1, 50)})
#: An aborted send is in no partition.
_move = _row(
    "_move",
    lambda draw, row: {"partition": row["partition"] + 1},
    where=lambda row: row.get("outcome") != Outcome.ABORTED,
)
_another_fault = _row(
    "_another_fault", lambda draw, row: None if row["fault"] == "kill" else {"fault": "kill"}
)
_healed_before = _row(
    "_healed_before", lambda draw, row: {"healed_at": row["injected_at"] - timedelta(seconds=1)}
)
_trade_checksum = _row("_trade_checksum", lambda draw, row: {"crc": row["crc"] ^ 1})
_another_epoch = _row("_another_epoch", lambda draw, row: {"leader_epoch": row["leader_epoch"] + 1})
_turn_outcome = _row(
    "_turn_outcome",
    lambda draw, row: {"outcome": "aborted" if row["outcome"] == "committed" else "committed"},
)
_widen = _row("_widen", _by("end_sequence", 1, 5))
#: An attempt of the probe to write was answered, or was not.
_turn_answer = _row(
    "_turn_answer",
    lambda draw, row: {"ok": not row["ok"]},
    where=lambda row: row["action"] == "write",
)
#: The probe reads a record that was never sent.
_probe_a_ghost = _row(
    "_probe_a_ghost",
    where=lambda row: row["action"] == "read" and row["ok"],
    producer=0,
    sequence=10**9,
    offset=0,
)


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
    where = (row["topic"], row["partition"])
    last = max(one["offset"] for one in rows if (one["topic"], one["partition"]) == where)
    return [*rows, {**row, "offset": last + 1}]


def _swap_names(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    first, second = draw.sample(range(len(rows)), 2)
    changed = [dict(row) for row in rows]
    for key in ("producer", "sequence"):
        changed[first][key], changed[second][key] = rows[second][key], rows[first][key]
    return changed if changed != rows else None


def _ack_falsely(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    row = draw.choice(rows)
    return [*rows, {**row, "sequence": 10**9, "outcome": str(Outcome.ACKED), "offset": None}]


def _no_isr(_: random.Random, rows: list[Row]) -> list[Row] | None:
    """Empty every ISR, so that no replica is compared."""
    return [{**row, "isr": []} for row in rows]


def _out_of_the_run(draw: random.Random, row: Row) -> Row:
    """Move a window out of the run."""
    by = timedelta(days=draw.choice([-1000, -1, 1, 1000]))
    times = ("injected_at", "verified_at", "healed_at", "recovered_at")
    return {name: row[name] + by for name in times if row[name] is not None}


_at_another_time = _row("_at_another_time", _out_of_the_run)


def _once_more(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    """Append a copy of a window, with a new number."""
    return [*rows, {**draw.choice(rows), "window": len(rows)}]


def _double(draw: random.Random, rows: list[Row]) -> list[Row] | None:
    return [dict(row) for row in rows for _ in range(2)]


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
