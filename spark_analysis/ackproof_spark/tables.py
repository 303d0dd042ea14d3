"""The columns of every table of a run, as Arrow schemas.

Importable without Spark. Tables are stored as Parquet with plain types only, so that Spark 3.5 and
later, DuckDB, pandas and Superset read them without ackproof. Every table has the columns
`schema_version` and `run_id`, which are constant and need nearly no space.

Times are UTC microseconds. `producer` and `sequence` name a send (see `record`).
"""

from __future__ import annotations

import re
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


_KINDS = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": TIME,
    "array<bigint>": pa.list_(pa.int64()),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


def columns(text: str) -> pa.Schema:
    """Return the columns that `text` lists, such as `topic string, offset bigint?`.

    The types have Spark's names; those of columns that may be null end with `?`.
    """
    pairs = (column.split() for column in re.split(r",\s", text))
    return pa.schema(
        pa.field(name, _KINDS[kind.removesuffix("?")], nullable=kind.endswith("?"))
        for name, kind in pairs
    )


def _table(text: str) -> pa.Schema:
    return columns(f"schema_version int, run_id string, {text}")


#: One row a send. `offset` is null unless the send is acked and the broker reported its offset
#: (never with acks=0). A send in a transaction is acked when the transaction is committed.
#: `sent_at` is the time at which the client got it, or at which it was due in an open loop if that
#: was earlier; `resolved_at` when the outcome became known. Both are null if its producer died
#: first.
LEDGER = _table("""
    producer bigint, sequence bigint, topic string, partition int, outcome string,
    error string?, offset bigint?, sent_at timestamp?, resolved_at timestamp?
""")

#: One row a send of an application, to recognize its record. `kind` lists which of id, digest and
#: key its acked log has; `identity` joins the SHA-256 of each in hex. `text`: its key, else its id,
#: else the digest, such as `key order-17`.
IDENTITIES = _table("""
    producer bigint, sequence bigint, kind string, identity string, text string?
""")

#: One row an acked send of an application that may or may not be lost; `reason` says why.
UNDECIDABLE = _table("topic string, partition int, producer bigint, sequence bigint, reason string")

#: One row a transaction that a producer ended or tried to end: its sends are those from
#: `first_sequence` up to, not including, `end_sequence`. `outcome` is committed, aborted or
#: unknown; `initialized_at` is when its producer had fenced all earlier ones of its
#: `transactional_id`; `predecessor` is the producer that it took over from, if any; `ended_at` is
#: null if its producer died first.
TRANSACTIONS = _table("""
    producer bigint, transactional_id string, predecessor bigint?, transaction bigint,
    first_sequence bigint, end_sequence bigint, outcome string, error string?,
    initialized_at timestamp, ended_at timestamp?
""")

#: One row a transaction that is open in a partition's log and unknown to its coordinator, so that
#: it does not end: the last stable offset stays at `start_offset`. Collected after all clients had
#: ended; the table is missing if there are none. `last_at` is the time in its newest record.
#: `aborted_at` is when an operator's abort ended it, null if that was refused.
HANGING_TRANSACTIONS = _table("""
    topic string, partition int, producer_id bigint, producer_epoch int, coordinator_epoch int,
    start_offset bigint, last_at timestamp, found_at timestamp, aborted_at timestamp?
""")

#: One row a record that a consumer's poll returned, in the order of its polls: `number` counts the
#: records of a poll. `producer` and `sequence` are null unless the record is intact.
READS = _table("""
    consumer bigint, group string, isolation_level string, poll bigint, number int,
    topic string, partition int, offset bigint, producer bigint?, sequence bigint?,
    read_at timestamp
""")

#: One row a record of `reads` or `acquisitions`, by which the record of an application is
#: recognized: the SHA-256, in hex, of its id, its value and its key. `id` and `key` are null if it
#: has none; a delivery log may lack each. The table is missing if ackproof's producers sent.
READ_IDENTITIES = _table("""
    consumer bigint, group string, poll bigint, number int, id string?, digest string?, key string?
""")

#: One row an event of a consumer, in order: `started`, `assigned`, `revoked`, `lost`, `committed`,
#: `commit-failed`, `rewound`, `follower-fetch`, `caught-up`, `closed`, `error`. `poll` is the
#: number of polls before it. `offset` is the partition's position (assigned, rewound, revoked,
#: follower-fetch; null if unknown), or the committed offset.
FOLLOWER_FETCH = "follower-fetch"
CONSUMER_EVENTS = _table("""
    consumer bigint, group string, at timestamp, poll bigint, event string, topic string?,
    partition int?, offset bigint?, error string?
""")

#: One row a record that a consumer has processed: the durable effect of processing it.
EFFECTS = _table("""
    consumer bigint, group string, topic string, partition int, offset bigint, producer bigint?,
    sequence bigint?, processed_at timestamp
""")

#: One row a record that a poll of a share consumer returned, and that its group has acquired with
#: it; as `reads`. `delivery_count` is the broker's.
ACQUISITIONS = _table("""
    consumer bigint, group string, poll bigint, number int, topic string, partition int,
    offset bigint, producer bigint?, sequence bigint?, delivery_count int?, read_at timestamp
""")

#: One row an acknowledgement of such a record: `kind` is accept, release, reject or renew. It
#: has no `answered_at` if the consumer got no answer, and `error` if the brokers refused it.
ACKNOWLEDGEMENTS = _table("""
    consumer bigint, group string, poll bigint, number int, topic string, partition int,
    offset bigint, producer bigint?, sequence bigint?, kind string, asked_at timestamp,
    answered_at timestamp?, error string?
""")

#: The answers that certainly refuse an acknowledgement: the lock of the record had expired. The
#: second one is the client's own. After others the brokers may have carried it out.
LOCK_EXPIRED = ("INVALID_RECORD_STATE", "not in flight")

#: One row a partition and share group, when its consumers were asked to end. `lag` counts the
#: records that are neither accepted nor archived, up to the closing record: the group is at rest in
#: a partition if it is 0. `earliest`: whether the group has to begin at the log's begin.
#: `delivery_limit`: how often it may get a record. `dead_letters`: the topic for records that it
#: gives up. `keys`: the number of keys that the sends of each producer take in turn; null without.
SHARE_GROUPS = _table("""
    group string, topic string, partition int, start_offset bigint?, lag bigint?, earliest boolean,
    delivery_limit int, dead_letters string?, keys int?
""")

#: One row a dead letter of a share group (KIP-1191): the record that it stands for, as its headers
#: name it.
DEAD_LETTERS = _table("""
    group string, topic string, partition int, offset bigint, delivery_count int?, reason string?,
    written_at timestamp
""")

#: Producers from this number on are the probe's, one for each partition. Their sends are in the
#: ledger, but do not count in the workload's metrics.
PROBE_PRODUCERS = 1_000_000

#: One row an attempt of the probe to read a partition's newest record, or to write one with
#: acks=all; `action` is read or write. `ok`: the leader answered without error; a read also if
#: there was no record. `answered_at` is null without an answer. `producer` and `sequence` name the
#: record that was read or written; null if a read returned no record of this run.
PROBE = _table("""
    topic string, partition int, action string, at timestamp, answered_at timestamp?,
    ok boolean, offset bigint?, producer bigint?, sequence bigint?, error string?
""")

#: One row a record of every partition, as read after all faults healed and the ISR was full.
#: `producer` and `sequence` are null unless `state` is intact; `head` is the first 64 bytes in
#: hex for records that are not intact, null otherwise.
FINAL_LOG = _table("""
    topic string, partition int, offset bigint, written_at timestamp, state string,
    producer bigint?, sequence bigint?, size int, head string?
""")

#: The range of each partition. `complete`: the final log has everything from `begin_offset` up to
#: `end_offset` (the high watermark, at full ISR); if not, `reason` says why, and absent records of
#: the partition are unseen, not lost.
PARTITION_ENDS = _table("""
    topic string, partition int, begin_offset bigint, end_offset bigint, complete boolean,
    reason string?
""")

#: One row a record that two readers read differently, or that only one of them read. The table is
#: missing if they agree, or if there was only one reader (see `run.json`). `reader` is the Spark
#: data source that returned the record.
DISAGREEMENTS = pa.schema([*FINAL_LOG, *columns("reader string")])

#: One row a fault, with its times. `trigger` is the condition that started it. A fault that was not
#: verified has a null `verified_at`, and makes the run inconclusive. `facts` is a JSON object with
#: the numbers of `evidence`, null if there are none.
FAULT_WINDOWS = _table("""
    window int, fault string, target string, nodes array<int>, parameters string,
    trigger string, injected_at timestamp, verified_at timestamp?, healed_at timestamp?,
    recovered_at timestamp?, verified boolean, evidence string, facts string?
""")

#: One row a change of a partition's state, from the controller's metadata log (before KRaft, from
#: ZooKeeper's transaction log). `metadata_offset` is the record's offset (the zxid). `leader` is -1
#: without a leader. `elr` and `last_known_elr` are KIP-966's, empty in older versions.
PARTITION_STATES = _table("""
    at timestamp, metadata_offset bigint, topic string, partition int, leader int,
    leader_epoch int, partition_epoch int, replicas array<int>, isr array<int>, elr array<int>,
    last_known_elr array<int>
""")

#: One row a change of a broker's registration: `registered`, `fenced`, `unfenced`,
#: `controlled-shutdown`, `unregistered`, from the same log. (In ZooKeeper a broker is `fenced`
#: when its session is over.)
BROKER_STATES = _table(
    "at timestamp, metadata_offset bigint, broker int, state string, broker_epoch bigint"
)

#: One row an anomaly, with its evidence. `offset` is that of the ack (lost, inconsistent, unseen),
#: of the record (duplicated, reordered, phantom, corrupt), of the read (read-then-gone), or of the
#: first record (hanging-transaction); `window` is the fault in force when the send resolved
#: (read-then-gone: when its record was read; hanging-transaction: when its last record was sent);
#: `found` describes the evidence, such as the record at that offset now.
ANOMALIES = _table("""
    anomaly string, topic string, partition int, producer bigint?, sequence bigint?,
    offset bigint?, sent_at timestamp?, resolved_at timestamp?, window int?, found string
""")

#: One row a replica of a partition on its broker's disk after the run: `begin_offset` up to, not
#: including, `end_offset`. It excludes `torn_bytes` after the last whole batch. `complete`:
#: `replica_batches` has all of its batches; if not, `reason` says why.
REPLICA_LOGS = _table("""
    broker int, topic string, partition int, begin_offset bigint, end_offset bigint,
    bytes bigint, torn_bytes bigint, complete boolean, reason string?
""")

#: One row a batch of a replica's segments: its header, its position, and whether its bytes match
#: its checksum. `records` is null for older, compressed message sets; -1 is Kafka's "none".
REPLICA_BATCHES = _table("""
    broker int, topic string, partition int, segment string, position bigint,
    base_offset bigint, last_offset bigint, leader_epoch int, size int, magic int, crc bigint,
    crc_ok boolean, codec string, producer_id bigint, producer_epoch int, base_sequence int,
    transactional boolean, control boolean, records int?, max_timestamp bigint
""")

#: One row an event that a broker logged, `kind` as in the harness's `broker_log`; values that the
#: line lacks are null. `offset` is the one at which a leader or a follower started, or to which a
#: broker truncated.
BROKER_EVENTS = _table("""
    at timestamp, broker int, kind string, topic string?, partition int?, leader int?,
    leader_epoch int?, offset bigint?, high_watermark bigint?, isr array<int>?, text string
""")

#: One row a lost record: the leader that acked it, the next leader and its start, the broker that
#: truncated it, the fault in force, and its case (`forensics.cases`). Unknown values are null.
#: `held_by` are brokers whose segments still have that offset in the epoch of the ack. If the
#: transaction hung without its COMMIT marker, leaders and truncation are those of the marker.
LOST_STORIES = _table("""
    topic string, partition int, producer bigint?, sequence bigint?, offset bigint?,
    sent_at timestamp?, acked_at timestamp?, window int?, leader int?, leader_epoch int?,
    isr array<int>?, next_leader int?, next_leader_epoch int?, next_leader_start bigint?,
    next_leader_high_watermark bigint?, elected_at timestamp?, election string?,
    truncated_by int?, truncated_to bigint?, truncated_at timestamp?, held_by array<int>,
    case string, cause string
""")

#: One row a cause: lost records that share their story.
CAUSES = _table("""
    topic string, partition int, case string, count bigint, first_offset bigint?,
    last_offset bigint?, first_acked_at timestamp?, last_acked_at timestamp?, window int?,
    sentence string
""")

#: One row a partition while a run goes on: totals up to micro-batch `batch`. `acked_offset` is that
#: of the latest ack, `read_offset` the highest read, `lag` their difference; null before the first
#: ack or read. `unseen` sends are acked and not read yet; `candidates` are those below the highest
#: read offset, with those found `lost`.
LIVE_PARTITIONS = _table("""
    topic string, partition int, batch bigint, at timestamp, acked bigint, failed bigint,
    unknown bigint, read bigint, acked_offset bigint?, read_offset bigint?, lag bigint?,
    unseen bigint, candidates bigint
""")

#: One row a finding of the live job, in the words of a watch (`watch.partition.Finding`): a send
#: that was acked at `offset`, or from there on `records` records. `other_offset`: of a doubled
#: record, that of the send. A hint: the verdict is that of the final log.
LIVE_FINDINGS = _table("""
    topic string, partition int, at timestamp, finding string, producer bigint?, sequence bigint?,
    offset bigint?, records bigint, other_offset bigint?
""")

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
    "read_identities": Path("read_identities"),
    "consumer_events": Path("consumer_events"),
    "effects": Path("effects"),
    "acquisitions": Path("acquisitions"),
    "acknowledgements": Path("acknowledgements"),
    "share_groups": Path("share_groups.parquet"),
    "dead_letters": Path("dead_letters.parquet"),
    "probe": Path("probe"),
    "live_partitions": Path("live/partitions.parquet"),
    "live_findings": Path("live/findings"),
}

#: The columns of each table by its name, which is that of its schema here.
SCHEMAS: dict[str, pa.Schema] = {name: globals()[name.upper()] for name in LOCATION}

#: The files in the folder of a table that are its parts; other files are no data.
PARTS = "*.parquet"

#: Tables that a complete run may lack: those of applications, consumers, transactions, forensics,
#: live jobs and a second reader.
OPTIONAL = LOCATION.keys() - {
    *("ledger", "final_log", "partition_ends", "fault_windows", "anomalies"),
    *("partition_states", "broker_states"),
}
