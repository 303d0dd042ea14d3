"""The example queries of docs/dashboards in a plain Spark without ackproof, and over JDBC."""

from __future__ import annotations

import csv
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest
from scipy.stats import binomtest

from ackproof.errors import SparkError
from ackproof.report import warehouse_rows as rows
from ackproof.waiting import wait_for
from ackproof_spark.spark.connector import Package, jars
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.spark_analysis.warehouse.conftest import FORMATS, verdict_of

pytestmark = pytest.mark.spark

QUERIES = sorted((Path(__file__).parents[4] / "docs" / "dashboards").glob("*.sql"))
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

views, settings, *queries = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in json.loads(settings).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for statement in open(views).read().split(";\\n"):
    if statement.strip():
        spark.sql(statement)
answers = {}
for query in queries:
    asked = spark.sql(open(query).read().strip().removesuffix(";"))
    answers[query.rpartition("/")[2]] = [row.asDict() for row in asked.collect()]
print(json.dumps(answers, default=str))
"""


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
    return Path(warehouse.storage.address.removeprefix("file:")) / "views.sql"


def environment() -> dict[str, str]:
    gone = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT")
    return {key: value for key, value in os.environ.items() if key not in gone} | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(SPARK_HOME),
    }


def check(answers: dict[str, list[dict[str, Any]]], run_dirs: dict[str, Path]) -> None:
    """Compare the answers with the verdicts; values may be text."""
    verdicts = {name: verdict_of(directory) for name, directory in run_dirs.items()}
    one, two = verdicts["one"], verdicts["two"]
    lost = one.observed["lost"] + two.observed["lost"]
    acked = one.observed["acked"] + two.observed["acked"]
    assert one.observed["lost"] > 0 < two.observed["lost"]

    lossy, clean = answers["loss-rate.sql"]
    assert (lossy["configuration_name"], int(lossy["runs"])) == ("acks=1", 2)
    assert (int(lossy["lost"]), int(lossy["acked"])) == (lost, acked)
    assert float(lossy["lost_percent"]) == pytest.approx(100 * lost / acked, abs=6e-4)
    expected = binomtest(2, 2).proportion_ci(0.95, method="wilson")
    assert float(lossy["runs_with_loss_low_percent"]) == pytest.approx(100 * expected.low, abs=0.06)
    assert float(lossy["runs_with_loss_high_percent"]) == 100
    low, high = interval([(v.observed["lost"], v.observed["acked"]) for v in (one, two)])
    assert float(lossy["lost_low_percent"]) == pytest.approx(100 * low, abs=6e-4)
    assert float(lossy["lost_high_percent"]) == pytest.approx(100 * high, abs=6e-4)
    assert (clean["configuration_name"], int(clean["lost"])) == ("acks=all", 0)
    expected = binomtest(0, 1).proportion_ci(0.95, method="wilson")
    found = float(clean["runs_with_loss_high_percent"])
    assert found == pytest.approx(100 * expected.high, abs=0.06)
    assert clean["lost_high_percent"] in (None, "NULL")

    recovered = {
        (row["fault"], row["configuration_name"]): row for row in answers["recovery-time.sql"]
    }
    assert len(recovered) == 4
    kill = recovered["kill", "acks=1"]
    # Verified at 7.5 s, healed at 17 s, recovered at 21.5 s.
    assert (int(kill["faults"]), int(kill["never_recovered"])) == (2, 0)
    assert (float(kill["held_s_median"]), float(kill["recovery_s_longest"])) == (9.5, 4.5)

    assert [int(row["duplicated"]) for row in answers["duplicates.sql"]] == [0, 0]
    [why] = answers["why-lost.sql"]
    assert (why["case"], int(why["runs"]), int(why["lost"])) == ("B2", 2, lost)
    assert float(why["percent_of_losses"]) == 100
    assert "leader 1 was killed" in why["example"]

    available = {row["configuration_name"]: row for row in answers["cost.sql"]}
    assert float(available["acks=1"]["availability_percent"]) == round(100 * (1 - 9.25 / 24), 2)
    assert [
        (row["commit"], row["configuration_name"], int(row["lost"])) for row in answers["trend.sql"]
    ] == [
        ("commit-one", "acks=1", one.observed["lost"]),
        ("commit-two", "acks=1", two.observed["lost"]),
        ("commit-all", "acks=all", 0),
    ]
    worst = {row["run_id"]: row for row in answers["worst-second.sql"]}
    assert worst.keys() == {"one", "two", "all"}
    assert "kill" in worst["one"]["faults_in_force"]


def interval(runs: list[tuple[int, int]]) -> tuple[float, float]:
    """Return Wilson's interval at the effective number of records, as the view defines it."""
    lost, acked = (sum(column) for column in zip(*runs, strict=True))
    p, n = lost / acked, len(runs)
    spread = n / (n - 1) * sum((x - p * size) ** 2 for x, size in runs) / acked**2
    effective = max(n, min(acked, p * (1 - p) / spread)) if spread else acked
    z = 1.959963984540054
    middle = (p + z * z / (2 * effective)) / (1 + z * z / effective)
    half = z * (p * (1 - p) / effective + (z / (2 * effective)) ** 2) ** 0.5
    half /= 1 + z * z / effective
    return max(0.0, middle - half), min(1.0, middle + half)


def test_the_example_queries_are_answered(loaded, run_dirs):
    answers = {query.name: loaded.query(query.read_text().strip(";\n")) for query in QUERIES}
    check(answers, run_dirs)


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
            *(json.dumps(settings(loaded, tmp_path)), *map(str, QUERIES)),
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
    """Start Spark's Thrift Server as in docs/how-to/warehouse.md; yield its JDBC address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
                *("--hiveconf", f"hive.server2.thrift.port={port}"),
                *("--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"),
            ],
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            env=environment(),
            cwd=scratch,
        )
    try:

        def answers() -> bool:
            assert server.poll() is None, log.read_text()[-3000:]
            with closing(socket.socket()) as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_for(
            answers,
            until=bool,
            within_s=300,
            failure=lambda _: SparkError(log.read_text()[-3000:]),
        )
        yield f"jdbc:hive2://127.0.0.1:{port}/default"
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
    return done.stdout


@pytest.mark.parametrize(
    "loaded", [FORMATS[1 if rows.has_jars(Format.DELTA) else 0]], indirect=True
)
def test_a_jdbc_client_gets_the_same_answers_from_the_thrift_server(loaded, run_dirs, tmp_path):
    # One file, so that beeline's JVM starts once; the first line of an answer names its columns.
    asked = tmp_path / "queries.sql"
    asked.write_text(
        script(loaded).read_text()
        + "".join(f"SELECT '{q.name}' AS query;\n{q.read_text()}\n" for q in QUERIES)
    )
    with thrift_server(loaded, tmp_path) as address:
        said = beeline(address, asked, tmp_path)
    answers = {}
    lines = [line for line in said.splitlines() if line.strip()]
    starts = [place for place, line in enumerate(lines) if line == "query"]
    for begin, end in zip(starts, [*starts[1:], None], strict=True):
        answer = io.StringIO("\n".join(lines[begin + 2 : end]))
        answers[lines[begin + 1]] = list(csv.DictReader(answer, delimiter="\t"))
    assert answers.keys() == {query.name for query in QUERIES}, said[-3000:]
    check(answers, run_dirs)
