"""Columns of every warehouse table, as Arrow schemas. `ackproof_spark.tables` has those of a run.

Every row has `schema_version` (the version of the warehouse), `run_id`, and `load_id` (the digest
of the loaded data). Counts are sends or anomalies, latencies milliseconds, times UTC microseconds,
shares from 0 to 1. JSON is a string.
"""

from __future__ import annotations

import pyarrow as pa

from ackproof_spark import tables
from ackproof_spark.tables import columns

#: Raised whenever the columns or the layout change.
WAREHOUSE_VERSION = 4


def _with_common(own: pa.Schema) -> pa.Schema:
    return pa.schema([*columns("schema_version int, run_id string, load_id string"), *own])


def _table(text: str) -> pa.Schema:
    return _with_common(columns(text))


def _of_run(schema: pa.Schema) -> pa.Schema:
    """Return a run table's schema with nullable columns: runs of older versions lack some."""
    own = (field for field in schema if field.name not in ("schema_version", "run_id"))
    return _with_common(pa.schema(field.with_nullable(True) for field in own))


#: Anomalies that have a column in `runs`; `observed` has all counts.
ANOMALY_COUNTS = ("lost", "duplicated", "reordered", "phantom", "corrupt", "unseen")

#: One row a run. `configuration` and `observed` are JSON objects: the settings that a comparison
#: varied, and every count by name. `commit` is the version of the user's project that was tested.
#: `availability` is 1 minus the worst partition's unavailability by the run's duration, null if
#: nothing was sent. Latencies are null if nothing was acked. `digest` is that of the verdict, the
#: commit and the trial. `with_sends` and `with_reads` say whether these tables were loaded.
#: `outcome` describes the fate of the acked records; `report` is the address of the page.
RUNS = _table(f"""
    scenario string, configuration_name string, configuration string, seed bigint,
    kafka_version string, image string, commit string?, started_at timestamp,
    finished_at timestamp?, loaded_at timestamp, verdict string, reason string, outcome string,
    report string?, sent bigint, acked bigint, failed bigint, unknown bigint,
    {", ".join(f"{anomaly} bigint" for anomaly in ANOMALY_COUNTS)},
    observed string, duration_s double, acked_per_s double, unavailability_s double,
    availability double?, ack_latency_p50_ms double?, ack_latency_p95_ms double?,
    ack_latency_p99_ms double?, ack_latency_p999_ms double?, ack_latency_max_ms double?,
    with_sends boolean, with_reads boolean, digest string
""")

#: One row a run of a comparison: trial `trial` (from 1, in order of time) of its configuration.
TRIALS = _table("comparison string, scenario string, configuration_name string, trial int")

#: One row an anomaly with a prediction.
PREDICTIONS = _table("anomaly string, prediction string, reason string?, observed bigint")

#: One row a contradiction between prediction and observation.
FINDINGS = _table("anomaly string, predicted string, observed bigint, explanation string")

#: One row a cause of lost records, most losses first; `case` is that of
#: docs/explanation/forensics.md, `title` its name.
CAUSES = pa.schema([*_of_run(tables.CAUSES), *columns("title string")])

#: One row a partition and action (`read`, `write`), in runs with a probe: the share of the time in
#: which the action was possible, and its outages.
AVAILABILITY = _table("""
    topic string, partition int, action string, share double, outages int,
    longest_outage_s double
""")

#: One row a setting of the run: `scope` is `producer`, `topic` or `broker`; `name` is the topic,
#: null for the settings of producers and brokers. Values are text, as in Kafka's files.
SETTINGS = _table("scope string, name string?, key string, value string")

#: One row an event: `fault-injected`, `fault-verified`, `fault-healed`, `fault-recovered`,
#: `partition-state`, `broker-state`, or `trouble` (whose `at` is null). `node` is the broker
#: concerned (for a partition, the leader), null if it is no broker.
EVENTS = _table("at timestamp?, kind string, node int?, topic string?, partition int?, what string")

#: One row a second from the first send to the last outcome. `sent` counts the sends of the second;
#: the other counts and the latencies are of sends that resolved in it. `availability`: of the
#: partitions with sends in flight, the share that acked one in this second; null if none had.
#: `lag`: see `lag.lag`; null without consumers and before the first ack.
METRICS = _table("""
    at timestamp, sent bigint, acked bigint, failed bigint, unknown bigint,
    latency_p50_ms double?, latency_p90_ms double?, latency_p99_ms double?,
    latency_p999_ms double?, latency_max_ms double?, availability double?, lag bigint?
""")

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
