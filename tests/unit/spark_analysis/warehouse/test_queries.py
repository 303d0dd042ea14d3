"""The example queries in a plain Spark without ackproof, and over JDBC; Grafana's queries."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest
from ruamel.yaml import YAML

from ackproof.errors import SparkError
from ackproof.waiting import wait_for
from ackproof.warehouse import opening
from ackproof_spark.spark.connector import Package, jars
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.schemas import TABLES
from ackproof_spark.warehouse.sql_files import queries, view
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.spark_analysis.warehouse.conftest import COMMIT, CONFIGURATIONS, FORMATS, verdict_of

pytestmark = pytest.mark.spark

QUERIES = queries()
SPARK_HOME = Path(pyspark.__file__).parent

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}

#: Run by a Python that sees pyspark and py4j, and nothing else.
PLAIN = """
import json, sys
try:
    import ackproof
except ModuleNotFoundError:
    pass
else:
    sys.exit(f"ackproof is here: {ackproof.__path__}")
from pyspark.sql import SparkSession

views, settings, queries = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in json.loads(settings).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for statement in open(views).read().split(";\\n"):
    if statement.strip():
        spark.sql(statement)
answers = {}
for name, query in json.loads(queries).items():
    asked = spark.sql(query.strip().removesuffix(";"))
    answers[name] = [row.asDict() for row in asked.collect()]
print(json.dumps(answers, default=str))
"""


def wilson(successes: int, trials: int) -> Any:
    """Return Wilson's interval of 95 %, by SciPy."""
    from scipy.stats import binomtest  # here, because its import takes a second in every process

    return binomtest(successes, trials).proportion_ci(0.95, method="wilson")


def settings(warehouse: Warehouse, scratch: Path) -> dict[str, str]:
    """Return the settings with which a plain Spark reads a warehouse and leaves no files."""
    needed = {
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dderby.system.home={scratch}",
    }
    if warehouse.format is Format.DELTA:
        needed |= DELTA
    if warehouse.format is not Format.PARQUET:
        fetched = jars(Package(warehouse.format.value))
        needed["spark.driver.extraClassPath"] = ":".join(map(str, fetched))
    return needed


def script(warehouse: Warehouse) -> Path:
    return Path(warehouse.storage.address.removeprefix("file://")) / "views.sql"


def environment() -> dict[str, str]:
    gone = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT")
    return {key: value for key, value in os.environ.items() if key not in gone} | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(SPARK_HOME),
    }


def check(answers: dict[str, list[dict[str, Any]]], run_dirs: dict[str, Path]) -> None:
    """Compare the answers with the verdicts; values may be text."""
    verdicts = {name: verdict_of(directory) for name, directory in run_dirs.items()}
    rates = {
        (row["scenario"], row["configuration"], row["kafka_version"]): row
        for row in answers["loss-rate"]
    }
    assert rates.keys() == set(CONFIGURATIONS.values())
    for name, configuration in CONFIGURATIONS.items():
        row, observed = rates[configuration], verdicts[name].observed
        lost, acked = observed["lost"], observed["acked"]
        assert (int(row["runs"]), int(row["lost"]), int(row["acked"])) == (1, lost, acked)
        expected = wilson(int(lost > 0), 1)
        found = float(row["runs_with_loss_high_percent"])
        assert found == pytest.approx(100 * expected.high, abs=0.06)

    recovered = {
        (row["fault"], row["kafka_version"]): row
        for row in answers["recovery-time"]
        if row["configuration"] == "acks=1"
    }
    [kill] = [fault for fault in verdicts["one"].faults if fault.fault == "kill"]
    assert kill.recovered_at is not None
    assert kill.healed_at is not None
    recovery = (kill.recovered_at - kill.healed_at).total_seconds()
    found = float(recovered["kill", "4.3.1"]["recovery_s_longest"])
    assert found == pytest.approx(recovery, abs=1e-3)

    assert sum(int(row["lost"]) for row in answers["why-lost"]) == sum(
        verdict.observed["lost"] for verdict in verdicts.values()
    )
    available = {
        (row["scenario"], row["configuration"], row["kafka_version"]): row
        for row in answers["cost"]
    }
    metrics = verdicts["all"].metrics
    share = 1 - metrics.unavailability_s / metrics.duration_s
    found = float(available[CONFIGURATIONS["all"]]["availability_percent"])
    assert found == pytest.approx(100 * share, abs=6e-3)

    # Runs without a commit have a row for their day.
    assert sum(int(row["runs"]) for row in answers["trend"]) == len(verdicts)
    versions = {row["version"] for row in answers["trend"]}
    assert versions == {COMMIT} | {
        f"{verdict.started_at:%Y-%m-%d}" for name, verdict in verdicts.items() if name != "file-one"
    }

    worst = {row["run_id"]: row for row in answers["worst-second"]}
    assert worst.keys() == {verdict.run_id for verdict in verdicts.values()}
    for verdict in verdicts.values():
        # Each run had seconds without acks, but its first one, in which clients began, is none.
        row = worst[verdict.run_id]
        assert float(row["acking_partitions_percent"]) < 100
    for name in ("one", "two", "lingers"):
        assert "F2 kill" in worst[verdicts[name].run_id]["faults_in_force"]


def test_loss_rates_count_runs_and_the_records_of_losing_runs(spark):
    runs = [("holds", 12, 1000), ("inconclusive", 40, 1100), ("holds", 0, 900)]
    runs.append(("inconclusive", 0, 700))
    rows = [("s", "c", "4.4.0", word, acked, lost, acked) for word, lost, acked in runs]
    columns = "scenario string, configuration string, kafka_version string, verdict string, "
    frame = spark.createDataFrame(rows, columns + "sent bigint, lost bigint, acked bigint")
    frame.createOrReplaceTempView("runs")
    [rates] = spark.sql(view("loss_rates")).collect()
    expected = wilson(2, 3)
    interval = (rates["runs_with_loss_share_low"], rates["runs_with_loss_share_high"])
    assert interval == pytest.approx((expected.low, expected.high))
    assert (rates["lost"], rates["lost_median"]) == (52, 26)
    spark.sql("SELECT * FROM runs WHERE lost = 0").createOrReplaceTempView("runs")
    [none] = spark.sql(view("loss_rates")).collect()
    assert none["runs_with_loss_share_low"] == 0
    assert (rates["lost_least"], rates["lost_most"]) == (12, 40)


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_the_example_queries_are_answered(loaded, run_dirs):
    answers = loaded.queries({name: sql.strip(";\n") for name, sql in queries("").items()})
    check(answers, run_dirs)


@pytest.mark.slow
def test_the_panels_and_the_alert_of_grafana_ask_for_columns_that_exist(loaded, run_dirs):
    """Their SQL is that of Trino; it is plain enough for Spark, and for DuckDB."""
    template = Path(__file__).parents[4] / "ci" / "templates" / "grafana"
    dashboard = json.loads((template / "ackproof-dashboard.json").read_text())
    panels = {
        panel["title"]: target["rawSQL"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        if "rawSQL" in target
    }
    variables = dashboard["templating"]["list"]
    panels |= {one["name"]: one["query"] for one in variables if one["type"] == "query"}
    groups = YAML(typ="safe").load((template / "ackproof-alerts.yaml").read_text())["groups"]
    alert = groups[0]["rules"][0]["data"][0]["model"]["rawSQL"]
    assert len(panels) >= 10
    tables = {name: loaded.tables.sql_name(name) for name in TABLES}
    answers = {}
    for title, sql in (panels | {"alert": alert}).items():
        asked = re.sub(
            r"\$(?:\{tables\}|ACKPROOF_TABLES)\.(\w+)", lambda match: tables[match[1]], sql
        )
        asked = asked.replace("$__timeFilter(started_at)", "started_at IS NOT NULL")
        asked = re.sub(r"(\w+) IN \(\$\{\1:sqlstring\}\)", r"\1 IS NOT NULL", asked)
        assert "$" not in asked, title
        answers[title] = [row.asDict() for row in loaded.spark.sql(asked).collect()]
    verdicts = [verdict_of(directory) for directory in run_dirs.values()]
    lost = sum(verdict.observed["lost"] for verdict in verdicts)
    assert answers["Lost acked records"] == [{"lost": lost}]
    losses = answers["Runs with losses or against expectations"]
    assert len(losses) == sum(
        verdict.observed["lost"] > 0 or verdict.verdict == "violated" for verdict in verdicts
    )
    assert all(row["report"].startswith("file:///") for row in losses)
    inputs = {one["name"] for one in dashboard["__inputs"]}
    used = set(re.findall(r"\$\{((?:DS|VAR)_\w+)\}", json.dumps(dashboard)))
    assert used == inputs


@pytest.mark.slow
def test_a_plain_spark_answers_the_example_queries(loaded, run_dirs, tmp_path):
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in (pyspark, py4j):
        folder = Path(package.__file__).parent
        (packages / folder.name).symlink_to(folder)
    plain = tmp_path / "plain.py"
    plain.write_text(PLAIN)
    done = subprocess.run(
        [
            *(sys.executable, "-S", str(plain), str(script(loaded))),
            *(json.dumps(settings(loaded, tmp_path)), json.dumps(QUERIES)),
        ],
        env=environment() | {"PYTHONPATH": str(packages)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(json.loads(done.stdout), run_dirs)


@contextmanager
def thrift_server(warehouse: Warehouse, scratch: Path) -> Iterator[str]:
    """Start Spark's Thrift Server as in docs/how-to/warehouse.md; yield its JDBC address.

    The server chooses its port and logs it, because it starts so slowly that another process could
    take a port that was free before.
    """
    conf = [
        part
        for key, value in settings(warehouse, scratch).items()
        for part in ("--conf", f"{key}={value}")
    ]
    log = scratch / "server.log"
    with log.open("w") as said:
        server = subprocess.Popen(
            [
                *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"),
                *("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"),
                *(*conf, "--conf", "spark.ui.enabled=false", "spark-internal"),
                *("--hiveconf", "hive.server2.thrift.port=0"),
                *("--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"),
            ],
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            env=environment(),
            cwd=scratch,
        )
    try:

        def port() -> str:
            assert server.poll() is None, log.read_text()[-3000:]
            said = re.search(r"ThriftBinaryCLIService on port (\d+)", log.read_text())
            return said[1] if said else ""

        chosen = wait_for(
            port,
            until=bool,
            within_s=300,
            failure=lambda _: SparkError(log.read_text()[-3000:]),
        )
        yield f"jdbc:hive2://127.0.0.1:{chosen}/default"
    finally:
        server.terminate()
        server.wait()


def beeline(address: str, file: Path, scratch: Path) -> str:
    done = subprocess.run(
        [
            *(str(SPARK_HOME / "bin" / "beeline"), "-u", address, "--silent=true"),
            # As csv2, beeline quotes a value with a comma by NUL characters.
            *("--outputformat=tsv2", "-f", str(file)),
        ],
        env=environment(),
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Of a query above some seconds, beeline prints the progress that Spark does not report.
    return re.sub(r"^(null\s*)+", "", done.stdout, flags=re.MULTILINE)


@pytest.mark.slow  # in Parquet, too, if the jars of Delta Lake are absent
@pytest.mark.parametrize(
    "loaded", [FORMATS[1 if opening.has_jars(Format.DELTA) else 0]], indirect=True
)
def test_a_jdbc_client_gets_the_same_answers_from_the_thrift_server(loaded, run_dirs, tmp_path):
    # One file, so that beeline's JVM starts once; the first line of an answer names its columns.
    asked = tmp_path / "queries.sql"
    asked.write_text(
        script(loaded).read_text()
        + "".join(f"SELECT '{name}' AS query;\n{sql}\n" for name, sql in QUERIES.items())
    )
    with thrift_server(loaded, tmp_path) as address:
        said = beeline(address, asked, tmp_path)
    answers = {}
    lines = [line for line in said.splitlines() if line.strip()]
    starts = [place for place, line in enumerate(lines) if line == "query"]
    for begin, end in zip(starts, [*starts[1:], None], strict=True):
        answer = io.StringIO("\n".join(lines[begin + 2 : end]))
        answers[lines[begin + 1]] = list(csv.DictReader(answer, delimiter="\t"))
    assert answers.keys() == QUERIES.keys(), said[-3000:]
    check(answers, run_dirs)
