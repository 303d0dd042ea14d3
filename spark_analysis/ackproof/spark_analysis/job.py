"""The comparison as a job for a Spark cluster: `spark-submit job.py --input RUN_DIR`.

RUN_DIR is any address that the cluster can read, and needs the tables `ledger`, `final_log`,
`partition_ends` and `fault_windows` (see `tables.LOCATION`). Every setting but the Parquet type
of times is the cluster's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ackproof.spark_analysis.diff import diff
from ackproof.spark_analysis.errors import AnalysisError
from ackproof.spark_analysis.session import TIMESTAMP_TYPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the `anomalies` table and print all counts as one JSON object; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare a run's ledger with its final log.")
    parser.add_argument("--input", required=True, help="the run directory")
    parser.add_argument("--output", help="where `anomalies` is written (default: the input)")
    options = parser.parse_args(arguments)

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName("ackproof diff")
        .config("spark.sql.parquet.outputTimestampType", TIMESTAMP_TYPE)
        .getOrCreate()
    )
    try:
        result = diff(spark, options.input, output=options.output)
    except AnalysisError as error:
        sys.stderr.write(f"{error}\n")
        return 4
    sends = {word: getattr(result, word) for word in ("sent", "acked", "failed", "unknown")}
    sys.stdout.write(json.dumps(sends | {key.value: n for key, n in result.counts.items()}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
