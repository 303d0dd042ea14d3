"""Every table of a warehouse: its columns, as Arrow schemas. See `tables` for those of a run.

Every row carries `schema_version` (the version of the warehouse whose columns it has), `run_id`
and `load_id` (which load it is of). Counts are sends or anomalies, latencies milliseconds, times
UTC microseconds, shares from 0 to 1. JSON is a string.
"""

from __future__ import annotations

import pyarrow as pa

from ackproof_spark import tables
from ackproof_spark.tables import TIME

#: What `migrations` brings an older warehouse to.
WAREHOUSE_VERSION = 2


def _table(*fields: pa.Field) -> pa.Schema:
    common = [
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("load_id", pa.string(), nullable=False),
    ]
    return pa.schema(common + list(fields))


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _of_run(schema: pa.Schema) -> pa.Schema:
    """Return a run table's schema as a warehouse has it: runs of older versions lack columns."""
    own = (field for field in schema if field.name not in ("schema_version", "run_id"))
    return _table(*(field.with_nullable(True) for field in own))


#: The anomalies that have a column of `runs`; `observed` has the count of every one.
ANOMALY_COUNTS = ("lost", "duplicated", "reordered", "phantom", "corrupt", "unseen")

#: One row a run. `configuration` and `observed` are JSON objects: the settings that a comparison
#: varied, and every count by name. `commit` is the version of the user's project that was tested.
#: `availability` is 1 minus the worst partition's unavailability by the run's duration, null if
#: nothing was sent. Latencies are null if nothing was acked. `digest` tells whether a run that is
#: loaded again has changed; `with_sends` and `with_reads`, whether its big tables were loaded.
RUNS = _table(
    _required("scenario", pa.string()),
    _required("configuration_name", pa.string()),
    _required("configuration", pa.string()),
    _required("seed", pa.int64()),
    _required("kafka_version", pa.string()),
    _required("image", pa.string()),
    pa.field("commit", pa.string()),
    _required("started_at", TIME),
    pa.field("finished_at", TIME),
    _required("loaded_at", TIME),
    _required("verdict", pa.string()),
    _required("reason", pa.string()),
    *(
        _required(count, pa.int64())
        for count in (
            *("sent", "acked", "failed", "unknown"),
            *ANOMALY_COUNTS,
        )
    ),
    _required("observed", pa.string()),
    _required("duration_s", pa.float64()),
    _required("acked_per_s", pa.float64()),
    _required("unavailability_s", pa.float64()),
    pa.field("availability", pa.float64()),
    *(pa.field(f"ack_latency_{name}_ms", pa.float64()) for name in ("p50", "p95", "p99", "p999")),
    pa.field("ack_latency_max_ms", pa.float64()),
    _required("with_sends", pa.bool_()),
    _required("with_reads", pa.bool_()),
    _required("digest", pa.string()),
)

#: One row a run that is one of many: trial `trial` (from 1, in order of time) of this
#: configuration in this comparison.
TRIALS = _table(
    _required("comparison", pa.string()),
    _required("scenario", pa.string()),
    _required("configuration_name", pa.string()),
    _required("trial", pa.int32()),
)

#: One row an anomaly that the model spoke of.
PREDICTIONS = _table(
    _required("anomaly", pa.string()),
    _required("prediction", pa.string()),
    pa.field("reason", pa.string()),
    _required("observed", pa.int64()),
)

#: One row a disagreement of model and cluster.
FINDINGS = _table(
    _required("anomaly", pa.string()),
    _required("predicted", pa.string()),
    _required("observed", pa.int64()),
    _required("explanation", pa.string()),
)

#: One row a thing that happened: `fault-injected`, `fault-verified`, `fault-healed`,
#: `fault-recovered`, `partition-state`, `broker-state`, or `trouble` (of which no time is
#: recorded). `node` is the broker it happened to (of a partition, the leader), if it is one.
EVENTS = _table(
    pa.field("at", TIME),
    _required("kind", pa.string()),
    pa.field("node", pa.int32()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    _required("what", pa.string()),
)

#: One row a second from the first send to the last outcome. `sent` counts what was sent in it,
#: the other counts and latencies are of what resolved in it. `availability`: of the partitions
#: that had sends under way, the share that acknowledged one in this second; null if none had.
#: `lag`: see `lag.lag`; null if no consumer was there, or nothing acked yet.
METRICS = _table(
    _required("at", TIME),
    _required("sent", pa.int64()),
    _required("acked", pa.int64()),
    _required("failed", pa.int64()),
    _required("unknown", pa.int64()),
    *(pa.field(f"latency_{name}_ms", pa.float64()) for name in ("p50", "p90", "p99", "p999")),
    pa.field("latency_max_ms", pa.float64()),
    pa.field("availability", pa.float64()),
    pa.field("lag", pa.int64()),
)

#: The tables that every load writes, before its row in `runs`.
SMALL = {
    "trials": TRIALS,
    "predictions": PREDICTIONS,
    "findings": FINDINGS,
    "fault_windows": _of_run(
        tables.FAULT_WINDOWS.remove(tables.FAULT_WINDOWS.get_field_index("facts"))
    ),
    "partition_states": _of_run(tables.PARTITION_STATES),
    "events": EVENTS,
    "metrics": METRICS,
    "anomalies": _of_run(tables.ANOMALIES),
}

#: The tables that a load writes if it is asked to: a row for each send, and for each record of the
#: final log.
BIG = {"sends": _of_run(tables.LEDGER), "reads": _of_run(tables.FINAL_LOG)}

TABLES = {"runs": RUNS, **SMALL, **BIG}
