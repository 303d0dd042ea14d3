"""The harness's door to Spark: one session, our errors, our signal handlers."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.harness import judge
from ackproof.harness.errors import SparkError
from ackproof.harness.salvage import salvage
from ackproof.harness.verdict import Verdict
from ackproof.spark_analysis import connector
from ackproof.spark_analysis.errors import AnalysisError
from ackproof.spark_analysis.final_log import PartitionEnd, read_final_log, write_final_log
from ackproof.spark_analysis.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def judge_run(run_dir: Path) -> Verdict:
    """Judge a stored run and write its `verdict.json`; see `judge.judge`.

    Raises SparkError if Spark cannot be started or cannot read the run.
    """
    salvage(run_dir)
    with _spark() as spark:
        return judge.judge(spark, run_dir)


def take_final_log(
    run_dir: Path, *, bootstrap_servers: str, ends: list[PartitionEnd]
) -> tuple[PartitionEnd, ...]:
    """Read every partition between its ends into the run's final log; return the ends as read.

    Raises SparkError if Spark cannot be started or the brokers cannot be read.
    """
    with _spark() as spark:
        log = read_final_log(
            spark,
            run_id=run_dir.name,
            bootstrap_servers=bootstrap_servers,
            ends=ends,
            options={},
        )
        return write_final_log(log, run_id=run_dir.name, ends=ends, run_dir=run_dir).ends


def preflight() -> None:
    """Have a Java and Spark's Kafka connector before anything is booted for nothing.

    Raises SparkError if one is missing and cannot be had.
    """
    try:
        connector.check_java()
        connector.resolve()
    except AnalysisError as error:
        raise SparkError(str(error)) from error


@contextlib.contextmanager
def _spark() -> Iterator[SparkSession]:
    try:
        connector.resolve()
        with _own_interrupts():
            spark = session()
        yield spark
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
