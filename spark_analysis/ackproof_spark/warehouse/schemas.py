"""Columns of every warehouse table, as Arrow schemas. `ackproof_spark.tables` has those of a run.

Every row has `schema_version` (the version of the warehouse), `run_id`, and `load_id` (the digest
of the loaded data). Counts are sends or anomalies, latencies milliseconds, times UTC microseconds,
shares from 0 to 1. JSON is a string.
"""

from __future__ import annotations

import pyarrow as pa

from ackproof_spark import tables
from ackproof_spark.tables import TIME, required

#: Raised whenever the columns or the layout change.
WAREHOUSE_VERSION = 4


def _table(*fields: pa.Field) -> pa.Schema:
    common = [
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("load_id", pa.string(), nullable=False),
    ]
    return pa.schema(common + list(fields))


def _of_run(schema: pa.Schema) -> pa.Schema:
    """Return a run table's schema with nullable columns: runs of older versions lack some."""
    own = (field for field in schema if field.name not in ("schema_version", "run_id"))
    return _table(*(field.with_nullable(True) for field in own))


#: Anomalies that have a column in `runs`; `observed` has all counts.
ANOMALY_COUNTS = ("lost", "duplicated", "reordered", "phantom", "corrupt", "unseen")

#: One row a run. `configuration` and `observed` are JSON objects: the settings that a comparison
#: varied, and every count by name. `commit` is the version of the user's project that was tested.
#: `availability` is 1 minus the worst partition's unavailability by the run's duration, null if
#: nothing was sent. Latencies are null if nothing was acked. `digest` is that of the verdict, the
#: commit and the trial. `with_sends` and `with_reads` say whether these tables were loaded.
#: `outcome` describes the fate of the acked records; `report` is the address of the page.
RUNS = _table(
    required("scenario", pa.string()),
    required("configuration_name", pa.string()),
    required("configuration", pa.string()),
    required("seed", pa.int64()),
    required("kafka_version", pa.string()),
    required("image", pa.string()),
    pa.field("commit", pa.string()),
    required("started_at", TIME),
    pa.field("finished_at", TIME),
    required("loaded_at", TIME),
    required("verdict", pa.string()),
    required("reason", pa.string()),
    required("outcome", pa.string()),
    pa.field("report", pa.string()),
    *(
        required(count, pa.int64())
        for count in (
            *("sent", "acked", "failed", "unknown"),
            *ANOMALY_COUNTS,
        )
    ),
    required("observed", pa.string()),
    required("duration_s", pa.float64()),
    required("acked_per_s", pa.float64()),
    required("unavailability_s", pa.float64()),
    pa.field("availability", pa.float64()),
    *(pa.field(f"ack_latency_{name}_ms", pa.float64()) for name in ("p50", "p95", "p99", "p999")),
    pa.field("ack_latency_max_ms", pa.float64()),
    required("with_sends", pa.bool_()),
    required("with_reads", pa.bool_()),
    required("digest", pa.string()),
)

#: One row a run of a comparison: trial `trial` (from 1, in order of time) of its configuration.
TRIALS = _table(
    required("comparison", pa.string()),
    required("scenario", pa.string()),
    required("configuration_name", pa.string()),
    required("trial", pa.int32()),
)

#: One row an anomaly with a prediction.
PREDICTIONS = _table(
    required("anomaly", pa.string()),
    required("prediction", pa.string()),
    pa.field("reason", pa.string()),
    required("observed", pa.int64()),
)

#: One row a contradiction between prediction and observation.
FINDINGS = _table(
    required("anomaly", pa.string()),
    required("predicted", pa.string()),
    required("observed", pa.int64()),
    required("explanation", pa.string()),
)

#: One row a cause of lost records, most losses first; `case` is that of
#: docs/explanation/forensics.md, `title` its name.
CAUSES = _of_run(tables.CAUSES).append(required("title", pa.string()))

#: One row a partition and action (`read`, `write`), in runs with a probe: the share of the time in
#: which the action was possible, and its outages.
AVAILABILITY = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("action", pa.string()),
    required("share", pa.float64()),
    required("outages", pa.int32()),
    required("longest_outage_s", pa.float64()),
)

#: One row a setting of the run: `scope` is `producer`, `topic` or `broker`; `name` is the topic,
#: null for the settings of producers and brokers. Values are text, as in Kafka's files.
SETTINGS = _table(
    required("scope", pa.string()),
    pa.field("name", pa.string()),
    required("key", pa.string()),
    required("value", pa.string()),
)

#: One row an event: `fault-injected`, `fault-verified`, `fault-healed`, `fault-recovered`,
#: `partition-state`, `broker-state`, or `trouble` (whose `at` is null). `node` is the broker
#: concerned (for a partition, the leader), null if it is no broker.
EVENTS = _table(
    pa.field("at", TIME),
    required("kind", pa.string()),
    pa.field("node", pa.int32()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    required("what", pa.string()),
)

#: One row a second from the first send to the last outcome. `sent` counts the sends of the second;
#: the other counts and the latencies are of sends that resolved in it. `availability`: of the
#: partitions with sends in flight, the share that acked one in this second; null if none had.
#: `lag`: see `lag.lag`; null without consumers and before the first ack.
METRICS = _table(
    required("at", TIME),
    required("sent", pa.int64()),
    required("acked", pa.int64()),
    required("failed", pa.int64()),
    required("unknown", pa.int64()),
    *(pa.field(f"latency_{name}_ms", pa.float64()) for name in ("p50", "p90", "p99", "p999")),
    pa.field("latency_max_ms", pa.float64()),
    pa.field("availability", pa.float64()),
    pa.field("lag", pa.int64()),
)

#: `sends` (one row a send) and `reads` (one row a record of the final log) are loaded on request.
TABLES = {
    "runs": RUNS,
    "trials": TRIALS,
    "predictions": PREDICTIONS,
    "findings": FINDINGS,
    "causes": CAUSES,
    "lost_stories": _of_run(tables.LOST_STORIES),
    "availability": AVAILABILITY,
    "settings": SETTINGS,
    "fault_windows": _of_run(
        tables.FAULT_WINDOWS.remove(tables.FAULT_WINDOWS.get_field_index("facts"))
    ),
    "partition_states": _of_run(tables.PARTITION_STATES),
    "events": EVENTS,
    "metrics": METRICS,
    "anomalies": _of_run(tables.ANOMALIES),
    "sends": _of_run(tables.LEDGER),
    "reads": _of_run(tables.FINAL_LOG),
}
