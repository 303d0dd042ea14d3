"""Loading a run twice changes nothing; a run that was judged again replaces its earlier rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from ackproof.errors import RunDirectoryError
from ackproof.report.wording import outcome
from ackproof.warehouse import rows
from ackproof_spark.errors import AnalysisError, WarehouseError
from ackproof_spark.spark.small_data import FEW, small_plans
from ackproof_spark.tables import LOCATION
from ackproof_spark.warehouse.formats import Format, Tables
from ackproof_spark.warehouse.load import Loaded, all_present, load
from ackproof_spark.warehouse.schemas import COMMENTS, TABLES, comment_of
from ackproof_spark.warehouse.sql_files import ANALYSES, view
from ackproof_spark.warehouse.views import columns_of
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.spark_analysis.warehouse.conftest import (
    COMMIT,
    COMPLETE,
    FORMATS,
    change_verdict,
    copy,
    few_sends,
    judged,
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


def rows_of(directory: Path, *names: str) -> int:
    """Return the number of rows of tables of a run directory."""
    return sum(
        pq.read_table(directory / LOCATION[name]).num_rows
        for name in names
        if (directory / LOCATION[name]).exists()
    )


@pytest.mark.usefixtures("few_rows")
def test_every_table_has_the_rows_of_the_runs(loaded, run_dirs):
    verdicts = {name: verdict_of(directory) for name, directory in run_dirs.items()}
    found = counts(loaded)
    every = {
        name: sum(rows_of(directory, name) for directory in run_dirs.values())
        for name in ("lost_stories", "fault_windows", "partition_states", "anomalies", "causes")
    }
    assert found == every | {
        "runs": 6,
        "predictions": sum(len(verdict.predicted) for verdict in verdicts.values()),
        "findings": sum(len(verdict.findings) for verdict in verdicts.values()),
        "availability": 0,  # no probe
        "share_groups": 0,
        "events": found["events"],
        "metrics": found["metrics"],
        "sends": rows_of(run_dirs[COMPLETE], "ledger"),
        "reads": rows_of(run_dirs[COMPLETE], "final_log"),
        "watch_findings": 0,
        "explored_pairs": 0,
    }
    one, run_id = verdicts["one"], verdicts["one"].run_id
    asked = loaded.queries(
        {
            "run": f"SELECT * FROM runs WHERE run_id = '{run_id}'",
            "kill": "SELECT parameters FROM fault_windows "
            f"WHERE fault = 'kill' AND run_id = '{run_id}'",
        }
    )
    [row] = asked["run"]
    assert row["lost"] == one.observed["lost"] > 0
    assert row["unknown_outcome"] == one.observed["unknown"]
    assert row["observed"] == one.observed
    assert row["settings"]["producer.acks"] == "1"
    assert row["run_date"] == one.started_at.date()
    assert row["availability"] == pytest.approx(
        1 - one.metrics.unavailability_s / one.metrics.duration_s
    )
    assert row["outcome"] == outcome(one).text
    assert row["report"] == (run_dirs["one"] / "report.html").as_uri()
    [kill] = asked["kill"]
    assert isinstance(kill["parameters"], dict)


@pytest.mark.slow
def test_runs_of_the_same_settings_are_one_configuration(loaded):
    ids = loaded.query("SELECT count(DISTINCT configuration_id) AS n FROM runs")
    assert ids == [{"n": 5}], "both runs of acks=1 have the same settings"
    linger = loaded.query(
        "SELECT DISTINCT setting_value FROM settings WHERE setting = 'producer.linger.ms' "
        "AND setting_value = '50.0'"
    )
    assert len(linger) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_a_loaded_comparison_fills_trials(loaded, run_dirs, runs_folder):
    [comparison] = runs_folder.glob("*-comparison")
    found = loaded.query("SELECT comparison, run_id, trial FROM trials")
    assert {(row["comparison"], row["trial"]) for row in found} == {(comparison.name, 1)}
    trials = {verdict_of(run_dirs[name]).run_id for name in ("one", "all")}
    assert {row["run_id"] for row in found} == trials
    # Naming the comparison loads its trials.
    assert {path.name for path in rows.with_trials([comparison])} == trials


@pytest.mark.slow
def test_faults_have_the_numbers_of_the_page(loaded, run_dirs):
    run_id = verdict_of(run_dirs["one"]).run_id
    faults = loaded.query(
        f"SELECT fault_number, fault FROM recovery_times WHERE run_id = '{run_id}' ORDER BY ALL"
    )
    assert [tuple(row.values()) for row in faults] == [(1, "isolate_replication"), (2, "kill")]
    events = loaded.query(
        "SELECT DISTINCT split(description, ' ')[0] AS number, split(description, ' ')[1] AS fault "
        "FROM events WHERE kind LIKE 'fault-%' ORDER BY ALL"
    )
    assert [tuple(row.values()) for row in events] == [
        ("F1", "isolate_replication"),
        ("F2", "kill"),
        ("F2", "power_loss"),
    ]
    [verdict] = [verdict_of(run_dirs["one"])]
    causes = loaded.query(f"SELECT fault_number FROM causes WHERE run_id = '{run_id}'")
    assert {row["fault_number"] for row in causes} == {
        None if cause.window is None else cause.window + 1 for cause in verdict.causes
    }


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_seconds_add_up_to_the_run(loaded):
    summed = loaded.query(
        "SELECT r.run_id, r.sent, r.acked, sum(m.sent) AS sent_s, sum(m.acked) AS acked_s, "
        "min_by(m.acking_share, m.occurred_at) AS first "
        "FROM runs AS r JOIN metrics AS m ON r.run_id = m.run_id "
        "GROUP BY r.run_id, r.sent, r.acked"
    )
    assert len(summed) == 6
    for row in summed:
        assert (row["sent_s"], row["acked_s"]) == (row["sent"], row["acked"])
        assert row["first"] is None, "clients begin in the middle of their first second"


@pytest.mark.slow
def test_a_commit_is_that_of_the_run_and_is_kept(warehouse, run_dirs, tmp_path):
    def commits() -> dict[str, str | None]:
        found = warehouse.query("SELECT run_id, commit_id FROM runs")
        return {row["run_id"]: row["commit_id"] for row in found}

    recorded = copy(run_dirs["file-one"], tmp_path)
    record = json.loads((recorded / "run.json").read_text())
    (recorded / "run.json").write_text(json.dumps(record | {"commit": COMMIT}))
    load(warehouse, [judged(recorded), judged(run_dirs["file-all"], commit="given")])
    run_id = run_dirs["file-all"].name
    assert commits() == {recorded.name: COMMIT, run_id: "given"}
    assert load(warehouse, [judged(run_dirs["file-all"])]) == {run_id: Loaded.PRESENT}
    again = judged(copy(run_dirs["file-all"], tmp_path, duplicated=7))
    assert load(warehouse, [again]) == {run_id: Loaded.AGAIN}
    assert commits()[run_id] == "given"


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
def test_the_number_of_jobs_does_not_grow_with_the_runs_of_a_load(spark, tmp_path, run_dirs):
    """More than `FEW` sends get other plans, in which each stage is a job."""
    runs = [judged(directory) for directory in run_dirs.values()]
    small = sorted(runs, key=lambda run: run.run["sent"])[:3]
    assert sum(run.run["sent"] for run in small) <= FEW
    one = jobs_of(Warehouse.create(spark, str(tmp_path / "one"), Format.PARQUET), small[:1])
    three = jobs_of(Warehouse.create(spark, str(tmp_path / "three"), Format.PARQUET), small)
    assert one > 0
    assert three - one < 2, "Spark may split a job; a job a run would be two more"


def test_two_directories_of_one_run_are_refused(tmp_path, run_dirs):
    other = Path(shutil.copytree(run_dirs["one"], tmp_path / "copy"))
    with pytest.raises(RunDirectoryError, match=f"are the same run, {run_dirs['one'].name}"):
        rows.read_runs([run_dirs["one"], other])


def test_a_verdict_of_another_run_than_the_tables_is_refused(tmp_path, run_dirs):
    directory = copy(run_dirs["one"], tmp_path)
    path = directory / "verdict.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"run_id": "other"}))
    with pytest.raises(RunDirectoryError, match="other"):
        judged(directory)


@pytest.mark.slow
def test_links_follow_the_address_of_the_published_runs(loaded, run_dirs):
    run_id = run_dirs["one"].name
    link = f"SELECT report FROM runs WHERE run_id = '{run_id}'"
    loaded.publish("https://ci.example/7/")
    try:
        moved = Warehouse.open(loaded.spark, loaded.storage.address)
        assert moved.query(link) == [{"report": f"https://ci.example/7/{run_id}/report.html"}]
    finally:
        loaded.publish("")
    assert loaded.query(link) == [{"report": (run_dirs["one"] / "report.html").as_uri()}]


@pytest.mark.slow
@pytest.mark.parametrize("tables_in", ["", "losses_tables"])
def test_the_catalog_gets_every_table_and_view_with_comments(loaded, run_dirs, tables_in):
    spark = loaded.spark
    names = loaded.register("losses", tables_in)
    try:
        listed = [one.name for one in spark.catalog.listTables("losses")]
        assert set(names) <= set(listed)
        [row] = spark.sql("SELECT count(*) AS n FROM losses.runs").collect()
        assert row["n"] == 6
        assert spark.sql("SELECT * FROM losses.loss_rates").count() == 6
        registered = tables_in and loaded.format is not Format.ICEBERG
        for schema in ("losses", tables_in) if registered else ("losses",):
            for table, own in TABLES.items():
                described = spark.sql(f"DESCRIBE {schema}.{table}").collect()
                columns = {row["col_name"]: row["comment"] for row in described}
                shown = [one for one in own.schema if one.name in columns]
                assert len(shown) >= len(own.schema) - 1
                assert all(columns[one.name] == comment_of(one) for one in shown), table
        for name in ANALYSES:
            described = spark.sql(f"DESCRIBE losses.{name}").collect()
            assert [row["col_name"] for row in described] == list(columns_of(view(name)))
            assert all(row["comment"] == COMMENTS[row["col_name"]] for row in described)
        assert "Runs of scenarios" in str(spark.sql("DESCRIBE EXTENDED losses.runs").collect())
        assert spark.catalog.currentDatabase() == "default"
    finally:
        spark.sql("DROP DATABASE IF EXISTS losses_tables CASCADE")
        spark.sql("DROP DATABASE losses CASCADE")


def test_the_stored_tables_have_comments(loaded):
    """Parquet itself has none: there they are in the views, and in registered tables."""
    if loaded.format is Format.PARQUET:
        pytest.skip("not of Parquet")
    for table, described in TABLES.items():
        stored = loaded.spark.sql(f"SELECT * FROM {loaded.tables.sql_name(table)}").schema
        comments = {
            one.name: one.metadata.get("comment") for one in stored if one.name != "run_date"
        }
        expected = {one.name: comment_of(one) for one in described.schema if one.name != "run_date"}
        assert comments == expected, table


def files(warehouse) -> dict[str, int]:
    """Return the data files of a warehouse, and when each was written."""
    root = Path(warehouse.storage.address.removeprefix("file://"))
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*.parquet")}


@pytest.mark.slow
def test_loading_again_changes_nothing_until_the_run_changes(warehouse, tmp_path, run_dirs):
    location = warehouse.storage.address
    directory, beside = (few_sends(copy(run_dirs[name], tmp_path)) for name in ("one", "all"))
    one, other = judged(directory), judged(beside)
    assert not all_present(location, [one])
    assert load(warehouse, [one, other]) == dict.fromkeys((one.run_id, other.run_id), Loaded.NEW)
    once, written = counts(warehouse), files(warehouse)
    assert once["runs"] == 2
    assert all_present(location, [one, other])
    assert not all_present(location, [one], sends=True)
    assert not all_present(location, [one, judged(run_dirs["two"])])
    assert load(warehouse, [one]) == {one.run_id: Loaded.PRESENT}
    assert files(warehouse) == written
    # What another writer did is unknown.
    warehouse.storage.write("ackproof/runs/_other", "")
    assert not all_present(location, [one])

    change_verdict(directory, duplicated=7)
    changed = judged(directory)
    assert not all_present(location, [changed])
    assert load(warehouse, [changed]) == {one.run_id: Loaded.AGAIN}
    assert all_present(location, [changed])
    assert counts(warehouse) == once
    assert {name: len(rows) for name, rows in stored(warehouse).items()} == once
    found = warehouse.query("SELECT duplicated FROM runs ORDER BY duplicated")
    assert [row["duplicated"] for row in found] == [0, 7]


@pytest.mark.slow
def test_sends_that_were_loaded_once_are_loaded_again_with_the_run(warehouse, tmp_path, run_dirs):
    directory = copy(run_dirs["file-all"], tmp_path)
    run_id, sends = directory.name, rows_of(directory, "ledger")
    assert load(warehouse, [judged(directory)]) == {run_id: Loaded.NEW}
    once = counts(warehouse)
    assert load(warehouse, [judged(directory)], sends=True) == {run_id: Loaded.AGAIN}
    assert load(warehouse, [judged(directory)]) == {run_id: Loaded.PRESENT}
    change_verdict(directory, duplicated=8)
    load(warehouse, [judged(directory)])
    assert counts(warehouse) == once | {"sends": sends}


@pytest.mark.slow
def test_writing_the_same_run_twice_stores_it_once(warehouse, run_dirs, monkeypatch):
    """The format's writer guarantees it, because the check for stored runs is switched off."""
    from ackproof_spark.warehouse import load as loading

    monkeypatch.setattr(loading, "_stored", lambda *_: {})
    runs = [judged(run_dirs[name]) for name in ("file-one", "file-all")]
    load(warehouse, runs, sends=True)
    rows = stored(warehouse)
    assert len(rows["runs"]) == 2
    assert load(warehouse, runs[:1], sends=True) == {runs[0].run_id: Loaded.NEW}
    assert stored(warehouse) == rows


@pytest.mark.slow
def test_an_unfinished_load_is_not_shown_and_the_next_one_is_complete(
    warehouse, run_dirs, monkeypatch
):
    run = judged(run_dirs["file-all"])
    sends = rows_of(run_dirs["file-all"], "ledger")
    replace_runs = Tables.replace_runs

    def fails_at_last(tables, name, rows, run_ids):
        if name == "runs":
            raise AnalysisError("the disk is gone")
        replace_runs(tables, name, rows, run_ids)

    monkeypatch.setattr(Tables, "replace_runs", fails_at_last)
    with pytest.raises(AnalysisError, match="the disk is gone"):
        load(warehouse, [run], sends=True)
    assert set(counts(warehouse).values()) == {0}
    assert len(stored(warehouse)["sends"]) == sends

    monkeypatch.setattr(Tables, "replace_runs", replace_runs)
    load(warehouse, [run], sends=True)
    whole = counts(warehouse)
    assert (whole["runs"], whole["sends"]) == (1, sends)
    assert {name: len(rows) for name, rows in stored(warehouse).items()} == whole


@pytest.mark.slow
def test_a_run_that_was_killed_lacks_states_and_is_loaded(warehouse, tmp_path, run_dirs):
    directory = copy(run_dirs["one"], tmp_path)
    for name in ("partition_states", "broker_states"):
        (directory / f"{name}.parquet").unlink()
    load(warehouse, [judged(directory)])
    assert counts(warehouse)["partition_states"] == 0
    kinds = warehouse.query("SELECT DISTINCT kind FROM events")
    assert {row["kind"].split("-")[0] for row in kinds} == {"fault"}


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


@pytest.mark.slow
def test_pandas_and_duckdb_read_every_parquet_table(loaded):
    if loaded.format is not Format.PARQUET:
        pytest.skip("of Parquet only")
    pd = pytest.importorskip("pandas")
    root = Path(loaded.storage.address.removeprefix("file://")) / "ackproof"
    found = counts(loaded)
    for table, described in TABLES.items():
        frame = pd.read_parquet(root / table)
        assert set(frame.columns) == set(described.schema.names)
        assert len(frame) == found[table], table
    lost = pd.read_parquet(root / "runs").groupby("configuration")["lost"].sum()
    assert lost["acks=1"] > 0 == lost["acks=all, min.insync.replicas=2"]
    files = f"'{root}/runs/*/*.parquet', hive_partitioning = true"
    asked = duckdb.sql(f"SELECT settings['producer.acks'] FROM read_parquet({files})")
    assert sorted(asked.fetchall()) == [("1",)] * 4 + [("all",)] * 2


def test_no_name_is_a_reserved_word(spark):
    reserved = duckdb.sql(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
    ).fetchall()
    names = {name for table in TABLES.values() for name in table.schema.names}
    assert not names & {word for [word] in reserved}
    spark.conf.set("spark.sql.ansi.enforceReservedKeywords", True)
    try:
        spark.sql(f"SELECT {', '.join(f'1 AS {name}' for name in sorted(names))}")
        with pytest.raises(Exception, match="PARSE"):
            spark.sql("SELECT 1 AS unknown")
    finally:
        spark.conf.unset("spark.sql.ansi.enforceReservedKeywords")


@pytest.mark.parametrize("_kind", FORMATS[2:])
def test_the_tables_of_iceberg_are_in_the_users_catalog(spark, tmp_path, run_dirs, _kind):
    catalog = {"name": "lake", "type": "hadoop", "warehouse": str(tmp_path / "lake")}
    place = str(tmp_path / "warehouse")
    run = judged(run_dirs["file-all"])
    load(Warehouse.create(spark, place, Format.ICEBERG, catalog), [run])
    [row] = spark.sql("SELECT run_id FROM lake.ackproof.runs").collect()
    assert row["run_id"] == run.run_id
    again = Warehouse.open(spark, place)
    assert load(again, [run]) == {run.run_id: Loaded.PRESENT}
    assert not all_present(place, [run]), "another writer of the catalog would not be seen"
    assert len(again.query("SELECT * FROM runs")) == 1
    with pytest.raises(WarehouseError, match="in the catalog"):
        Warehouse.create(spark, place, Format.ICEBERG, {"type": "rest"})
