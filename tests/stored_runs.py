"""A complete run directory without a cluster, for `ackproof check`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ackproof.runs import directory as runs
from ackproof.runs.verdict import PredictionReport
from ackproof_spark.anomaly import PREDICTED
from ackproof_spark.tables import LOCATION
from spark_histories import RUN_ID, History, write_run

TOPIC = "orders"

_SCENARIO = """\
version: 1
name: stored
topics: {{orders: {{partitions: {partitions}, settings: {{min.insync.replicas: 2}}}}}}
workload: {{topic: orders, settings: {{acks: all, enable.idempotence: true}}}}
expect: {{diverged: any}} # there are no replicas that could be compared
"""


def store(
    run_dir: Path, history: History, *, partitions: int = 1, readers: tuple[str, ...] = ()
) -> Path:
    """Write a finished run with one topic and one producer; return its directory."""
    run_dir.mkdir(parents=True, exist_ok=True)
    write_run(run_dir, {TOPIC: history})
    ledger = run_dir / LOCATION["ledger"]
    (ledger / "part-0.parquet").rename(ledger / "producer-0.parquet")
    (run_dir / "scenario.yaml").write_text(_SCENARIO.format(partitions=partitions))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    record = runs.RunRecord(
        run_id=RUN_ID,
        image="none",
        pid=1,
        started_at=now,
        finished_at=now + timedelta(minutes=1),
        readers=list(readers),
    )
    runs.write_model(run_dir / "run.json", record)
    prediction = runs.PredictionRecord(
        predicted={str(anomaly): "impossible" for anomaly in PREDICTED},
        prediction=PredictionReport(trace=[], reasons={}, bounds=""),
    )
    runs.write_model(run_dir / "prediction.json", prediction)
    return run_dir
