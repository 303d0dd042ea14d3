"""The session of a process, without Spark."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import SparkConf, java_gateway

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import connector, session


def test_a_second_call_waits_for_the_first_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    two_at_once = threading.Barrier(2, timeout=1)  # seconds for what must not happen
    started: list[object] = []

    def start(_: Path) -> object:
        started.append(object())
        with contextlib.suppress(threading.BrokenBarrierError):
            two_at_once.wait()
        return started[-1]

    monkeypatch.setattr(session, "_running", None)
    monkeypatch.setattr(session, "_scratch", None)
    monkeypatch.setattr(session, "_start", start)
    monkeypatch.setattr(session, "_alive", lambda: True)
    monkeypatch.setattr(session.scratch, "create", lambda: tmp_path)
    monkeypatch.setattr(session.atexit, "register", lambda _: None)
    monkeypatch.setattr(connector, "check_java", lambda: None)
    with ThreadPoolExecutor(max_workers=2) as threads:
        found = [call.result() for call in [threads.submit(session.session) for _ in range(2)]]
    assert len(started) == 1
    assert found == [started[0]] * 2


@pytest.mark.parametrize(("variable", "expected"), [(None, "1g"), ("3g", "3g")])
def test_sparks_own_variable_sets_the_memory_of_its_jvm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None, expected: str
) -> None:
    given: list[str | None] = []

    def launch(conf: SparkConf, **_: object) -> None:
        given.append(conf.get("spark.driver.memory"))
        raise OSError("no JVM for this test")

    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    if variable:
        monkeypatch.setenv("SPARK_DRIVER_MEMORY", variable)
    with pytest.raises(AnalysisError, match=f"{expected} of memory"):
        session._start(tmp_path)
    assert given == [expected]


def test_pyspark_writes_the_secret_of_its_jvm_into_the_sessions_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before, seen = tempfile.gettempdir(), []

    def launch(*_: object, **__: object) -> None:
        seen.append(tempfile.gettempdir())
        raise OSError("no JVM for this test")

    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    with pytest.raises(AnalysisError):
        session._start(tmp_path)
    assert seen == [str(tmp_path)]
    assert tempfile.gettempdir() == before


@pytest.mark.spark
def test_the_jvm_has_its_temporary_files_in_the_sessions_folder(spark) -> None:
    """Native libraries that a killed JVM leaves are removed with the folder."""
    folder = Path(spark._jvm.java.lang.System.getProperty("java.io.tmpdir"))
    assert folder.name.startswith("ackproof-spark-")
    assert (folder / "jvm.log").exists()
