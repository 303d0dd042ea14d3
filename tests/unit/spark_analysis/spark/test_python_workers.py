"""How Python workers start."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from ackproof_spark.spark import python_workers, session


def context() -> SimpleNamespace:
    return SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="python3"))


def test_workers_import_nothing_from_zips(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = context()
    python_workers.start_quickly(spark)
    monkeypatch.setenv("PYTHONPATH", "/spark/pyspark.zip:/own code:/spark/py4j-src.zip:/zipped")
    command = [spark.sparkContext.pythonExec, "-c", "import sys; print(sys.path, sys.executable)"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "'/own code', '/zipped'" in told
    assert "pyspark.zip" not in told
    assert "py4j-src.zip" not in told
    assert sys.executable in told


def test_workers_of_a_cluster_start_as_spark_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_master", "spark://example:7077")
    spark = context()
    python_workers.start_quickly(spark)
    assert spark.sparkContext.pythonExec == "python3"
