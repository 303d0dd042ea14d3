"""The manifest: changed, removed and added files are detected."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.errors import ExitCode, RunDirectoryError
from ackproof.runs import directory as runs
from ackproof.runs import manifest
from ackproof.runs.recovery import recover_run, seal
from ackproof_spark.tables import LOCATION, SCHEMAS, TIME
from spark_histories import RUN_ID, parse
from support.run_directories import START, RunDirectory, store

FINAL_LOG = LOCATION["final_log"] / "part-0.parquet"


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    run_dir = store(
        tmp_path / "run", parse({"sends": ["0/0 to 0: acked at 0"], "log": ["0@0: 0/0"]})
    )
    seal(run_dir, runs.read_record(run_dir))
    return run_dir


def test_an_unchanged_run_is_accepted(sealed: Path) -> None:
    recover_run(sealed)
    manifest.check_tables(sealed, RUN_ID)
    files = runs.read_model(sealed, manifest.NAME, manifest.Manifest).files
    assert {file.path: file.rows for file in files} == {
        "run.json": None,
        "scenario.yaml": None,
        "prediction.json": None,
        "ledger/producer-0.parquet": 1,
        "final_log/part-0.parquet": 1,
        "partition_ends.parquet": 0,
        "fault_windows.parquet": 0,
    }


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def copy_to(name: str) -> Callable[[Path], object]:
    def copy(path: Path) -> None:
        (path.parent / name).parent.mkdir(exist_ok=True)
        shutil.copy(path, path.parent / name)

    return copy


def link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.with_name("link.parquet").symlink_to(target)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (FINAL_LOG, flip_a_byte, "was changed after the run"),
        (FINAL_LOG, Path.unlink, "is missing"),
        (FINAL_LOG, copy_to("another.parquet"), "was added after the run"),
        (FINAL_LOG, copy_to("part-1.parquet._COPYING_"), "was added after the run"),
        (FINAL_LOG, copy_to("part-1"), "was added after the run"),
        (FINAL_LOG, copy_to("deeper/part-1.parquet"), "was added after the run"),
        (FINAL_LOG, link_to("nowhere.parquet"), "link.parquet was added after the run"),
        (FINAL_LOG, link_to("link.parquet"), "link.parquet was added after the run"),
        (LOCATION["partition_ends"], Path.unlink, "is missing"),
        (LOCATION["fault_windows"], Path.unlink, "is missing"),
        (Path("scenario.yaml"), flip_a_byte, "was changed after the run"),
        (Path("run.json"), lambda path: path.write_text(path.read_text() + " "), "was changed"),
        (Path(manifest.NAME), lambda path: path.write_text("{"), "is damaged"),
    ],
)
def test_a_changed_run_is_refused_and_not_modified(
    sealed: Path, file: Path, change: Callable[[Path], object], said: str
) -> None:
    change(sealed / file)
    before = sorted(path for path in sealed.rglob("*"))
    with pytest.raises(RunDirectoryError, match=said) as caught:
        recover_run(sealed)
    assert caught.value.exit_code is ExitCode.USAGE
    assert sorted(path for path in sealed.rglob("*")) == before


@pytest.mark.parametrize("target", ["nowhere", "part-0.parquet", "."])
def test_a_link_in_place_of_a_recorded_file_is_refused(sealed: Path, target: str) -> None:
    (sealed / FINAL_LOG).unlink()
    (sealed / FINAL_LOG).symlink_to(target)
    with pytest.raises(RunDirectoryError, match=r"part-0\.parquet is a link, and cannot be read"):
        recover_run(sealed)
    (sealed / manifest.NAME).unlink()
    with pytest.raises(RunDirectoryError, match=r"part-0\.parquet is a link, and cannot be read"):
        manifest.write(sealed, RUN_ID)


def test_the_manifest_of_another_run_is_refused(sealed: Path) -> None:
    other = runs.read_model(sealed, manifest.NAME, manifest.Manifest)
    runs.write_model(sealed / manifest.NAME, other.model_copy(update={"run_id": "another"}))
    with pytest.raises(RunDirectoryError, match="is of the run 'another'"):
        recover_run(sealed)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("run_id", "another", "rows of another run"), ("schema_version", 2, "schema version 2")],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_a_row_of_another_run_is_detected(
    tmp_path: Path, column: str, value: object, said: str, statistics: bool
) -> None:
    history = parse({"log": [f"0@{n}: 0/{n}" for n in range(9)], "ends": ["0: 0-9"]})
    run_dir = store(tmp_path / "run", history)
    manifest.check_tables(run_dir, RUN_ID)
    table = pq.read_table(run_dir / FINAL_LOG)
    values = table[column].to_pylist()
    values[5] = value
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    changed = table.set_column(at, field, pa.array(values, field.type))
    pq.write_table(changed, run_dir / FINAL_LOG, write_statistics=statistics)
    with pytest.raises(RunDirectoryError, match=said):
        manifest.check_tables(run_dir, RUN_ID)


Change = Callable[[pa.Table, str], pa.Table]


def without(rows: pa.Table, column: str) -> pa.Table:
    return rows.drop_columns([column])


def twice(rows: pa.Table, column: str) -> pa.Table:
    return rows.append_column(column, rows[column])


def as_text(rows: pa.Table, column: str) -> pa.Table:
    return _put(rows, column, pa.array(["no"] * len(rows)))


def as_null(rows: pa.Table, column: str) -> pa.Table:
    return _put(rows, column, pa.nulls(len(rows), rows.schema.field(column).type))


def after_9999(rows: pa.Table, column: str) -> pa.Table:
    return _put(rows, column, pa.array([2**62] * len(rows), TIME))


def doubled(rows: pa.Table, column: str) -> pa.Table:
    return pa.concat_tables([rows, rows])


def _put(rows: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(column), column, values)


def changed_table(
    run_dir: Path, table: str, change: Change, column: str, *, statistics: bool
) -> Path:
    """Change a column of a table; an empty table gets a row first."""
    run = RunDirectory(path=run_dir)
    path = run.file(table, {"ledger": "producer-0"}.get(table, "part-0"))
    if not path.exists() or not pq.read_metadata(path).num_rows:
        row = {field.name: VALUE.get(field.type, [1]) for field in SCHEMAS[table]}
        common = {"schema_version": 1, "run_id": RUN_ID}
        run.write(table, [{**row, **common}], name=path.stem)
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(change(rows, column), path, write_statistics=statistics)
    return path


VALUE = {pa.int32(): 0, pa.int64(): 0, TIME: START, pa.string(): "", pa.bool_(): True}

CHANGES: dict[Change, str] = {
    without: "it has no column {column}",
    twice: "it has 2 columns {column}",
    as_text: "its column {column} is of type string, not",
    as_null: "its column {column} has rows without a value",
    after_9999: "its column {column} has a time outside the years 1 to 9999",
    doubled: "it has more than one row of the same",
}


@pytest.mark.parametrize(
    ("table", "column", "changes"),
    [
        ("ledger", "outcome", (without, twice, as_null)),
        ("ledger", "offset", (without, twice, as_text)),
        ("ledger", "sent_at", (without, as_text, after_9999)),
        ("final_log", "offset", (without, as_text, as_null)),
        ("final_log", "partition", (without, as_text, as_null)),
        ("final_log", "state", (without, as_null)),
        ("partition_ends", "partition", (without, as_text, as_null)),
        ("partition_ends", "end_offset", (without, as_text, as_null)),
        ("partition_ends", "complete", (without, as_text, as_null, doubled)),
        ("fault_windows", "facts", (without,)),
        ("fault_windows", "fault", (without, as_null, doubled)),
        ("fault_windows", "nodes", (without, as_text, as_null)),
        ("fault_windows", "healed_at", (without, as_text, after_9999)),
        ("disagreements", "reader", (without, as_null)),
        ("partition_states", "isr", (without, as_text, as_null)),
        ("probe", "ok", (without, as_text, as_null)),
        ("replica_batches", "crc_ok", (without, as_text, as_null)),
        ("transactions", "initialized_at", (as_text, as_null, after_9999)),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_an_invalid_table_is_refused(
    sealed: Path, table: str, column: str, changes: tuple[Change, ...], statistics: bool
) -> None:
    for change in changes:
        path = changed_table(sealed, table, change, column, statistics=statistics)
        with pytest.raises(RunDirectoryError) as caught:
            manifest.check_tables(sealed, RUN_ID)
        assert CHANGES[change].format(column=column) in str(caught.value)
        path.unlink()


def test_allowed_differences_are_accepted(sealed: Path) -> None:
    """A fault may have no facts, an offset may be unknown, and records may have any date."""
    for table, column, change in (
        ("fault_windows", "facts", as_null),
        ("ledger", "offset", as_null),
        ("final_log", "written_at", after_9999),
        ("disagreements", "written_at", after_9999),
    ):
        for statistics in (True, False):
            path = changed_table(sealed, table, change, column, statistics=statistics)
            manifest.check_tables(sealed, RUN_ID)
            path.unlink()


def test_a_folder_in_place_of_a_document_is_refused(sealed: Path) -> None:
    (sealed / "metadata.log").mkdir()
    with pytest.raises(RunDirectoryError, match=r"metadata\.log is a folder"):
        manifest.check_tables(sealed, RUN_ID)


def test_a_file_in_place_of_the_folder_of_a_table_is_refused(sealed: Path) -> None:
    (sealed / LOCATION["disagreements"]).write_text("no table")
    with pytest.raises(RunDirectoryError, match="is damaged or cut short"):
        manifest.check_tables(sealed, RUN_ID)


def test_a_finished_run_without_its_ends_keeps_its_final_log(tmp_path: Path) -> None:
    history = parse({"sends": ["0/0 to 0: acked at 0"], "log": ["0@0: 0/0"], "ends": ["0: 0-1"]})
    run_dir = store(tmp_path / "run", history)
    (run_dir / LOCATION["partition_ends"]).unlink()
    with pytest.raises(RunDirectoryError, match=r"partition_ends\.parquet is missing"):
        recover_run(run_dir)
    assert pq.read_table(run_dir / FINAL_LOG).num_rows == 1


RECORDED = sorted(LOCATION.keys() - manifest._RESULTS)


def plant(run_dir: Path, table: str, *run_ids: str) -> Path:
    """Add a file to a table, with a row of each of these runs."""
    run = RunDirectory(path=run_dir)
    run.write(table, [{"run_id": run_id} for run_id in run_ids], name="planted")
    return run.file(table, "planted")


def test_everything_that_a_run_may_record_is_listed(tmp_path: Path) -> None:
    run_dir = store(tmp_path / "run", parse({}))
    planted = [plant(run_dir, table) for table in RECORDED]
    for name in (
        *("metadata.log", "clients/producer-0.progress", "clients/producer-0.json"),
        "zookeeper/version-2/log.1",
    ):
        planted.append(run_dir / name)
        planted[-1].parent.mkdir(parents=True, exist_ok=True)
        planted[-1].write_text("{}")
    seal(run_dir, runs.read_record(run_dir))
    listed = {
        file.path for file in runs.read_model(run_dir, manifest.NAME, manifest.Manifest).files
    }
    assert {path.relative_to(run_dir).as_posix() for path in planted} <= listed


def test_only_results_may_be_missing_in_the_manifest() -> None:
    results = {"anomalies", "causes", "lost_stories"}
    live = {"live_partitions", "live_findings"}
    assert set(LOCATION) - set(RECORDED) == results | live


@pytest.mark.parametrize("table", RECORDED)
def test_a_row_of_another_run_is_detected_in_each_table(tmp_path: Path, table: str) -> None:
    run_dir = store(tmp_path / "run", parse({}))
    plant(run_dir, table, RUN_ID)
    manifest.check_tables(run_dir, RUN_ID)
    path = plant(run_dir, table, "another")
    with pytest.raises(RunDirectoryError, match="rows of another run") as caught:
        manifest.check_tables(run_dir, RUN_ID)
    assert str(path) in str(caught.value)
