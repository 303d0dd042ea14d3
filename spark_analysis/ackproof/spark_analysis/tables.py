"""Every table of a run: the one definition of its columns, as Arrow schemas.

Importable without Spark. Stored as Parquet with plain types only, so that Spark 3.5 and later,
DuckDB, pandas and Superset read them with no ackproof installed. Every table carries
`schema_version` and `run_id` as columns (constant, so they cost next to nothing).

Times are UTC microseconds. `producer` and `sequence` name a send (see `record`).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pyarrow as pa

SCHEMA_VERSION = 1

TIME = pa.timestamp("us", tz="UTC")


class Outcome(StrEnum):
    """What became of a send.

    `ACKED`: a delivery report without error. `FAILED`: certainly not written.
    `UNKNOWN`: may or may not be written (timeouts, disconnects, a client that died).
    """

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class RecordState(StrEnum):
    """What a record of the final log is, judged by its bytes alone.

    `INTACT`: ours and whole. `CORRUPT`: carries our magic, its checksum does not match.
    `FOREIGN`: not of this run.
    """

    INTACT = "intact"
    CORRUPT = "corrupt"
    FOREIGN = "foreign"


class Anomaly(StrEnum):
    """One named deviation between what was acknowledged and what can be read."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    PHANTOM = "phantom"
    CORRUPT = "corrupt"
    UNSEEN = "unseen"


#: Anomalies about which a prediction is made (`unseen` is not Kafka's doing but ours).
PREDICTED = (
    Anomaly.LOST,
    Anomaly.DUPLICATED,
    Anomaly.REORDERED,
    Anomaly.PHANTOM,
    Anomaly.CORRUPT,
)


def _table(*fields: pa.Field) -> pa.Schema:
    common = [
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
    ]
    return pa.schema(common + list(fields))


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


#: One row a send. `offset` is null unless the broker told it (never with acks=0).
#: `resolved_at` is when the outcome became known; null for sends whose producer died first.
LEDGER = _table(
    _required("producer", pa.int64()),
    _required("sequence", pa.int64()),
    _required("topic", pa.string()),
    _required("partition", pa.int32()),
    _required("outcome", pa.string()),
    pa.field("error", pa.string()),
    pa.field("offset", pa.int64()),
    pa.field("sent_at", TIME),
    pa.field("resolved_at", TIME),
)

#: One row a record of every partition, as read after all faults healed and the ISR was full.
#: `producer` and `sequence` are null unless `state` is intact; `head` is the first 64 bytes in
#: hex for records that are not intact, null otherwise.
FINAL_LOG = _table(
    _required("topic", pa.string()),
    _required("partition", pa.int32()),
    _required("offset", pa.int64()),
    _required("written_at", TIME),
    _required("state", pa.string()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    _required("size", pa.int32()),
    pa.field("head", pa.string()),
)

#: How far each partition could be read. `complete` says that the final log holds everything
#: from `begin_offset` up to `end_offset` (the high watermark, at full ISR); if not, `reason`
#: says why, and absent records of the partition are unseen, not lost.
PARTITION_ENDS = _table(
    _required("topic", pa.string()),
    _required("partition", pa.int32()),
    _required("begin_offset", pa.int64()),
    _required("end_offset", pa.int64()),
    _required("complete", pa.bool_()),
    pa.field("reason", pa.string()),
)

#: One row a fault: when it really held. `trigger` says which condition set it off. A fault that
#: was never seen to hold has a null `verified_at`, and makes the run inconclusive.
FAULT_WINDOWS = _table(
    _required("window", pa.int32()),
    _required("fault", pa.string()),
    _required("target", pa.string()),
    _required("nodes", pa.list_(pa.int32())),
    _required("parameters", pa.string()),
    _required("trigger", pa.string()),
    _required("injected_at", TIME),
    pa.field("verified_at", TIME),
    pa.field("healed_at", TIME),
    pa.field("recovered_at", TIME),
    _required("verified", pa.bool_()),
    _required("evidence", pa.string()),
)

#: One row a change of a partition's state, from the controller's metadata log: exact, ordered.
#: `leader` is -1 while there is none.
PARTITION_STATES = _table(
    _required("at", TIME),
    _required("metadata_offset", pa.int64()),
    _required("topic", pa.string()),
    _required("partition", pa.int32()),
    _required("leader", pa.int32()),
    _required("leader_epoch", pa.int32()),
    _required("partition_epoch", pa.int32()),
    _required("replicas", pa.list_(pa.int32())),
    _required("isr", pa.list_(pa.int32())),
    _required("elr", pa.list_(pa.int32())),
)

#: One row a change of a broker's registration: `registered`, `fenced`, `unfenced`,
#: `controlled-shutdown`, from the same log.
BROKER_STATES = _table(
    _required("at", TIME),
    _required("metadata_offset", pa.int64()),
    _required("broker", pa.int32()),
    _required("state", pa.string()),
    _required("broker_epoch", pa.int64()),
)

#: One row an anomaly, with its evidence. `offset` is where it was acked (lost, unseen, corrupt)
#: or where it stands (duplicated, reordered, phantom, corrupt); `window` is the fault in force
#: when the send resolved; `found` says what stands at that offset now.
ANOMALIES = _table(
    _required("anomaly", pa.string()),
    _required("topic", pa.string()),
    _required("partition", pa.int32()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    pa.field("offset", pa.int64()),
    pa.field("sent_at", TIME),
    pa.field("resolved_at", TIME),
    pa.field("window", pa.int32()),
    _required("found", pa.string()),
)

#: Where each table lives inside a run directory: a Parquet file or a folder of them.
LOCATION = {
    "ledger": Path("ledger"),
    "final_log": Path("final_log"),
    "partition_ends": Path("partition_ends.parquet"),
    "fault_windows": Path("fault_windows.parquet"),
    "partition_states": Path("partition_states.parquet"),
    "broker_states": Path("broker_states.parquet"),
    "anomalies": Path("anomalies"),
}
