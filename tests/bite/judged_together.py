"""Judges many copies of a recorded run with one comparison by Spark.

Spark takes seconds to plan the comparison of a run. Here the topics of all copies become topics of
one run directory, which Spark compares once. Before and after, each copy goes through the functions
of `check`: `admit` and `conclude`.

Tables without topics (fault windows, transactions, registrations of brokers) are compared as
recorded: no count of an anomaly depends on fault windows, and without a successor of a producer
there is no zombie commit. Only the metrics of partitions are the copy's own; the expectations of a
clean run use no others.
"""

from __future__ import annotations

import functools
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.errors import RunDirectoryError
from ackproof.judgement import expectations
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.judge import admit, conclude, durability_settings, fault_kinds
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_spark.analysis import Analysis
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import Comparison, compare
from ackproof_spark.forensics.causes import Cause, explain
from ackproof_spark.forensics.differences import compare_replicas
from ackproof_spark.matching.row_groups import Sizing
from ackproof_spark.metrics import as_metrics, metric_questions, unavailability
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.small_data import FEW, answers, small_plans
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS, Outcome
from bite.shared_files import parts, remembered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Between the name of a topic and the number of the copy; illegal in Kafka's names.
_MARK = "~"

#: Up to this many rows, Spark uses the plans for few rows.
_FEW = 10**9

#: Distance of the consumers' numbers of two copies.
_CONSUMERS = 1_000


def judged_together(
    spark: SparkSession, run_dir: Path, copies: Sequence[Path], folder: Path
) -> list[Verdict | None]:
    """Return the verdict of each copy of `run_dir`, None if it is refused.

    `folder` is a new folder on the disk of the run.
    """
    with remembered(run_dir):
        numbers = [number for number, copy in enumerate(copies) if _admitted(copy)]
        for name in LOCATION:
            _link(run_dir, name, folder)
            _put_together(copies, numbers, name, folder)
        scenario = _scenario((run_dir / "scenario.yaml").read_bytes())
        with small_plans(spark, rows=0):
            compared = _compared(spark, run_dir, folder, scenario, numbers)
        verdicts: list[Verdict | None] = [None] * len(copies)
        for number in numbers:
            try:
                evidence = Evidence(run_dir=copies[number])
                content = (copies[number] / "scenario.yaml").read_bytes()
                evidence.once(Scenario, functools.partial(_scenario, content))
                verdicts[number] = conclude(evidence, compared[number])
            except RunDirectoryError:
                continue
    return verdicts


@functools.cache
def _scenario(content: bytes) -> Scenario:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_bytes(content)
        return load(path)[0].scenario


def _admitted(copy: Path) -> bool:
    try:
        admit(copy)
    except RunDirectoryError:
        return False
    return True


def _link(run_dir: Path, name: str, folder: Path) -> None:
    """Add a table as recorded, if it has no topics."""
    for path in parts(run_dir / LOCATION[name]):
        if "topic" not in pq.read_schema(path).names:
            target = folder / path.relative_to(run_dir)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(path)


def _put_together(copies: Sequence[Path], numbers: Sequence[int], name: str, folder: Path) -> None:
    """Write a table of all copies, if it has topics, with the copy's number in each topic.

    A table that is a single file becomes a folder, which Spark reads, too.
    """
    tables = []
    for number in numbers:
        for path in parts(copies[number] / LOCATION[name]):
            table = pq.read_table(path, partitioning=None)
            if "topic" not in table.column_names:
                return
            topics = pc.binary_join_element_wise(table["topic"], str(number), _MARK)
            table = _replaced(table, "topic", topics)
            if "consumer" in table.column_names:
                consumers = pc.add(table["consumer"], number * _CONSUMERS)
                table = _replaced(table, "consumer", consumers)
            tables.append(table)
    if tables:
        target = folder / LOCATION[name]
        target.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(tables), target / "copies.parquet", compression="none")


def _replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(name), values)


def _compared(
    spark: SparkSession, run_dir: Path, folder: Path, scenario: Scenario, numbers: Sequence[int]
) -> Mapping[int, Analysis]:
    """Compare the run of all copies; return the analysis of each copy."""
    comparison = compare(
        spark, folder, omitted=expectations.inapplicable(scenario), sizing=Sizing(few=_FEW)
    )
    run = StoredRun(spark=spark, run_dir=folder)
    run_id = RunTables.of(run).run_id
    causes: dict[int, list[Cause]] = defaultdict(list)
    if comparison.counts[Anomaly.LOST]:
        of_topics = {
            f"{topic}{_MARK}{number}": settings
            for topic, settings in durability_settings(scenario).items()
            for number in numbers
        }
        few = comparison.sent + run.rows("final_log", "replica_batches") <= FEW
        for cause in explain(run, run_id, few=few, settings=of_topics, faults=fault_kinds()):
            causes[_number(cause.topic)].append(cause)
    replicas = {} if scenario.topic.compacted else compare_replicas(run, run_id)
    ledger = run["ledger"]
    outcomes = _counted(ledger, "outcome")
    anomalies = _counted(run["anomalies"], "anomaly")
    measured = answers(**metric_questions(StoredRun(spark=spark, run_dir=run_dir)["ledger"]))
    recorded = as_metrics(measured)
    writes = {row["outcome"]: row["count"] for row in measured["probe"]}
    partitions: dict[int, list[Any]] = defaultdict(list)
    for row in unavailability(ledger.where(f"producer < {PROBE_PRODUCERS}")).collect():
        partitions[_number(row["topic"])].append(row)
    return {
        number: Analysis(
            comparison=Comparison(
                sent=outcomes[number].total(),
                acked=outcomes[number][Outcome.ACKED],
                failed=outcomes[number][Outcome.FAILED],
                unknown=outcomes[number][Outcome.UNKNOWN],
                aborted=outcomes[number][Outcome.ABORTED],
                counts={anomaly: anomalies[number][anomaly] for anomaly in comparison.counts},
                shown=[],
            ),
            replicas={anomaly: anomalies[number][anomaly] for anomaly in replicas},
            causes=causes[number],
            metrics=recorded | _of_partitions(partitions[number]),
            probe_writes=writes,
            by_topic={},
        )
        for number in numbers
    }


def _counted(rows: DataFrame, column: str) -> Mapping[int, Counter[str]]:
    """Count the values of a column by copy."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for topic, value, count in rows.groupBy("topic", column).count().collect():
        counts[_number(topic)][value] += count
    return counts


def _of_partitions(rows: Sequence[Any]) -> dict[str, Any]:
    """Return the metrics of partitions, as `metrics` does."""
    return {
        "unavailability_s": max((row["unavailability_s"] for row in rows), default=0.0),
        "unacked_partitions": sorted(
            f"{row['topic'].rpartition(_MARK)[0]}-{row['partition']}"
            for row in rows
            if row["acked"] == 0
        ),
    }


def _number(topic: str) -> int:
    return int(topic.rpartition(_MARK)[2])
