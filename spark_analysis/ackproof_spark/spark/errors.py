"""Turns Spark's failures, Java stack traces inside Python ones, into an `AnalysisError` each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from ackproof_spark.errors import AnalysisError, RunError

#: Spark's messages for a file that is not a complete Parquet file.
_DAMAGED = r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|FAILED_READ_FILE.NO_HINT"

#: Messages of a file system that cannot be reached: Hadoop's RPC and HDFS, the client of S3.
_AWAY = (
    r"Call From \S+ to \S+ failed|destination host is:|BlockMissingException"
    r"|Unable to execute HTTP request"
)

#: Patterns of failures and their meaning for the user. The first match counts.
_MEANINGS = (
    (
        _AWAY,
        "the file system of the address does not answer, or not with all blocks: check that it "
        "runs, and the address; then run again",
    ),
    (
        r"S3AFileSystem not found|scheme \"s3[an]?\"",
        "Spark lacks the jar of s3a://, org.apache.hadoop:hadoop-aws: fetch it with `python -m "
        "ackproof_spark.spark.connector s3`, or on a cluster set it in spark.jars.packages",
    ),
    (
        r"AzureBlobFileSystem not found|scheme \"abfss?\"",
        "Spark lacks the jar of abfs://: set org.apache.hadoop:hadoop-azure in spark.jars.packages",
    ),
    (
        r"scheme \"gs\"",
        "Spark lacks the jar of gs://: set com.google.cloud.bigdataoss:gcs-connector in "
        "spark.jars.packages",
    ),
    (
        r"No FileSystem for scheme|FileSystem not found",
        "Spark has no file system of this scheme: set the jar of its vendor in spark.jars.packages",
    ),
    (
        r"UnknownStoreException|NoSuchBucket|[Bb]ucket does not exist",
        "there is no such bucket: check its name, and the endpoint (spark.hadoop.fs.s3a.endpoint)",
    ),
    (
        r"AccessDenied|NoAuthWithAWS|InvalidAccessKeyId|SignatureDoesNotMatch"
        r"|[Ss]tatus [Cc]ode: 403",
        "it refuses the keys, or gives them no right to this: set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or spark.hadoop.fs.s3a.access.key and secret.key",
    ),
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
        r"No module named '?([\w.]+)",
        "an executor's Python lacks the module {}, which this one has; install it on every worker",
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
        failure = "\n".join([f"{type(error).__name__}: {error}", *_java_causes(error)])
        # A file that breaks off may be one of a file system that went away.
        if re.search(_DAMAGED, failure) and not re.search(_AWAY, failure):
            raise RunError(f"a table is damaged or cut short ({cause(error)})") from error
        what = meaning(failure) or "Spark could not finish"
        raise AnalysisError(f"{what} ({cause(error)})") from error


@contextlib.contextmanager
def stream_explained(what: str) -> Iterator[None]:
    """Turn the failure of a streaming query into an `AnalysisError` with its innermost cause."""
    from pyspark.errors import StreamingQueryException

    with explained():
        try:
            yield
        except StreamingQueryException as error:
            # A stack trace of Python within one of Java: the innermost cause is last.
            text, _, _ = str(error).partition("=== Streaming Query ===")
            causes = re.findall(r"^[\w.]*?(\w*(?:Error|Exception)(?:: .+)?)$", text, re.MULTILINE)
            raise AnalysisError(f"{what} failed: {(causes or [text])[-1].strip()}") from error


def cause(error: BaseException) -> str:
    """Return the first line of the root cause: Java's innermost cause, if any."""
    *_, text = [str(error), *_java_causes(error)]
    return text.strip().partition("\n")[0] or type(error).__name__


def _java_causes(error: BaseException) -> Iterator[str]:
    """Yield what Java's exception says and each of its causes, the innermost last.

    If the JVM has ended meanwhile, these are fewer.
    """
    java: Any = getattr(error, "java_exception", None)
    while java is not None:
        try:
            text, java = java.toString(), java.getCause()
        except Exception as gone:
            if not _is_sparks(gone):
                raise
            return
        yield text


def _is_sparks(error: BaseException) -> bool:
    """Whether pyspark, Py4J or gRPC raised it; Py4J raises ConnectionError when its JVM is gone."""
    raised_by = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, ConnectionError) or bool(raised_by & {"pyspark", "py4j", "grpc"})


def meaning(failure: str) -> str:
    """Return what a failure means for the user, and what to do; '' if that is not known."""
    for pattern, text in _MEANINGS:
        if found := re.search(pattern, failure):
            return text.format(*found.groups())
    return ""
