"""The tables of a history check, as Arrow schemas: micro-operations in, anomalies out.

Importable without Spark. Every row has a `history`, a number, because one set of Spark jobs checks
many histories.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from ackproof_spark.tables import columns


class Completion(StrEnum):
    """The outcome of an operation, in Jepsen's words.

    `OK`: done. `FAIL`: certainly without effect. `INFO`: unknown.
    """

    OK = "ok"
    INFO = "info"
    FAIL = "fail"


class Action(StrEnum):
    """An operation sent a record, or a poll returned it."""

    SEND = "send"
    POLL = "poll"


class Function(StrEnum):
    """The kind of an operation.

    `SEND`, `POLL`, `TXN`: a transaction of sends, of polls, of both. `SUBSCRIBE`, `ASSIGN`: the
    process consumes `keys` from now on. `CRASH`: its clients are replaced by new ones.
    `DEBUG`: Jepsen's `debug-topic-partitions`; has no effect.
    """

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"
    CRASH = "crash"
    DEBUG = "debug-topic-partitions"


#: Functions that send or poll.
TRANSACTIONS = (Function.TXN, Function.SEND, Function.POLL)


class HistoryAnomaly(StrEnum):
    """Every anomaly of a history. The names up to `G1C_PROCESS` and their evidence are Jepsen's."""

    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    DUPLICATE = "duplicate"
    LOST_WRITE = "lost-write"
    UNSEEN = "unseen"
    G1A = "G1a"
    PRECOMMITTED_READ = "precommitted-read"
    INT_POLL_SKIP = "int-poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    INT_SEND_SKIP = "int-send-skip"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    POLL_SKIP = "poll-skip"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    NONMONOTONIC_SEND = "nonmonotonic-send"
    G0 = "G0"
    G0_PROCESS = "G0-process"
    G1C = "G1c"
    G1C_PROCESS = "G1c-process"
    PHANTOM = "phantom"
    TORN_TRANSACTION = "torn-transaction"
    G1C_WR = "G1c-wr"
    G_SINGLE = "G-single"
    G2_ITEM = "G2-item"


#: Anomalies that Jepsen's checker lacks.
FURTHER = (
    HistoryAnomaly.PHANTOM,
    HistoryAnomaly.TORN_TRANSACTION,
    HistoryAnomaly.G1C_WR,
    HistoryAnomaly.G_SINGLE,
    HistoryAnomaly.G2_ITEM,
)


#: One row for each record that an operation sent or polled; an operation without records has one
#: row, with null `action`.
#:
#: `op` numbers a history's completed operations from 0, in the order of their completion;
#: `number` an operation's records from 0, in the order it sent and polled them. `process` runs
#: one operation at a time. `key` is a partition of a topic; `value` is the record's value as text,
#: sent at most once to a key; `offset` is null if unknown. `keys`: those of an `assign` or
#: `subscribe`; of other operations, those that were rebalanced while they ran.
MICRO_OPS = columns("""
    history bigint, op bigint, process string, type string, f string, keys array<string>,
    number bigint, action string?, key string?, offset bigint?, value string?
""")

#: A dependency between two successive operations in `ops`. `relation` is `ww`, `wr`, `rw` or
#: `process`; `key` and `values` are those of the records that prove it.
STEP = pa.struct(columns("relation string, key string?, values array<string>"))

#: One row for each anomaly; `check` documents the columns of each kind.
#:
#: `ops` are the operations concerned; the anomaly shows in the last one, at its record `number`.
#: `index` counts a key's offsets without gaps.
ANOMALIES = columns("""
    history bigint, anomaly string, key string?, values array<string>?, ops array<bigint>?,
    number bigint?, offsets array<bigint>?, index bigint?, max_read_index bigint?, delta bigint?,
    skipped array<string>?, other_key string?
""").append(pa.field("steps", pa.list_(STEP)))
