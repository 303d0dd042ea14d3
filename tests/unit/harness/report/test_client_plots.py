"""The plots of consumers and transactions show the planted data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.report.data.run import read_run
from ackproof.report.plots import clients
from ackproof.report.plots.figure import Figure
from ackproof_spark import tables
from unit.harness.report import synthetic

STALLED, RESUMED = 10.0, 20.0


def reads(ledger: pa.Table, group: str, *, stalls: bool) -> list[dict[str, Any]]:
    """Return what a group reads: everything acked at once, or not between STALLED and RESUMED."""
    rows = []
    for row in ledger.to_pylist():
        if row["outcome"] != "acked":
            continue
        at = max(row["resolved_at"], synthetic.START)
        second = (at - synthetic.START).total_seconds()
        if stalls and STALLED < second < RESUMED:
            at = synthetic.at(RESUMED)
        rows.append(
            {
                "consumer": 0,
                "group": group,
                "isolation_level": "read_uncommitted",
                "poll": 0,
                "number": 0,
                "read_at": at,
                **{key: row[key] for key in ("topic", "partition", "offset")},
                "producer": row["producer"],
                "sequence": row["sequence"],
            }
        )
    return rows


def ended(*, outcome: str, second: float | None, number: int) -> dict[str, Any]:
    return {
        "producer": 0,
        "transactional_id": "t",
        "predecessor": None,
        "transaction": number,
        "first_sequence": 0,
        "end_sequence": 1,
        "outcome": outcome,
        "error": None,
        "initialized_at": synthetic.START,
        "ended_at": None if second is None else synthetic.at(second),
    }


def write(directory: Path, name: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    folder = directory / tables.LOCATION[name]
    folder.mkdir()
    common = {"schema_version": 1, "run_id": "made-up"}
    table = pa.Table.from_pylist([{**common, **row} for row in rows], schema=schema)
    pq.write_table(table, folder / "part-0.parquet")


@pytest.fixture(scope="module")
def with_clients(tmp_path_factory, acks_all) -> Path:
    directory = tmp_path_factory.mktemp("clients") / "run"
    shutil.copytree(acks_all.directory, directory)
    ledger = pq.read_table(directory / tables.LOCATION["ledger"])
    rows = reads(ledger, "steady", stalls=False) + reads(ledger, "stalling", stalls=True)
    write(directory, "reads", tables.READS, rows)
    ends = [ended(outcome="committed", second=5.0, number=one) for one in range(7)]
    ends += [ended(outcome="aborted", second=30.0, number=one) for one in range(3)]
    ends += [ended(outcome="unknown", second=None, number=9)]
    write(directory, "transactions", tables.TRANSACTIONS, ends)
    return directory


def by_name(directory: Path) -> dict[str, Figure]:
    return {figure.name: figure for figure in clients.figures(read_run(directory))}


def test_a_group_that_stalls_falls_behind_and_catches_up(with_clients: Path) -> None:
    figure = by_name(with_clients)["unread"]
    assert [key.text for key in figure.keys] == ["stalling", "steady"]
    stalling, steady = (np.array(trace["y"]) for trace in figure.traces)
    seconds = np.array(figure.traces[0]["x"])
    assert not steady.any(), "it had read everything by the end of each bin"
    during = (seconds > STALLED + 1) & (seconds < RESUMED - 1)
    assert (stalling[during] > 0).all()
    assert not stalling[seconds < STALLED - 1].any()
    assert not stalling[seconds > RESUMED + 1].any()
    assert "group stalling: at most" in figure.spoken
    assert figure.spoken.endswith("group steady: at most 0 behind, 0 at the end.")


def test_transactions_count_at_their_end(with_clients: Path) -> None:
    figure = by_name(with_clients)["transactions"]
    committed, aborted = (np.array(trace["y"]) for trace in figure.traces)
    seconds = np.array(figure.traces[0]["x"])
    assert set(committed[seconds <= 4.0]) == {0}
    assert set(committed[seconds >= 5.0]) == {7}
    assert set(aborted[seconds <= 29.0]) == {0}
    assert set(aborted[seconds >= 30.0]) == {3}
    assert figure.spoken == "7 committed, 3 aborted. No end is known of 1 more."


def test_a_run_without_consumers_and_transactions_has_no_such_plots(acks_all) -> None:
    assert by_name(acks_all.directory) == {}


def test_a_damaged_table_is_reported_and_not_drawn(with_clients: Path, tmp_path: Path) -> None:
    shutil.copytree(with_clients, tmp_path / "torn")
    torn = tmp_path / "torn" / tables.LOCATION["reads"] / "part-0.parquet"
    torn.write_bytes(torn.read_bytes()[:-400])
    assert set(by_name(tmp_path / "torn")) == {"transactions"}
    assert any("reads" in sentence for sentence in read_run(tmp_path / "torn").missing)
