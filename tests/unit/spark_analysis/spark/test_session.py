"""The session of a process, without Spark."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j import protocol
from py4j.clientserver import ClientServerConnection
from pyspark import SparkConf, java_gateway
from pyspark.sql import functions

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


def test_a_lasting_session_has_javas_optimising_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick: list[bool] = []

    def launch(conf: SparkConf, **_: object) -> None:
        quick.append("TieredStopAtLevel=1" in (conf.get("spark.driver.extraJavaOptions") or ""))
        raise OSError("no JVM for this test")

    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(session, "stop", lambda: pytest.fail("a session of others was stopped"))
    monkeypatch.setattr(session, "_lasting", False)

    def lasting(running: object) -> None:
        monkeypatch.setattr(session, "_running", running)
        session.lasting()
        monkeypatch.setattr(session, "_running", None)

    for prepare in (lambda: None, lambda: lasting(object()), lambda: lasting(None)):
        prepare()
        with pytest.raises(AnalysisError):
            session._start(tmp_path)
    assert quick == [True, True, False]


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


def test_a_killed_session_has_no_jvm_and_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_killed", threading.Event())
    with subprocess.Popen(["sleep", "1000"]) as jvm:
        monkeypatch.setattr(session, "_gateway", SimpleNamespace(proc=jvm))
        session.kill()
        assert jvm.wait() == -signal.SIGKILL
        monkeypatch.setattr(session, "_gateway", None)
        monkeypatch.setattr(session, "_running", None)
        with pytest.raises(AnalysisError, match="interrupted"):
            session.session()


def test_a_jvm_that_comes_up_after_an_interrupt_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed, ended = threading.Event(), []

    def launch(*_: object, **__: object) -> SimpleNamespace:
        session.kill()
        return SimpleNamespace()

    monkeypatch.setattr(session, "_killed", killed)
    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(session, "_stop_jvm", lambda: ended.append(session._gateway))
    monkeypatch.setattr(session, "_gateway", None)
    with pytest.raises(AnalysisError, match="interrupted"):
        session._start(tmp_path)
    assert ended == [SimpleNamespace()]


@pytest.mark.spark
def test_yarn_without_its_configuration_is_refused_at_once(monkeypatch, chosen) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AnalysisError, match="set HADOOP_CONF_DIR"):
        chosen("yarn")


def test_yarn_and_kubernetes_are_handed_to_spark(monkeypatch, chosen, tmp_path: Path) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for master in ("yarn", "k8s://https://127.0.0.1:1"):
        assert chosen(master) == master


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Start a session on a master up to the JVM; return the master that it is given."""

    def launch(conf: SparkConf, **_: object) -> None:
        raise RuntimeError(conf.get("spark.master"))

    def start(master: str) -> str:
        monkeypatch.setattr(session, "_running", None)
        monkeypatch.setattr(session, "_master", session.LOCAL)
        session.choose(master)
        with pytest.raises(AnalysisError) as refused:
            session.session()
        if isinstance(refused.value.__cause__, RuntimeError):
            return str(refused.value.__cause__)
        raise refused.value

    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(session, "stop", lambda: None)
    return start


@pytest.mark.spark
def test_ctrl_c_in_the_main_thread_is_no_error_of_spark(spark) -> None:
    """SparkContext's own handler loses the KeyboardInterrupt in an error of Py4J."""
    handler = signal.getsignal(signal.SIGINT)
    assert not getattr(handler, "__module__", "").startswith("pyspark")


@pytest.mark.spark
def test_classes_that_each_column_uses_are_looked_up_once(spark, monkeypatch) -> None:
    lookups: list[str] = []

    def send(connection: ClientServerConnection, command: str) -> str:
        if command.startswith(protocol.REFLECTION_COMMAND_NAME):
            lookups.append(command)
        return sent(connection, command)

    sent = ClientServerConnection.send_command
    monkeypatch.setattr(ClientServerConnection, "send_command", send)
    frame = spark.range(1)
    for _ in range(2):
        lookups.clear()
        found = frame.select(functions.coalesce("id", functions.lit(7)).alias("id"))
    assert lookups == []
    assert found.first().id == 0


def test_workers_import_nothing_from_zips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "/spark/pyspark.zip:/own code:/spark/py4j-src.zip:/zipped")
    python = session._quick_python(tmp_path)
    command = [python, "-c", "import sys; print(sys.path, sys.executable)"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "'/own code', '/zipped'" in told
    assert "pyspark.zip" not in told
    assert "py4j-src.zip" not in told
    assert sys.executable in told


@pytest.mark.spark
def test_the_workers_of_this_machine_have_no_zip_in_their_path(spark) -> None:
    def where(batches):
        import pyarrow as pa
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(where, "file string").collect()
    assert Path(row.file).is_file()
