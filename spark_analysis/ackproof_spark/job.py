"""Jobs for a Spark cluster: `spark-submit … job.py diff --input RUN_DIR`.

docs/reference/spark.md describes them.

    final-log   reads topics from Kafka between given offsets, and stores the table
    diff        compares a run's ledger with its final log, and stores the anomalies

A run directory is any address that the cluster can read. `diff` needs the tables `ledger`,
`final_log`, `partition_ends` and `fault_windows` there (see `tables.LOCATION`). The jobs set only
the settings on which the result depends (`session.SETTINGS`); the others are the cluster's.

The result is one JSON object on standard output. Exit codes: 0 done (with or without anomalies), 2
wrong arguments or no run at the address, 4 the job failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from ackproof_spark.checks.comparison import compare
from ackproof_spark.errors import AnalysisError, RunError
from ackproof_spark.reading.final_log import (
    Isolation,
    PartitionEnd,
    Reader,
    read_final_log,
    write_final_log,
)
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.session import configure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job, print its result as one JSON object, and return the exit code."""
    options = _parser().parse_args(arguments)

    from pyspark.sql import SparkSession

    try:
        with explained():
            spark = configure(SparkSession.builder.appName("ackproof").getOrCreate())
            result = options.job(spark, options)
    except AnalysisError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, RunError) else 4
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="ackproof's jobs for a Spark cluster; @FILE holds arguments, one a line",
        fromfile_prefix_chars="@",
    )
    jobs = parser.add_subparsers(required=True, metavar="JOB")

    diff = jobs.add_parser("diff", help="compare a run's ledger with its final log")
    diff.set_defaults(job=_diff)
    diff.add_argument("--input", required=True, help="the run directory")
    diff.add_argument("--output", help="where `anomalies` is written (default: the input)")
    diff.add_argument(
        "--keys",
        type=_keys,
        default={},
        metavar="JSON",
        help='the numbers of keys of compacted topics: {"orders": 10}',
    )

    log = jobs.add_parser("final-log", help="read topics from Kafka, and store them")
    log.set_defaults(job=_final_log)
    log.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT,…")
    log.add_argument("--run-id", required=True, help="records of other runs count as foreign")
    log.add_argument(
        "--ends",
        required=True,
        type=_ends,
        metavar="JSON",
        help='offsets to read, the end exclusive: {"orders": {"0": [0, 1000]}}',
    )
    log.add_argument("--output", required=True, help="the run directory to write to")
    log.add_argument(
        "--reader", type=Reader, choices=list(Reader), default=Reader.CONNECTOR, help="%(choices)s"
    )
    log.add_argument(
        "--isolation",
        type=Isolation,
        choices=list(Isolation),
        default=Isolation.READ_UNCOMMITTED,
        help="%(choices)s",
    )
    log.add_argument(
        "--option",
        action="append",
        default=[],
        type=_option,
        metavar="NAME=VALUE",
        help="option of the reader (minPartitions=8) or its client (kafka.security.protocol=SSL)",
    )
    return parser


def _diff(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    result = compare(spark, options.input, output=options.output, keys=options.keys)
    sends = {
        word: getattr(result, word) for word in ("sent", "acked", "failed", "unknown", "aborted")
    }
    counts = {key.value: count for key, count in result.counts.items()}
    return sends | counts | {"compared": result.path}


def _final_log(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    log = read_final_log(
        spark,
        run_id=options.run_id,
        bootstrap_servers=options.bootstrap_servers,
        ends=options.ends,
        options=dict(options.option),
        reader=options.reader,
        isolation=options.isolation,
    )
    stored = write_final_log(log, run_id=options.run_id, ends=options.ends, run_dir=options.output)
    short = {f"{end.topic}-{end.partition}": end.reason for end in stored.ends if not end.complete}
    return {"records": stored.records, "incomplete": short}


def _keys(text: str) -> dict[str, int]:
    try:
        return {str(topic): int(count) for topic, count in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        wrong = f"{text!r} is not numbers of keys as JSON, such as " + '{"orders": 10}'
        raise argparse.ArgumentTypeError(wrong) from None


def _ends(text: str) -> list[PartitionEnd]:
    wrong = f"{text!r} is not offsets as JSON, such as " + '{"orders": {"0": [0, 1000]}}'
    try:
        ends = [
            PartitionEnd(
                topic=topic, partition=int(partition), begin_offset=int(begin), end_offset=int(end)
            )
            for topic, partitions in json.loads(text).items()
            for partition, (begin, end) in partitions.items()
        ]
    except (ValueError, TypeError, AttributeError):
        raise argparse.ArgumentTypeError(wrong) from None
    if not ends or any(end.begin_offset < 0 or end.end_offset < end.begin_offset for end in ends):
        raise argparse.ArgumentTypeError(f"{wrong}: at least one partition, and begin <= end")
    return ends


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
