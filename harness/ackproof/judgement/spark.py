"""The harness's door to Spark: one session, our errors, our signal handlers."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.errors import HistoryError, RunDirectoryError, SparkError
from ackproof.judgement import judge
from ackproof.runs.recovery import salvage
from ackproof.runs.verdict import Verdict
from ackproof_spark.errors import AnalysisError, ConnectorMissing, RunError
from ackproof_spark.reading import agreement, final_log
from ackproof_spark.reading.final_log import Isolation, PartitionEnd, Reader
from ackproof_spark.spark import client_settings, connector
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.session import is_connect, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackproof_spark.jepsen.check import Report


#: Up to so many offsets the final log is read a second time, by another client.
SECOND_READER_UP_TO = 1_000_000


def judge_run(run_dir: Path) -> Verdict:
    """Judge a stored run and write its `verdict.json`; see `judge.judge`.

    Raises RunDirectoryError if it is no run, or a damaged one; SparkError if Spark cannot be
    started, or fails.
    """
    salvage(run_dir)
    with _spark() as spark:
        return judge.judge(spark, run_dir)


def find_in_histories(paths: Sequence[Path], settings: Mapping[str, Any]) -> list[Report]:
    """Check history files; `settings` are `allowed.Configuration`'s where a file is silent.

    Raises HistoryError if a file is malformed, SparkError if Spark cannot be started or fails.
    """
    from ackproof_spark.jepsen.check import check
    from ackproof_spark.jepsen.configuration import Configuration
    from ackproof_spark.jepsen.reader import read

    try:
        cases = read(paths)
    except AnalysisError as error:
        raise HistoryError(str(error)) from None
    with _spark() as spark:
        return check(spark, cases, Configuration(**settings))


def take_final_log(
    run_dir: Path,
    *,
    bootstrap_servers: str,
    ends: list[PartitionEnd],
    settings: Mapping[str, str] | None = None,
    committed_only: bool = False,
) -> list[str]:
    """Read every partition between its ends into the run's final log; return who has read it.

    Spark's connector reads, or where it is missing ackproof's own reader. Up to
    `SECOND_READER_UP_TO` offsets the latter reads in any case, and what the two do not agree about
    becomes the run's table `disagreements`. `settings` are the clients', by librdkafka's names.
    `committed_only` leaves out what transactions did not commit.

    Raises SparkError if Spark cannot be started or the brokers cannot be read.
    """
    settings = settings or {}
    isolation = Isolation.READ_COMMITTED if committed_only else Isolation.READ_UNCOMMITTED
    with _spark() as spark:
        take = partial(
            final_log.take_final_log,
            spark,
            run_id=run_dir.name,
            bootstrap_servers=bootstrap_servers,
            ends=ends,
            run_dir=run_dir,
            isolation=isolation,
        )
        try:
            taken = take(options=client_settings.for_connector(settings))
        except ConnectorMissing:
            take(options=client_settings.for_librdkafka(settings), reader=Reader.PYTHON)
            return [Reader.PYTHON]
        if sum(end.end_offset - end.begin_offset for end in ends) > SECOND_READER_UP_TO:
            return [Reader.CONNECTOR]
        second = final_log.read_final_log(
            spark,
            run_id=run_dir.name,
            bootstrap_servers=bootstrap_servers,
            ends=taken.ends,
            options=client_settings.for_librdkafka(settings),
            reader=Reader.PYTHON,
            isolation=isolation,
        )
        agreement.store_disagreements(
            {Reader.CONNECTOR: taken.log, Reader.PYTHON: second}, run_dir=run_dir
        )
        return [Reader.CONNECTOR, Reader.PYTHON]


def preflight() -> None:
    """Have a Java, and Spark's Kafka connector if it can be had, before anything is booted.

    Raises SparkError if there is no Java that Spark runs on. With Spark Connect both are the
    server's.
    """
    if is_connect():
        return
    try:
        connector.check_java()
    except AnalysisError as error:
        raise SparkError(str(error)) from error
    with contextlib.suppress(AnalysisError):
        connector.resolve()  # without it, ackproof's own reader reads Kafka


@contextlib.contextmanager
def _spark() -> Iterator[SparkSession]:
    try:
        with _own_interrupts():
            spark = session()
        with explained():
            yield spark
    except RunError as error:
        raise RunDirectoryError(str(error)) from error
    except AnalysisError as error:
        raise SparkError(str(error)) from error


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep our Ctrl-C: SparkContext installs a handler of its own when it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ours)
