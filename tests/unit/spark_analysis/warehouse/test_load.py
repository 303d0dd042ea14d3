"""Loading a run twice changes nothing; a run that was judged again replaces its earlier rows."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from ackproof.errors import RunDirectoryError
from ackproof.report import warehouse_rows as rows
from ackproof.report.wording import outcome
from ackproof_spark.errors import AnalysisError, WarehouseError
from ackproof_spark.spark.small_data import small_plans
from ackproof_spark.warehouse.formats import Format, Tables
from ackproof_spark.warehouse.load import Loaded, load
from ackproof_spark.warehouse.schemas import TABLES
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.spark_analysis.warehouse.conftest import (
    FORMATS,
    change_verdict,
    judged,
    make_run,
    verdict_of,
)

pytestmark = pytest.mark.spark


def counts(warehouse) -> dict[str, int]:
    """Return the number of rows of each view."""
    counted = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS n FROM {name}" for name in TABLES
    )
    with small_plans(warehouse.spark, rows=0):
        return {row["name"]: row["n"] for row in warehouse.query(counted)}


def stored(warehouse) -> dict[str, list[str]]:
    """Return the stored rows of each table, also those that no view shows."""
    tables = " UNION ALL ".join(
        f"SELECT '{name}' AS name, to_json(struct(*)) AS row FROM "
        f"(SELECT * {'EXCEPT (loaded_at) ' if name == 'runs' else ''}FROM "
        f"{warehouse.tables.sql_name(name)})"
        for name in TABLES
    )
    rows: dict[str, list[str]] = {name: [] for name in TABLES}
    with small_plans(warehouse.spark, rows=0):
        for name, row in warehouse.spark.sql(tables).collect():
            rows[name].append(row)
    return {name: sorted(found) for name, found in rows.items()}


def test_every_table_has_the_rows_of_the_runs(loaded, run_dirs):
    verdicts = [verdict_of(directory) for directory in run_dirs.values()]
    found = counts(loaded)
    assert found == {
        "runs": 3,
        "trials": 3,
        "predictions": sum(len(verdict.predicted) for verdict in verdicts),
        "findings": 0,
        "causes": 2,
        "lost_stories": sum(verdict.observed["lost"] for verdict in verdicts),
        "availability": 2 * 2,
        "settings": sum(len(judged(directory).settings) for directory in run_dirs.values()),
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
    assert row["outcome"] == outcome(verdicts[0]).text
    assert row["report"] == (run_dirs["one"] / "report.html").as_uri()
    assert loaded.query("SELECT report FROM runs WHERE run_id = 'two'") == [{"report": None}]
    trials = loaded.query("SELECT run_id, comparison, trial FROM trials ORDER BY run_id")
    assert [(row["run_id"], row["trial"]) for row in trials] == [("all", 1), ("one", 1), ("two", 1)]


@pytest.mark.parametrize("kind", FORMATS[:2])
def test_a_warehouse_that_spark_4_0_wrote_is_read_and_added_to(spark, tmp_path, run_dirs, kind):
    """The archives were written by Spark 4.0.0 (Delta Lake 4.0.0) from the run `make_run` makes."""
    with tarfile.open(Path(__file__).with_name(f"written-by-spark-4.0.0-{kind}.tar.xz")) as tar:
        tar.extractall(tmp_path, filter="data")
    old = Warehouse.open(spark, str(tmp_path / kind))
    before = counts(old)
    assert (before["runs"], before["sends"]) == (1, 720)
    load(old, [judged(run_dirs["all"])], sends=True)
    after = counts(old)
    assert (after["runs"], after["sends"], after["reads"]) == (2, 1440, before["reads"])
    [first] = old.query("SELECT * FROM runs WHERE run_id = 'written-by-4.0.0'")
    assert first["lost"] == before["anomalies"] > 0
    load(old, [judged(run_dirs["all"])], sends=True)
    assert counts(old) == after


@pytest.mark.slow
def test_causes_are_loaded_with_settings_and_availability(loaded, run_dirs):
    [why] = loaded.query("SELECT * FROM loss_causes")
    lost = [verdict_of(run_dirs[name]).observed["lost"] for name in ("one", "two")]
    assert (why["case"], why["runs"], why["lost"]) == ("B2", 2, sum(lost))
    assert why["share_of_losses"] == 1
    most = max(("one", "two"), key=lambda name: verdict_of(run_dirs[name]).observed["lost"])
    assert why["example_run_id"] == most
    acks = loaded.query(
        "SELECT run_id, value FROM settings WHERE scope = 'producer' AND key = 'acks'"
    )
    assert sorted((row["run_id"], row["value"]) for row in acks) == [
        ("all", "all"),
        ("one", "1"),
        ("two", "1"),
    ]
    topic = loaded.query(
        "SELECT key, value FROM settings WHERE run_id = 'one' AND name = 'orders' ORDER BY key"
    )
    assert {row["key"]: row["value"] for row in topic} == {
        "min.insync.replicas": "2",
        "partitions": "3",
        "replication_factor": "3",
    }
    worst = loaded.query("SELECT * FROM availability WHERE run_id = 'one' AND action = 'write'")
    assert [(row["partition"], row["share"], row["outages"]) for row in worst] == [(0, 0.75, 1)]
    stories = loaded.query("SELECT DISTINCT leader, next_leader, `case` FROM lost_stories")
    assert stories == [{"leader": 1, "next_leader": 2, "case": "B2"}]


def jobs_of(warehouse, runs) -> int:
    """Return the number of Spark jobs that load these runs."""
    context = warehouse.spark.sparkContext
    context.setJobGroup(f"load of {len(runs)}", "")
    try:
        load(warehouse, runs)
        context._jsc.sc().listenerBus().waitUntilEmpty()  # jobs are counted later
        return len(context.statusTracker().getJobIdsForGroup(f"load of {len(runs)}"))
    finally:
        context.setJobGroup("", "")


@pytest.mark.slow
def test_the_number_of_jobs_does_not_grow_with_the_runs_of_a_load(spark, tmp_path):
    many = [judged(make_run(tmp_path / f"run-{number}")) for number in range(12)]
    one = jobs_of(Warehouse.create(spark, str(tmp_path / "one"), Format.PARQUET), many[:1])
    twelve = jobs_of(Warehouse.create(spark, str(tmp_path / "twelve"), Format.PARQUET), many)
    assert one > 0
    assert twelve - one < len(many) - 1, "Spark may split a job; a job a run would be eleven more"


def test_two_directories_of_one_run_are_refused(tmp_path, run_dirs):
    copy = Path(shutil.copytree(run_dirs["one"], tmp_path / "copy"))
    with pytest.raises(RunDirectoryError, match="are the same run, one"):
        rows.read_runs([run_dirs["one"], copy], commit=None, comparison=None)


def test_a_verdict_of_another_run_than_the_tables_is_refused(tmp_path):
    directory = make_run(tmp_path / "run")
    path = directory / "verdict.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"run_id": "other"}))
    with pytest.raises(RunDirectoryError, match="other"):
        judged(directory)


def test_a_published_report_has_the_address_given(run_dirs):
    published = judged(run_dirs["one"], reports="https://ci.example/7/")
    assert published.run["report"] == "https://ci.example/7/one/report.html"


@pytest.mark.slow
def test_the_catalog_gets_every_table_and_analysis(loaded):
    names = loaded.register("losses")
    try:
        listed = [one.name for one in loaded.spark.catalog.listTables("losses")]
        assert set(names) <= set(listed)
        [row] = loaded.spark.sql("SELECT count(*) AS n FROM losses.runs").collect()
        assert row["n"] == 3
        assert loaded.spark.catalog.currentDatabase() == "default"
    finally:
        loaded.spark.sql("DROP DATABASE losses CASCADE")


@pytest.mark.slow
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
    assert load(warehouse, [judged(directory)]) == {"run": Loaded.NEW}
    once, rows = counts(warehouse), stored(warehouse)
    assert once["runs"] == 1
    assert load(warehouse, [judged(directory)]) == {"run": Loaded.PRESENT}
    assert stored(warehouse) == rows

    change_verdict(directory, duplicated=7)
    assert load(warehouse, [judged(directory)]) == {"run": Loaded.AGAIN}
    assert counts(warehouse) == once
    assert warehouse.query("SELECT duplicated FROM runs") == [{"duplicated": 7}]


@pytest.mark.slow
def test_sends_that_were_loaded_once_are_loaded_again_with_the_run(warehouse, tmp_path):
    directory = make_run(tmp_path / "run")
    assert load(warehouse, [judged(directory)]) == {"run": Loaded.NEW}
    once = counts(warehouse)
    assert load(warehouse, [judged(directory)], sends=True) == {"run": Loaded.AGAIN}
    assert load(warehouse, [judged(directory)]) == {"run": Loaded.PRESENT}
    change_verdict(directory, duplicated=8)
    load(warehouse, [judged(directory)])
    assert counts(warehouse) == once | {"sends": 720}


@pytest.mark.slow
def test_writing_the_same_run_twice_stores_it_once(warehouse, tmp_path, monkeypatch):
    """The format's writer guarantees it, because the check for stored runs is switched off."""
    from ackproof_spark.warehouse import load as loading

    monkeypatch.setattr(loading, "_stored", lambda *_: {})
    runs = [judged(make_run(tmp_path / name, day=day)) for day, name in ((1, "a"), (2, "b"))]
    load(warehouse, runs, sends=True, reads=True)
    rows = stored(warehouse)
    assert len(rows["runs"]) == 2
    assert load(warehouse, runs[:1], sends=True, reads=True) == {"a": Loaded.NEW}
    assert stored(warehouse) == rows


@pytest.mark.slow
def test_rows_that_a_run_no_longer_has_are_not_shown(warehouse, tmp_path):
    directory = make_run(tmp_path / "run")
    load(warehouse, [judged(directory, comparison="demo")])
    assert counts(warehouse)["trials"] == 1
    load(warehouse, [judged(directory)])
    assert counts(warehouse)["trials"] == 0


@pytest.mark.slow
def test_an_unfinished_load_is_not_shown_and_the_next_one_is_complete(
    warehouse, tmp_path, monkeypatch
):
    directory = make_run(tmp_path / "run")
    replace_runs = Tables.replace_runs

    def fails_at_last(tables, name, rows):
        if name == "runs":
            raise AnalysisError("the disk is gone")
        replace_runs(tables, name, rows)

    monkeypatch.setattr(Tables, "replace_runs", fails_at_last)
    with pytest.raises(AnalysisError, match="the disk is gone"):
        load(warehouse, [judged(directory)], sends=True)
    assert set(counts(warehouse).values()) == {0}
    assert len(stored(warehouse)["sends"]) == 720

    monkeypatch.setattr(Tables, "replace_runs", replace_runs)
    load(warehouse, [judged(directory)], sends=True)
    whole = counts(warehouse)
    assert (whole["runs"], whole["sends"]) == (1, 720)
    assert {name: len(rows) for name, rows in stored(warehouse).items()} == whole


@pytest.mark.slow
def test_a_run_that_was_killed_lacks_states_and_is_loaded(warehouse, tmp_path):
    directory = make_run(tmp_path / "run")
    for name in ("partition_states", "broker_states"):
        (directory / f"{name}.parquet").unlink()
    load(warehouse, [judged(directory)])
    assert counts(warehouse)["partition_states"] == 0
    assert counts(warehouse)["events"] == 8


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ('{"format": "delta", "version": 99}', r"version 99.*newer"),
        ('{"format": "delta", "version": 2}', r"version 2.*load its runs into a new one"),
        ('{"format": "csv", "version": 1}', "is damaged.*csv"),
        ("{", "is damaged"),
    ],
)
def test_a_newer_older_or_damaged_warehouse_is_refused(spark, tmp_path, head, message):
    (tmp_path / "warehouse.json").write_text(head)
    with pytest.raises(WarehouseError, match=message):
        Warehouse.open(spark, str(tmp_path))
    with pytest.raises(WarehouseError, match=message):
        Warehouse.create(spark, str(tmp_path), Format.DELTA)


def test_a_directory_without_a_warehouse_is_refused(spark, tmp_path):
    with pytest.raises(WarehouseError, match=r"not a warehouse.*ackproof warehouse load"):
        Warehouse.open(spark, str(tmp_path))


def test_a_warehouse_keeps_its_format(spark, warehouse):
    other = Format.PARQUET if warehouse.format is Format.DELTA else Format.DELTA
    with pytest.raises(WarehouseError, match=f"format {warehouse.format}, not {other}"):
        Warehouse.create(spark, warehouse.storage.address, other)


def test_a_plain_reader_finds_the_columns_in_parquet(spark, loaded):
    if loaded.format is not Format.PARQUET:
        pytest.skip("of Parquet only")
    table = Path(loaded.storage.address.removeprefix("file:")) / "runs"
    assert sorted(folder.name for folder in table.glob("run_id=*")) == [
        "run_id=__HIVE_DEFAULT_PARTITION__",
        "run_id=all",
        "run_id=one",
        "run_id=two",
    ]
    rows = spark.read.parquet(str(table)).where("run_id = 'one'").collect()
    assert len(rows) == 1
    assert set(rows[0].asDict()) == set(TABLES["runs"].names)
