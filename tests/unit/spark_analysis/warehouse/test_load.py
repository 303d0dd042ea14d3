"""A run counts once: loaded twice, judged again, or half loaded by a process that died."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof_spark.errors import AnalysisError
from ackproof_spark.warehouse import load as loading
from ackproof_spark.warehouse import retention
from ackproof_spark.warehouse.formats import source
from ackproof_spark.warehouse.load import Loaded, load
from ackproof_spark.warehouse.schemas import BIG, TABLES
from unit.spark_analysis.warehouse.conftest import (
    change_verdict,
    judged,
    make_run,
    verdict_of,
)

pytestmark = pytest.mark.spark


def counts(warehouse, *, stored: bool = False) -> dict[str, int]:
    """Return how many rows each view has; or each table, whether they count or not."""
    counted = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS n FROM "
        f"{source(warehouse.storage, warehouse.format, name) if stored else name}"
        for name in TABLES
    )
    return {row["name"]: row["n"] for row in warehouse.query(counted)}


def test_every_table_holds_what_the_runs_left(loaded, run_dirs):
    verdicts = [verdict_of(directory) for directory in run_dirs.values()]
    found = counts(loaded)
    assert found == {
        "runs": 3,
        "trials": 3,
        "predictions": sum(len(verdict.predicted) for verdict in verdicts),
        "findings": 0,
        "fault_windows": 6,
        "partition_states": 30,
        # four edges of each fault, every partition state, three broker states
        "events": 3 * (2 * 4 + 10 + 3),
        "metrics": found["metrics"],
        "anomalies": sum(verdict.observed["lost"] for verdict in verdicts),
        "sends": 720,
        "reads": verdicts[0].observed["acked"] - verdicts[0].observed["lost"],
    }
    row = loaded.query("SELECT * FROM runs WHERE run_id = 'one'")[0]
    assert row["lost"] == verdicts[0].observed["lost"] > 0
    assert row["commit"] == "commit-one"
    assert row["availability"] == pytest.approx(1 - 9.25 / 24)
    trials = loaded.query("SELECT run_id, comparison, trial FROM trials ORDER BY run_id")
    assert [(row["run_id"], row["trial"]) for row in trials] == [("all", 1), ("one", 1), ("two", 1)]


def test_seconds_add_up_to_the_run(loaded):
    summed = loaded.query(
        "SELECT r.run_id, r.sent, r.acked, sum(m.sent) AS sent_s, sum(m.acked) AS acked_s, "
        "min(m.availability) AS worst FROM runs AS r JOIN metrics AS m ON r.run_id = m.run_id "
        "GROUP BY r.run_id, r.sent, r.acked"
    )
    assert len(summed) == 3
    for row in summed:
        assert (row["sent_s"], row["acked_s"]) == (row["sent"], row["acked"])
        # One of three partitions acks nothing while its leader is away.
        assert row["worst"] == pytest.approx(2 / 3)


def test_loading_again_changes_nothing_until_the_run_changes(warehouse, tmp_path):
    directory = make_run(tmp_path / "run")
    assert load(warehouse, judged(directory)) is Loaded.NEW
    once, stored = counts(warehouse), counts(warehouse, stored=True)
    assert load(warehouse, judged(directory)) is Loaded.PRESENT
    assert counts(warehouse, stored=True) == stored == once

    change_verdict(directory, duplicated=7)
    assert load(warehouse, judged(directory)) is Loaded.AGAIN
    assert counts(warehouse) == once
    assert counts(warehouse, stored=True) == stored, "the earlier load is gone"
    assert warehouse.query("SELECT duplicated FROM runs") == [{"duplicated": 7}]

    # What was loaded with it once is loaded again with it.
    assert load(warehouse, judged(directory), sends=True) is Loaded.AGAIN
    assert load(warehouse, judged(directory)) is Loaded.PRESENT
    change_verdict(directory, duplicated=8)
    load(warehouse, judged(directory))
    assert counts(warehouse) == once | {"sends": 720}


def test_half_a_load_is_never_seen_and_the_next_one_is_whole(warehouse, tmp_path, monkeypatch):
    directory = make_run(tmp_path / "run")
    append = loading.append

    def dies(storage, kind, table, rows, *, batch):
        if table == "runs":
            raise AnalysisError("the disk is gone")
        append(storage, kind, table, rows, batch=batch)

    monkeypatch.setattr(loading, "append", dies)
    with pytest.raises(AnalysisError, match="the disk is gone"):
        load(warehouse, judged(directory), sends=True)
    assert set(counts(warehouse).values()) == {0}
    half = counts(warehouse, stored=True)
    assert half["events"] > 0

    monkeypatch.setattr(loading, "append", append)
    load(warehouse, judged(directory), sends=True)
    whole = counts(warehouse)
    assert whole["runs"] == 1
    assert whole == half | {"runs": 1}

    # What died may still be under way for all we know, until a day has passed.
    retention.compact(warehouse)
    assert counts(warehouse, stored=True)["sends"] == 2 * 720
    tidied = retention.compact(warehouse, now=datetime.now(tz=UTC) + timedelta(hours=25))
    assert tidied == retention.Tidied(runs=1, expired=0, dead_loads=1)
    assert counts(warehouse, stored=True) == counts(warehouse) == whole


def test_compacting_and_expiring_leave_what_counts(loaded, copied, run_dirs):
    warehouse = copied(loaded)
    before = counts(warehouse)
    lost = warehouse.query("SELECT run_id, count(*) AS n FROM anomalies GROUP BY run_id")
    assert retention.compact(warehouse).runs == 3
    assert counts(warehouse) == before
    again = warehouse.query("SELECT run_id, count(*) AS n FROM anomalies GROUP BY run_id")
    assert sorted(map(str, again)) == sorted(map(str, lost))

    # Changed after it was compacted, a run still counts once.
    load(warehouse, judged(run_dirs["two"], commit="later"))
    assert counts(warehouse)["runs"] == 3
    assert {"commit": "later"} in warehouse.query("SELECT `commit` FROM runs")

    # Run one began on 1 November, run two on the 2nd.
    tidied = retention.expire(
        warehouse,
        older_than=timedelta(days=5),
        now=datetime(2026, 11, 7, 10, tzinfo=UTC),
    )
    assert (tidied.runs, tidied.expired) == (2, 1)
    assert warehouse.query("SELECT run_id FROM runs ORDER BY run_id") == [
        {"run_id": "all"},
        {"run_id": "two"},
    ]
    left = counts(warehouse)
    assert left["sends"] == left["reads"] == 0
    stored = counts(warehouse, stored=True)
    assert {name: stored[name] for name in BIG} == {"sends": 0, "reads": 0}
    assert stored == left
