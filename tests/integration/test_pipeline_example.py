"""The example of Spark's declarative pipelines builds its tables from a warehouse of real runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.warehouse import rows
from ackproof_spark.spark.connector import minor, spark_home, spark_version
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import load
from ackproof_spark.warehouse.warehouse import Warehouse

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "tests" / "unit" / "spark_analysis" / "warehouse" / "data" / "runs.tar.xz"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(minor(spark_version()) < (4, 1), reason="needs Spark 4.1"),
]


def test_the_pipeline_builds_the_tables_of_a_dashboard_beside_the_users_own(spark, tmp_path):
    with tarfile.open(RUNS) as tar:
        tar.extractall(tmp_path / "runs", filter="data")
    folders = sorted(path.parent for path in (tmp_path / "runs").glob("*/verdict.json"))
    runs = rows.read_runs(folders)
    load(Warehouse.create(spark, str(tmp_path / "warehouse"), Format.PARQUET), runs)

    project = Path(shutil.copytree(ROOT / "examples" / "pipeline", tmp_path / "project"))
    spec = project / "spark-pipeline.yml"
    text = spec.read_text().replace("/path/to/warehouse", str(tmp_path / "warehouse"))
    spec.write_text(text.replace("/tmp/kafka-durability", str(tmp_path / "storage")))
    done = subprocess.run(
        [str(spark_home() / "bin" / "spark-pipelines"), "run"],
        cwd=project,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    built = project / "spark-warehouse"
    by_day = pq.read_table(built / "loss_by_day").to_pylist()
    assert sum(row["lost"] for row in by_day) == sum(run.run["lost"] for run in runs)
    assert {row["configuration"] for row in by_day} == {run.run["configuration"] for run in runs}
    teams = {
        row["team"]: row["runs_with_loss"]
        for row in pq.read_table(built / "losses_by_team").to_pylist()
    }
    assert teams["payments"] > 0 == teams["orders"]
