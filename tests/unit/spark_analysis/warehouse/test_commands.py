"""Messages and exit codes of `ackproof warehouse` and `ackproof dashboard`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import command_line
from ackproof.errors import ExitCode
from ackproof.scenario import loader
from ackproof.warehouse import opening
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.schemas import TABLES
from ackproof_spark.warehouse.sql_files import ANALYSES
from unit.harness.exploration.explorations import PAIRS, explored
from unit.spark_analysis.warehouse.conftest import copy


@pytest.fixture
def ackproof(capsys, monkeypatch):
    """Run the command in this process; return its exit code, standard output and error.

    It finds no jars of table formats: it would start another Spark session, with them.
    """
    monkeypatch.setattr(opening, "has_jars", lambda kind: kind is Format.PARQUET)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = command_line.ackproof(*arguments)
        output = capsys.readouterr()
        assert "Traceback" not in output.err
        return code, output.out, output.err

    return run


def test_a_directory_that_is_not_a_run_is_refused(ackproof, tmp_path):
    code, _, message = ackproof("warehouse", "load", tmp_path, "--into", tmp_path / "w")
    assert code == ExitCode.USAGE
    assert f"{tmp_path} is not a finished run directory" in message


def test_a_run_without_a_verdict_is_refused_with_the_command_that_judges_it(
    ackproof, tmp_path, run_dirs
):
    run = copy(run_dirs["one"], tmp_path)
    (run / "verdict.json").unlink()
    code, _, message = ackproof("warehouse", "load", run, "--into", tmp_path / "w")
    assert code == ExitCode.USAGE
    assert "has no verdict" in message
    assert f"ackproof check {run}" in message


def test_a_damaged_verdict_is_refused(ackproof, tmp_path, run_dirs):
    run = copy(run_dirs["one"], tmp_path)
    (run / "verdict.json").write_text("{")
    code, _, message = ackproof("warehouse", "load", run, "--into", tmp_path / "w")
    assert code == ExitCode.USAGE
    assert "verdict.json is damaged" in message


@pytest.mark.spark
@pytest.mark.parametrize("command", [("warehouse", "info"), ("dashboard",)])
def test_a_directory_that_is_not_a_warehouse_is_refused(spark, ackproof, tmp_path, command):
    code, _, message = ackproof(*command, tmp_path)
    assert code == ExitCode.USAGE
    assert f"{tmp_path} is not a warehouse" in message


@pytest.mark.spark
@pytest.mark.slow
def test_an_empty_warehouse_has_no_dashboard(spark, ackproof, tmp_path):
    from ackproof_spark.warehouse.warehouse import Warehouse

    Warehouse.create(spark, str(tmp_path / "w"), Format.PARQUET)
    page = tmp_path / "page.html"
    code, _, message = ackproof("dashboard", tmp_path / "w", "--to", page)
    assert code == ExitCode.USAGE
    assert "contains no runs" in message
    assert not page.exists()


@pytest.mark.spark
def test_a_format_without_its_jars_is_refused_with_the_command_that_fetches_them(
    ackproof, tmp_path, monkeypatch, run_dirs
):
    from ackproof_spark.spark import connector

    monkeypatch.setattr(connector, "jars", lambda package=connector.Package.KAFKA: [])
    code, _, message = ackproof(
        "warehouse", "load", run_dirs["one"], "--into", tmp_path / "w", "--format", "iceberg"
    )
    assert code == ExitCode.ENVIRONMENT
    assert "python -m ackproof_spark.spark.connector iceberg" in message


@pytest.mark.spark
def test_an_address_that_cannot_be_written_is_refused_by_name(spark, ackproof, tmp_path, run_dirs):
    run = run_dirs["one"]
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "w"
    code, _, message = ackproof("warehouse", "load", run, "--into", place)
    assert code == ExitCode.ENVIRONMENT
    assert str(place) in message
    assert "name another folder or address" in message


@pytest.mark.slow
@pytest.mark.spark
def test_views_and_info_of_a_loaded_warehouse(loaded, ackproof):
    place = loaded.storage.address
    code, script, _ = ackproof("warehouse", "views", place)
    assert code == ExitCode.HOLDS
    assert script == (Path(place.removeprefix("file://")) / "views.sql").read_text()
    assert script.count("CREATE OR REPLACE VIEW ackproof.") == len(TABLES) + len(ANALYSES)
    for_duckdb = ["warehouse", "views", place, "--dialect", "duckdb", "--json"]
    if loaded.format is not Format.PARQUET:
        code, _, message = ackproof(*for_duckdb)
        assert code == ExitCode.USAGE
        assert "--tables-in" in message
        for_duckdb += ["--tables-in", "lake.runs"]
    code, said, _ = ackproof(*for_duckdb)
    assert code == ExitCode.HOLDS
    made = [one for one in json.loads(said)["statements"] if one.startswith("CREATE OR REPLACE")]
    assert len(made) == len(TABLES) + len(ANALYSES)
    code, _, message = ackproof("warehouse", "views", place, "--dialect", "trino")
    assert code == ExitCode.USAGE
    assert "--tables-in" in message
    code, message, _ = ackproof("warehouse", "info", place)
    assert code == ExitCode.HOLDS
    assert f"{loaded.format}, version 9" in message
    code, _, message = ackproof("warehouse", "views", place, "--schema", "a b")
    assert code == ExitCode.USAGE
    assert "'a b' is no name of a schema" in message


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("few_rows")
def test_the_page_of_a_loaded_warehouse(loaded, ackproof, tmp_path):
    page = tmp_path / "page.html"
    assert ackproof("dashboard", loaded.storage.address, "--to", page)[0] == ExitCode.HOLDS
    assert "acks=1 with linger.ms=50" in page.read_text()


@pytest.mark.spark
def test_a_second_load_starts_no_spark(loaded, ackproof, run_dirs, monkeypatch):
    monkeypatch.setattr(opening, "opened", lambda *_, **__: pytest.fail("it opens Spark"))
    monkeypatch.setattr(loader, "load", lambda *_, **__: pytest.fail("it reads a scenario"))
    into = ("--into", loaded.storage.address)
    code, said, _ = ackproof("warehouse", "load", *run_dirs.values(), *into, "--json")
    assert code == ExitCode.HOLDS
    assert {run["result"] for run in json.loads(said)["runs"]} == {"already there"}


@pytest.mark.parametrize("template", ["github", "gitlab", "jenkins"])
@pytest.mark.parametrize(
    ("files", "options"), [("", ""), ("kafka", "--config kafka"), ("a b", "--config a --config b")]
)
def test_ci_runs_the_scenario_with_the_users_files(ackproof, template, files, options, tmp_path):
    assert ackproof("init", tmp_path, "--template", template)[0] == ExitCode.HOLDS
    [text] = [path.read_text() for path in tmp_path.iterdir()]
    [line] = [line for line in text.splitlines() if "run chaos" in line]
    command = line[line.index("chaos") :].rstrip("'")
    done = subprocess.run(
        ["sh", "-c", f"echo {command}"],
        env={"FILES": files, "ACKPROOF_RUN_FILES": files},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["chaos/smoke.yaml", *options.split()]


def test_queries_and_templates_are_printed_and_copied(ackproof, tmp_path):
    code, said, _ = ackproof("warehouse", "queries", "trend", "--schema", "mine")
    assert code == ExitCode.HOLDS
    assert "FROM mine.trend" in said
    assert ackproof("warehouse", "queries", "nothing")[0] == ExitCode.USAGE
    code, said, _ = ackproof("init", tmp_path / "new", "--template", "grafana", "--json")
    names = ("ackproof-alerts.yaml", "ackproof-dashboard.json")
    assert json.loads(said)["files"] == [str(tmp_path / "new" / name) for name in names]
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(names)
    again = ackproof("init", tmp_path / "new", "--template", "grafana")
    assert again[0] == ExitCode.USAGE
    assert "exists" in again[2]
    code, said, _ = ackproof("init", tmp_path / "own", "--template", "superset", "--json")
    assert code == ExitCode.HOLDS
    assert str(tmp_path / "own" / "charts" / "lost.yaml") in json.loads(said)["files"]
    assert ackproof("init", "--template", "nothing")[0] == ExitCode.USAGE
    mixed = ackproof("init", "--template", "github", "--kafka", "3.9.1")
    assert "a template is no scenario" in mixed[2]


@pytest.mark.slow
@pytest.mark.spark
def test_a_folder_of_explore_is_loaded_with_runs_or_alone(ackproof, tmp_path, run_dirs):
    folder = explored(tmp_path / "explored-orders", (PAIRS[:2], []))
    code, message, _ = ackproof("warehouse", "load", folder, "--into", tmp_path / "w")
    assert code == ExitCode.HOLDS
    assert f": loaded, 2 of {len(PAIRS)} pairs passed for certain" in message
    both = (folder, run_dirs["one"])
    code, text, _ = ackproof("warehouse", "load", *both, "--into", tmp_path / "w", "--json")
    assert code == ExitCode.HOLDS
    loaded = json.loads(text)
    assert [one["result"] for one in loaded["runs"]] == ["loaded"]
    [one] = loaded["explorations"]
    assert (one["pairs"], one["certain"]) == (len(PAIRS), 2)
    code, text, _ = ackproof("warehouse", "info", tmp_path / "w", "--json")
    assert json.loads(text)["rows"]["explored_pairs"] == len(PAIRS)
