"""Spark's failures become one message each, with its meaning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException

from ackproof_spark.errors import AnalysisError, RunError
from ackproof_spark.spark.errors import explained

_OUT_OF_MEMORY = """
import json
from pyspark import SparkContext
from ackproof_spark.errors import AnalysisError, RunError
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.session import choose, session, stop

choose("local[1]")
message = ""
try:
    with explained():
        # An array of 2.4 GB, on a heap of one.
        session().range(1).selectExpr("size(sequence(0L, id + 300000000L)) as n").collect()
except AnalysisError as error:
    message = str(error)
# Spark ends a JVM that ran out of memory after a while.
SparkContext._gateway.proc.wait(300)
again = session().range(3).count()
stop()
print(json.dumps({"message": message, "again": again}))
"""


_THREAD_OUT_OF_MEMORY = """
from pyspark import SparkContext
from ackproof_spark.spark.session import choose, session

choose("local[1]")
session().range(1).count()
java = SparkContext._active_spark_context._jvm.java.lang
handler = java.Thread.getDefaultUncaughtExceptionHandler()
try:
    handler.uncaughtException(java.Thread.currentThread(), java.RuntimeException())
    java.Thread.sleep(0)  # it answers still
    handler.uncaughtException(java.Thread.currentThread(), java.OutOfMemoryError())
finally:
    print(SparkContext._gateway.proc.wait(300))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_ends_whose_thread_ran_out_of_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _THREAD_OUT_OF_MEMORY],
        capture_output=True,
        text=True,
        check=False,
    )
    # SparkExitCode.OOM; another uncaught exception does not end it.
    assert done.stdout.strip() == "52"
    assert "Py4JNetworkError" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_out_of_memory_is_reported_and_the_next_session_works() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OUT_OF_MEMORY],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    result = json.loads(done.stdout)
    assert "ran out of memory" in result["message"]
    assert result["again"] == 3


@pytest.mark.parametrize(
    ("message", "means"),
    [
        ("Job aborted: ExecutorLostFailure (executor 1 exited)", "lost executors"),
        ("java.lang.OutOfMemoryError: Java heap space", "out of memory"),
        ("Container killed, exit code 137", "out of memory"),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] File does not exist",
            "storage that the driver and all",
        ),
        ("ModuleNotFoundError: No module named 'ackproof'", "--py-files"),
        ("ModuleNotFoundError: No module named 'numpy'", "lacks the module numpy, .*every worker"),
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "hadoop:hadoop-aws"),
        ('No FileSystem for scheme "abfss"', "hadoop:hadoop-azure"),
        ('No FileSystem for scheme "nowhere"', "the jar of its vendor"),
        ("UnknownStoreException: s3a://no/: no such bucket", "there is no such bucket"),
        ("AccessDeniedException: s3a://lake/run", "refuses the keys"),
        ("S3Exception: FORBIDDEN (Service: S3, Status Code: 403)", "refuses the keys"),
        # Py4J's message if the JVM ran out of memory before it could report it.
        ("ConnectionRefusedError: [Errno 111] Connection refused", "ran out of memory"),
        (
            "[FAILED_READ_FILE.NO_HINT] EOFException: End of File Exception between local host is: "
            '"a/127.0.0.1"; destination host is: "localhost":8020; : java.io.EOFException',
            "file system of the address does not answer",
        ),
        ("who knows", "could not finish"),
    ],
)
def test_each_failure_has_its_meaning(message: str, means: str) -> None:
    with pytest.raises(AnalysisError, match=means) as caught, explained():
        raise PySparkException(message)
    assert message in str(caught.value)


@dataclass(kw_only=True)
class Java:
    text: str
    cause: Java | None = None

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self.text

    def getCause(self) -> Java | None:  # noqa: N802
        return self.cause


@pytest.mark.parametrize(
    ("middle", "means"),
    [
        ("java.net.ConnectException: Call From a/127.0.0.1 to localhost:8020 failed", "not answer"),
        ("java.io.IOException: not so much", "a table is damaged"),
    ],
)
def test_a_file_that_breaks_off_is_whole_if_its_file_system_went_away(
    middle: str, means: str
) -> None:
    failure = PySparkException("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file")
    root = Java(text="java.io.EOFException")
    failure.java_exception = Java(text="Job aborted", cause=Java(text=middle, cause=root))
    with pytest.raises((AnalysisError, RunError), match=means) as caught, explained():
        raise failure
    assert "(java.io.EOFException)" in str(caught.value)


def test_other_exceptions_pass_through() -> None:
    with pytest.raises(ZeroDivisionError), explained():
        raise ZeroDivisionError
