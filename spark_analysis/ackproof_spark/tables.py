"""The columns of every table of a run, as Arrow schemas.

Importable without Spark. Tables are stored as Parquet with plain types only, so that Spark 3.5 and
later, DuckDB, pandas and Superset read them without ackproof. Every table has the columns
`schema_version` and `run_id`, which are constant and need nearly no space.

Times are UTC microseconds. `producer` and `sequence` name a send (see `record`).
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pyarrow as pa

SCHEMA_VERSION = 1

TIME = pa.timestamp("us", tz="UTC")


class Outcome(StrEnum):
    """The outcome of a send.

    `ACKED`: a delivery report without error. `FAILED`: certainly not written. `UNKNOWN`: perhaps
    written (timeouts, disconnects, a client that died), or in a transaction that is perhaps
    committed. `ABORTED`: its transaction is certainly not committed.
    """

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"
    ABORTED = "aborted"


class RecordState(StrEnum):
    """The state of a record of the final log, by its bytes.

    `INTACT`: of this run, with a matching checksum. `CORRUPT`: it has ackproof's magic bytes, but
    its checksum does not match. `FOREIGN`: not of this run. A record of an application is `INTACT`
    if its identity names a send, and else `OTHER`, because the topic may have other writers.
    """

    INTACT = "intact"
    CORRUPT = "corrupt"
    FOREIGN = "foreign"
    OTHER = "other"


def _table(*fields: pa.Field) -> pa.Schema:
    common = [
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
    ]
    return pa.schema(common + list(fields))


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


#: One row a send. `offset` is null unless the send is acked and the broker reported its offset
#: (never with acks=0). A send in a transaction is acked when the transaction is committed.
#: `sent_at` is the time at which the client got it, or at which it was due in an open loop if that
#: was earlier; `resolved_at` when the outcome became known. Both are null if its producer died
#: first.
LEDGER = _table(
    required("producer", pa.int64()),
    required("sequence", pa.int64()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("outcome", pa.string()),
    pa.field("error", pa.string()),
    pa.field("offset", pa.int64()),
    pa.field("sent_at", TIME),
    pa.field("resolved_at", TIME),
)

#: One row a send of an application, to recognize its record. `kind` lists which of id, digest and
#: key its acked log has; `identity` joins the SHA-256 of each in hex.
IDENTITIES = _table(
    required("producer", pa.int64()),
    required("sequence", pa.int64()),
    required("kind", pa.string()),
    required("identity", pa.string()),
)

#: One row an acked send of an application that may or may not be lost; `reason` says why.
UNDECIDABLE = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("producer", pa.int64()),
    required("sequence", pa.int64()),
    required("reason", pa.string()),
)

#: One row a transaction that a producer ended or tried to end: its sends are those from
#: `first_sequence` up to, not including, `end_sequence`. `outcome` is committed, aborted or
#: unknown; `initialized_at` is when its producer had fenced all earlier ones of its
#: `transactional_id`; `predecessor` is the producer that it took over from, if any; `ended_at` is
#: null if its producer died first.
TRANSACTIONS = _table(
    required("producer", pa.int64()),
    required("transactional_id", pa.string()),
    pa.field("predecessor", pa.int64()),
    required("transaction", pa.int64()),
    required("first_sequence", pa.int64()),
    required("end_sequence", pa.int64()),
    required("outcome", pa.string()),
    pa.field("error", pa.string()),
    required("initialized_at", TIME),
    pa.field("ended_at", TIME),
)

#: One row a transaction that is open in a partition's log and unknown to its coordinator, so that
#: it does not end: the last stable offset stays at `start_offset`. Collected after all clients had
#: ended; the table is missing if there are none. `last_at` is the time in its newest record.
#: `aborted_at` is when an operator's abort ended it, null if that was refused.
HANGING_TRANSACTIONS = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("producer_id", pa.int64()),
    required("producer_epoch", pa.int32()),
    required("coordinator_epoch", pa.int32()),
    required("start_offset", pa.int64()),
    required("last_at", TIME),
    required("found_at", TIME),
    pa.field("aborted_at", TIME),
)

#: One row a record that a consumer's poll returned, in the order of its polls: `number` counts the
#: records of a poll. `producer` and `sequence` are null unless the record is intact.
READS = _table(
    required("consumer", pa.int64()),
    required("group", pa.string()),
    required("isolation_level", pa.string()),
    required("poll", pa.int64()),
    required("number", pa.int32()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("offset", pa.int64()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    required("read_at", TIME),
)

#: One row an event of a consumer, in order: `started`, `assigned`, `revoked`, `lost`, `committed`,
#: `commit-failed`, `rewound`, `follower-fetch`, `caught-up`, `closed`, `error`. `poll` is the
#: number of polls before it. `offset` is the partition's position (assigned, rewound, revoked,
#: follower-fetch; null if unknown), or the committed offset.
FOLLOWER_FETCH = "follower-fetch"
CONSUMER_EVENTS = _table(
    required("consumer", pa.int64()),
    required("group", pa.string()),
    required("at", TIME),
    required("poll", pa.int64()),
    required("event", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("error", pa.string()),
)

#: One row a record that a consumer has processed: the durable effect of processing it.
EFFECTS = _table(
    required("consumer", pa.int64()),
    required("group", pa.string()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("offset", pa.int64()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    required("processed_at", TIME),
)

#: Producers from this number on are the probe's, one for each partition. Their sends are in the
#: ledger, but do not count in the workload's metrics.
PROBE_PRODUCERS = 1_000_000

#: One row an attempt of the probe to read a partition's newest record, or to write one with
#: acks=all; `action` is read or write. `ok`: the leader answered without error; a read also if
#: there was no record. `answered_at` is null without an answer. `producer` and `sequence` name the
#: record that was read or written; null if a read returned no record of this run.
PROBE = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("action", pa.string()),
    required("at", TIME),
    pa.field("answered_at", TIME),
    required("ok", pa.bool_()),
    pa.field("offset", pa.int64()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    pa.field("error", pa.string()),
)

#: One row a record of every partition, as read after all faults healed and the ISR was full.
#: `producer` and `sequence` are null unless `state` is intact; `head` is the first 64 bytes in
#: hex for records that are not intact, null otherwise.
FINAL_LOG = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("offset", pa.int64()),
    required("written_at", TIME),
    required("state", pa.string()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    required("size", pa.int32()),
    pa.field("head", pa.string()),
)

#: The range of each partition. `complete`: the final log has everything from `begin_offset` up to
#: `end_offset` (the high watermark, at full ISR); if not, `reason` says why, and absent records of
#: the partition are unseen, not lost.
PARTITION_ENDS = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("begin_offset", pa.int64()),
    required("end_offset", pa.int64()),
    required("complete", pa.bool_()),
    pa.field("reason", pa.string()),
)

#: One row a record that two readers read differently, or that only one of them read. The table is
#: missing if they agree, or if there was only one reader (see `run.json`). `reader` is the Spark
#: data source that returned the record.
DISAGREEMENTS = pa.schema([*FINAL_LOG, required("reader", pa.string())])

#: One row a fault, with its times. `trigger` is the condition that started it. A fault that was not
#: verified has a null `verified_at`, and makes the run inconclusive. `facts` is a JSON object with
#: the numbers of `evidence`, null if there are none; older runs lack the column.
FAULT_WINDOWS = _table(
    required("window", pa.int32()),
    required("fault", pa.string()),
    required("target", pa.string()),
    required("nodes", pa.list_(pa.int32())),
    required("parameters", pa.string()),
    required("trigger", pa.string()),
    required("injected_at", TIME),
    pa.field("verified_at", TIME),
    pa.field("healed_at", TIME),
    pa.field("recovered_at", TIME),
    required("verified", pa.bool_()),
    required("evidence", pa.string()),
    pa.field("facts", pa.string()),
)

#: One row a change of a partition's state, from the controller's metadata log (before KRaft, from
#: ZooKeeper's transaction log). `metadata_offset` is the record's offset (the zxid). `leader` is -1
#: without a leader. `elr` and `last_known_elr` are KIP-966's, empty in older versions.
PARTITION_STATES = _table(
    required("at", TIME),
    required("metadata_offset", pa.int64()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("leader", pa.int32()),
    required("leader_epoch", pa.int32()),
    required("partition_epoch", pa.int32()),
    required("replicas", pa.list_(pa.int32())),
    required("isr", pa.list_(pa.int32())),
    required("elr", pa.list_(pa.int32())),
    required("last_known_elr", pa.list_(pa.int32())),
)

#: One row a change of a broker's registration: `registered`, `fenced`, `unfenced`,
#: `controlled-shutdown`, `unregistered`, from the same log. (In ZooKeeper a broker is `fenced`
#: when its session is over.)
BROKER_STATES = _table(
    required("at", TIME),
    required("metadata_offset", pa.int64()),
    required("broker", pa.int32()),
    required("state", pa.string()),
    required("broker_epoch", pa.int64()),
)

#: One row an anomaly, with its evidence. `offset` is that of the ack (lost, inconsistent, unseen),
#: of the record (duplicated, reordered, phantom, corrupt), of the read (read-then-gone), or of the
#: first record (hanging-transaction); `window` is the fault in force when the send resolved
#: (read-then-gone: when its record was read; hanging-transaction: when its last record was sent);
#: `found` describes the evidence, such as the record at that offset now.
ANOMALIES = _table(
    required("anomaly", pa.string()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    pa.field("offset", pa.int64()),
    pa.field("sent_at", TIME),
    pa.field("resolved_at", TIME),
    pa.field("window", pa.int32()),
    required("found", pa.string()),
)

#: One row a replica of a partition on its broker's disk after the run: `begin_offset` up to, not
#: including, `end_offset`. It excludes `torn_bytes` after the last whole batch. `complete`:
#: `replica_batches` has all of its batches; if not, `reason` says why.
REPLICA_LOGS = _table(
    required("broker", pa.int32()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("begin_offset", pa.int64()),
    required("end_offset", pa.int64()),
    required("bytes", pa.int64()),
    required("torn_bytes", pa.int64()),
    required("complete", pa.bool_()),
    pa.field("reason", pa.string()),
)

#: One row a batch of a replica's segments: its header, its position, and whether its bytes match
#: its checksum. `records` is null for older, compressed message sets; -1 is Kafka's "none".
REPLICA_BATCHES = _table(
    required("broker", pa.int32()),
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("segment", pa.string()),
    required("position", pa.int64()),
    required("base_offset", pa.int64()),
    required("last_offset", pa.int64()),
    required("leader_epoch", pa.int32()),
    required("size", pa.int32()),
    required("magic", pa.int32()),
    required("crc", pa.int64()),
    required("crc_ok", pa.bool_()),
    required("codec", pa.string()),
    required("producer_id", pa.int64()),
    required("producer_epoch", pa.int32()),
    required("base_sequence", pa.int32()),
    required("transactional", pa.bool_()),
    required("control", pa.bool_()),
    pa.field("records", pa.int32()),
    required("max_timestamp", pa.int64()),
)

#: One row an event that a broker logged, `kind` as in the harness's `broker_log`; values that the
#: line lacks are null. `offset` is the one at which a leader or a follower started, or to which a
#: broker truncated.
BROKER_EVENTS = _table(
    required("at", TIME),
    required("broker", pa.int32()),
    required("kind", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("leader", pa.int32()),
    pa.field("leader_epoch", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("high_watermark", pa.int64()),
    pa.field("isr", pa.list_(pa.int32())),
    required("text", pa.string()),
)

#: One row a lost record: the leader that acked it, the next leader and its start, the broker that
#: truncated it, the fault in force, and its case (`forensics.cases`). Unknown values are null.
#: `held_by` are brokers whose segments still have that offset in the epoch of the ack.
LOST_STORIES = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    pa.field("producer", pa.int64()),
    pa.field("sequence", pa.int64()),
    pa.field("offset", pa.int64()),
    pa.field("sent_at", TIME),
    pa.field("acked_at", TIME),
    pa.field("window", pa.int32()),
    pa.field("leader", pa.int32()),
    pa.field("leader_epoch", pa.int32()),
    pa.field("isr", pa.list_(pa.int32())),
    pa.field("next_leader", pa.int32()),
    pa.field("next_leader_epoch", pa.int32()),
    pa.field("next_leader_start", pa.int64()),
    pa.field("next_leader_high_watermark", pa.int64()),
    pa.field("elected_at", TIME),
    pa.field("election", pa.string()),
    pa.field("truncated_by", pa.int32()),
    pa.field("truncated_to", pa.int64()),
    pa.field("truncated_at", TIME),
    required("held_by", pa.list_(pa.int32())),
    required("case", pa.string()),
    required("cause", pa.string()),
)

#: One row a cause: lost records that share their story.
CAUSES = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("case", pa.string()),
    required("count", pa.int64()),
    pa.field("first_offset", pa.int64()),
    pa.field("last_offset", pa.int64()),
    pa.field("first_acked_at", TIME),
    pa.field("last_acked_at", TIME),
    pa.field("window", pa.int32()),
    required("sentence", pa.string()),
)

#: One row a partition while a run goes on: totals up to micro-batch `batch`. `acked_offset` is that
#: of the latest ack, `read_offset` the highest read, `lag` their difference; null before the first
#: ack or read. `unseen` sends are acked and not read yet; `candidates` are those below the highest
#: read offset.
LIVE_PARTITIONS = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("batch", pa.int64()),
    required("at", TIME),
    required("acked", pa.int64()),
    required("failed", pa.int64()),
    required("unknown", pa.int64()),
    required("read", pa.int64()),
    pa.field("acked_offset", pa.int64()),
    pa.field("read_offset", pa.int64()),
    pa.field("lag", pa.int64()),
    required("unseen", pa.int64()),
    required("candidates", pa.int64()),
)

#: One row a partition and window of time, `start` up to, not including, `end`, written once, when
#: the watermark has passed its end. Outcomes count where they became known, reads where the job
#: read them. `availability`: see `live.partition`. `lag` is that at the window's end; `unseen`
#: and `candidates` are those of the window's own acks, at the time of writing.
LIVE_WINDOWS = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("start", TIME),
    required("end", TIME),
    required("acked", pa.int64()),
    required("failed", pa.int64()),
    required("unknown", pa.int64()),
    required("read", pa.int64()),
    required("acked_per_s", pa.float64()),
    required("availability", pa.float64()),
    pa.field("lag", pa.int64()),
    required("unseen", pa.int64()),
    required("candidates", pa.int64()),
)

#: One row a change: a send acked at `offset` was `raised` as a loss candidate because offset
#: `overtaken_by` was read and it was not, or `withdrawn` because it was read after all. A hint: the
#: verdict is that of the final log.
LOSS_CANDIDATES = _table(
    required("topic", pa.string()),
    required("partition", pa.int32()),
    required("at", TIME),
    required("change", pa.string()),
    required("producer", pa.int64()),
    required("sequence", pa.int64()),
    required("offset", pa.int64()),
    required("overtaken_by", pa.int64()),
)

#: Where each table lives inside a run directory: a Parquet file or a folder of them.
LOCATION = {
    "ledger": Path("ledger"),
    "identities": Path("identities"),
    "undecidable": Path("undecidable"),
    "final_log": Path("final_log"),
    "partition_ends": Path("partition_ends.parquet"),
    "disagreements": Path("disagreements"),
    "fault_windows": Path("fault_windows.parquet"),
    "partition_states": Path("partition_states.parquet"),
    "broker_states": Path("broker_states.parquet"),
    "anomalies": Path("anomalies"),
    "replica_logs": Path("replica_logs.parquet"),
    "replica_batches": Path("replica_batches"),
    "broker_events": Path("broker_events.parquet"),
    "lost_stories": Path("lost_stories"),
    "causes": Path("causes.parquet"),
    "transactions": Path("transactions"),
    "hanging_transactions": Path("hanging_transactions.parquet"),
    "reads": Path("reads"),
    "consumer_events": Path("consumer_events"),
    "effects": Path("effects"),
    "probe": Path("probe"),
    "live_partitions": Path("live/partitions.parquet"),
    "live_windows": Path("live/windows"),
    "loss_candidates": Path("live/loss_candidates"),
}

#: The columns of each table by its name, which is that of its schema here.
SCHEMAS: dict[str, pa.Schema] = {name: globals()[name.upper()] for name in LOCATION}

#: The files in the folder of a table that are its parts; other files are no data.
PARTS = "*.parquet"

#: Tables that a complete run may lack: those of applications, consumers, transactions, forensics,
#: live jobs and a second reader.
OPTIONAL = (
    "identities",
    "undecidable",
    "transactions",
    "hanging_transactions",
    "reads",
    "consumer_events",
    "effects",
    "probe",
    "replica_logs",
    "replica_batches",
    "broker_events",
    "lost_stories",
    "causes",
    "disagreements",
    "live_partitions",
    "live_windows",
    "loss_candidates",
)
