"""The Spark session of the harness: start and errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ackproof.errors import translated
from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import class_archive, connector
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.session import is_connect, load, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Yield the Spark session.

    Raises SparkError if Spark cannot be started or fails, RunDirectoryError if a run's tables are
    absent or damaged.
    """
    with translated():
        spark = session()
        with explained():
            yield spark


def preflight(tell: Callable[[str], None]) -> None:
    """Check for Java, and fetch Spark's Kafka connector if possible, before a cluster is booted.

    The first fetch also writes the archive of Spark's classes; `tell` gets the reason if it fails.
    With Spark Connect both belong to the server. Raises SparkError without a Java that Spark
    supports.
    """
    if is_connect():
        return
    with translated():
        connector.check_java()
    if connector.jars():
        return
    with contextlib.suppress(AnalysisError):
        if reason := connector.attempt():
            tell(f"{reason} {OWN_READER}")
        elif connector.jars():
            class_archive.ensure()


#: What a run does without the connector.
OWN_READER = "Until then ackproof's own reader alone reads the final log."


def start_early() -> threading.Thread:
    """Import Spark, and start it in a thread, which ends when Spark has started.

    A failure is not reported here: the next use of Spark raises it.
    """

    def start() -> None:
        with contextlib.suppress(AnalysisError):
            session()

    with contextlib.suppress(AnalysisError):
        load()

    thread = threading.Thread(target=start, name="spark-start")
    thread.start()
    return thread
