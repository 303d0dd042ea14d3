"""Turns Spark's failures, Java stack traces inside Python ones, into an `AnalysisError` each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from ackproof_spark.errors import AnalysisError, RunError

#: Spark's messages for a file that is not a complete Parquet file.
_DAMAGED = r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|FAILED_READ_FILE.NO_HINT"

#: Patterns of failures and their meaning for the user. The first match counts.
_MEANINGS = (
    (
        r"OutOfMemoryError|Java heap space|GC overhead limit|[Ee]xit(?:ed with)? code 137",
        "Spark ran out of memory; raise spark.executor.memory (if Spark runs in this process, set "
        "the variable SPARK_DRIVER_MEMORY, 1g by default), or use more and smaller partitions",
    ),
    (
        r"SparkContext was shut down|stopped SparkContext",
        "Spark ended during a job: it ran out of memory (raise SPARK_DRIVER_MEMORY or "
        "spark.executor.memory), lost its executors too often, or was stopped",
    ),
    (
        r"ExecutorLostFailure|Lost executor|executor .{0,80}(?:lost|exited|decommission)"
        r"|MetadataFetchFailed|FetchFailed",
        "Spark lost executors more often than it retries; see the logs of its workers",
    ),
    (
        r"FILE_NOT_EXIST|FileNotFoundException|Mkdirs failed|Permission denied",
        "an executor cannot see a file that the driver sees: the run directory must be on storage "
        "that the driver and all workers share, under the same address",
    ),
    (
        r"No module named 'ackproof",
        "an executor's Python lacks ackproof; submit the zip of ackproof_spark.spark.executor_zip "
        "with --py-files",
    ),
    (
        r"No module named",
        "an executor's Python lacks a module that this one has; install it on every worker",
    ),
    (
        r"PYTHON_VERSION_MISMATCH|different minor version",
        "the executors run another Python than this one; set PYSPARK_PYTHON to the same version",
    ),
    (
        r"StatusCode.UNAVAILABLE|failed to connect to all addresses",
        "no Spark Connect server answers; check that it runs, and the address",
    ),
    (
        r"SESSION_NOT_FOUND|SESSION_CLOSED|INVALID_HANDLE",
        "the Spark Connect server has ended this session, perhaps by a restart; run again",
    ),
    (
        r"NoSuchMethodError|AbstractMethodError|NoClassDefFoundError|IncompatibleClassChangeError"
        r"|serialVersionUID",
        "a jar was made for another Spark: spark-sql-kafka-0-10_2.13, pyspark and the cluster must "
        "have the same version, and Delta Lake or Iceberg be made for it",
    ),
    (
        r"Answer from Java side is empty|Error while sending or receiving|Connection refused"
        r"|All masters are unresponsive",
        "Spark does not answer: its driver ran out of memory (raise SPARK_DRIVER_MEMORY), "
        "was stopped, or its master is down; see their logs",
    ),
    (r"No space left on device", "a disk that Spark uses is full"),
)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn every exception of Spark into an `AnalysisError` that explains it."""
    try:
        yield
    except Exception as error:
        if not _is_sparks(error):
            raise
        if re.search(_DAMAGED, str(error)):
            raise RunError(f"a table is damaged or cut short ({cause(error)})") from error
        raise AnalysisError(f"{_meaning(error)} ({cause(error)})") from error


def cause(error: BaseException) -> str:
    """Return the first line of the root cause: Java's innermost cause, if any."""
    java: Any = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(error if java is None else java.toString())
    return text.strip().partition("\n")[0] or type(error).__name__


def _is_sparks(error: BaseException) -> bool:
    """Whether pyspark, Py4J or gRPC raised it; Py4J raises ConnectionError when its JVM is gone."""
    raised_by = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, ConnectionError) or bool(raised_by & {"pyspark", "py4j", "grpc"})


def _meaning(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, text):
            return meaning
    return "Spark could not finish"
