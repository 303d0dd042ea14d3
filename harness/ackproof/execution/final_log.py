"""Reads the final log of a run with Spark, if possible with two independent readers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ackproof.errors import translated
from ackproof.execution.run_state import RunState
from ackproof.spark_session import spark_session
from ackproof_spark.errors import AnalysisError, ConnectorMissing
from ackproof_spark.reading import final_log, two_readers
from ackproof_spark.reading.application_records import (
    Application,
    shared_offsets,
    unnamed_deliveries,
)
from ackproof_spark.reading.final_log import Isolation, PartitionEnd, Reader
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark import client_settings
from ackproof_spark.spark.session import load
from ackproof_spark.spark.small_data import small_plans

#: A final log of more offsets is read by the connector only.
SECOND_READER_UP_TO = 1_000_000


def take_final_log(
    run: RunState,
    *,
    bootstrap_servers: str,
    ends: list[PartitionEnd],
    settings: Mapping[str, str] | None = None,
    committed_only: bool = False,
    id_header: str = "",
    end_markers: bool = True,
) -> None:
    """Read every partition up to its end into the run's final log, and note the readers.

    One reader is Spark's Kafka connector. In parallel, ackproof's own reader reads up to
    `SECOND_READER_UP_TO` offsets in threads of this process, into its own files; records that only
    one of them returns go into the table `disagreements`. If the connector is absent or fails, as
    with some servers that are not Apache Kafka, the own reader is the only one.

    `settings` are librdkafka's client settings. `committed_only` reads with read_committed. An
    application's records have their ids in the header `id_header`. Without `end_markers` the ends
    are high watermarks.

    Raises SparkError if Spark cannot be started or the brokers cannot be read.
    """
    run_dir, settings = run.run_dir, settings or {}
    isolation = Isolation.READ_COMMITTED if committed_only else Isolation.READ_UNCOMMITTED
    offsets = sum(end.end_offset - end.begin_offset for end in ends)
    own_options = client_settings.for_librdkafka(settings)
    application = None
    with ExitStack() as stack:
        second: Future[None] | None = None
        folder = Path(stack.enter_context(TemporaryDirectory(dir=run_dir, prefix="reading-")))
        if offsets <= SECOND_READER_UP_TO:
            with translated():
                load()  # this thread and the second reader's both need Spark's package
            beside = stack.enter_context(ThreadPoolExecutor(max_workers=1))
            second = beside.submit(
                two_readers.fetch,
                folder,
                bootstrap_servers=bootstrap_servers,
                ends=ends,
                options=own_options,
                isolation=isolation,
                headers=bool(id_header),
            )
        spark = stack.enter_context(spark_session())
        stored = StoredRun(spark=spark, run_dir=run_dir)
        if id_header:
            stack.enter_context(small_plans(spark, rows=offsets))
            application = Application.of(stored, header=id_header)
        take = partial(
            final_log.take_final_log,
            spark,
            run_id=run_dir.name,
            bootstrap_servers=bootstrap_servers,
            ends=ends,
            run_dir=run_dir,
            isolation=isolation,
            application=application,
            end_markers=end_markers,
        )
        try:
            taken = take(options=client_settings.for_connector(settings))
        except AnalysisError as error:
            taken = take(options=own_options, reader=Reader.PYTHON)
            _note_doubts(run, stored, application, taken)
            absent = isinstance(error, ConnectorMissing)
            why = "is absent" if absent else f"failed: {error}"
            _note_alone(run, Reader.PYTHON, f"Spark's Kafka connector {why}")
            return
        _note_doubts(run, stored, application, taken)
        if second is None:
            _note_alone(run, Reader.CONNECTOR, f"more than {SECOND_READER_UP_TO:,} offsets")
            return
        second.result()
        own = two_readers.fetched(spark, folder, run_id=run_dir.name, application=application)
        two_readers.store_disagreements(
            {Reader.CONNECTOR: taken.log, Reader.PYTHON: own}, run_dir=run_dir
        )
        run.readers = [Reader.CONNECTOR, Reader.PYTHON]


def _note_doubts(
    run: RunState, stored: StoredRun, sends: Application | None, taken: final_log.FinalLog
) -> None:
    """Note what an acked log leaves open, and the delivery logs of a share group that reads it."""
    if sends is not None:
        run.unobserved += filter(None, [shared_offsets(sends, taken.log)])
        run.troubles += filter(None, [unnamed_deliveries(stored, sends, taken.log)])


def _note_alone(run: RunState, reader: Reader, why: str) -> None:
    run.readers = [reader]
    run.unobserved.append(f"a second reading of the final log ({reader} read alone: {why})")
