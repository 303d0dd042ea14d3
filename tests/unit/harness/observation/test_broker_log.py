"""Lines as real brokers wrote them; those of older releases as their source has them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackproof.observation.broker_log import BrokerEvent, Kind, parse, read_logs

AT_4 = datetime(2026, 11, 21, 13, 12, 59, 704_000, tzinfo=UTC)
T4, T3 = "[2026-11-21T13:12:59,704] INFO ", "[2026-11-21 13:12:59,704] INFO "
LEADER = (
    "[Broker id=2] Leader orders-0 with topic id Some(Qaw_7ywnTPiZg7ZpNphf7A) starts at leader "
    "epoch 1 from offset 1141 with partition epoch 1, high watermark 1119, ISR [2,3], adding "
    "replicas [] and removing replicas [] . Previous leader Some(1) and previous leader epoch "
    "was 0. (state.change.logger)"
)
FOLLOWER = (
    "[Broker id=1] Follower orders-0 starts at leader epoch 1 from offset 2859 with partition "
    "epoch 1 and high watermark 1137. Current leader is 2. Previous leader None and previous "
    "leader epoch was -1. (state.change.logger)"
)
TRUNCATING = (
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition orders-0 with "
    "TruncationState(offset=1141, completed=true) due to leader epoch and offset "
    "EpochEndOffset(errorCode=0, partition=0, leaderEpoch=0, endOffset=1141) "
    "(kafka.server.ReplicaFetcherThread)"
)
LOG = "[UnifiedLog partition=orders-0, dir=/var/lib/ackproof/data] "
PARTITION = {"topic": "orders", "partition": 0}

LINES = {
    "a leader": (
        LEADER,
        {
            "kind": Kind.LEADER,
            "leader": 2,
            "leader_epoch": 1,
            "offset": 1141,
            "high_watermark": 1119,
            "isr": (2, 3),
            **PARTITION,
        },
    ),
    "a follower": (
        FOLLOWER,
        {
            "kind": Kind.FOLLOWER,
            "leader": 2,
            "leader_epoch": 1,
            "offset": 2859,
            "high_watermark": 1137,
            **PARTITION,
        },
    ),
    "a truncation decided": (TRUNCATING, {"kind": Kind.TRUNCATING, "offset": 1141, **PARTITION}),
    "a truncation": (
        LOG + "Truncating to offset 1141 (org.apache.kafka.storage.internals.log.UnifiedLog)",
        {"kind": Kind.TRUNCATED, "offset": 1141, **PARTITION},
    ),
    "an ISR": (
        "[Partition orders-0 broker=2] ISR updated to 1,2,3  and version updated to 2 "
        "(kafka.cluster.Partition)",
        {"kind": Kind.ISR_CHANGED, "isr": (1, 2, 3), "partition_epoch": 2, **PARTITION},
    ),
    "an ISR that is too small": (
        "[Partition orders-0 broker=2] ISR updated to 2 (under-min-isr) and version updated to 5 "
        "(kafka.cluster.Partition)",
        {"kind": Kind.ISR_CHANGED, "isr": (2,), "partition_epoch": 5, **PARTITION},
    ),
    "a shrinking ISR": (
        "[Partition orders-0 broker=2] Shrinking ISR from 2,3,1 to 2. Leader: (highWatermark: "
        "100, endOffset: 180). Out of sync replicas: (brokerId: 3, endOffset: 100, "
        "lastCaughtUpTimeMs: 1795267199301). (kafka.cluster.Partition)",
        {
            "kind": Kind.ISR_SHRINKING,
            "isr": (2,),
            "offset": 180,
            "high_watermark": 100,
            **PARTITION,
        },
    ),
    "a fetcher": (
        "[ReplicaFetcherManager on broker 2] Added fetcher to broker 1 for partitions HashMap("
        "orders-0 -> InitialFetchState(Some(IT0R-34hT9qf6ZuWsUYDCQ),BrokerEndPoint[id=1, "
        "host=broker-1, port=9092],1,5513)) (kafka.server.ReplicaFetcherManager)",
        {"kind": Kind.FETCHING, "leader": 1, "leader_epoch": 1, "offset": 5513, **PARTITION},
    ),
    "a fetcher of Kafka 3.9": (
        "[ReplicaFetcherManager on broker 2] Added fetcher to broker 1 for partitions HashMap("
        "orders-0 -> InitialFetchState(Some(kXyB6TwwSGCRIcNRGN-SWQ),BrokerEndPoint(id=1, "
        "host=broker-1:9092),4,70)) (kafka.server.ReplicaFetcherManager)",
        {"kind": Kind.FETCHING, "leader": 1, "leader_epoch": 4, "offset": 70, **PARTITION},
    ),
    "a log loaded": (
        "Completed load of Log(dir=/var/lib/ackproof/data/orders-0, topicId=IT0R-34hT9qf6ZuWsUYDCQ"
        ", topic=orders, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, "
        "logEndOffset=5513) with 1 segments, local-log-start-offset 0 and log-end-offset 5513 in "
        "664ms (3/3 completed in /var/lib/ackproof/data) (kafka.log.LogManager)",
        {"kind": Kind.LOADED, "offset": 5513, **PARTITION},
    ),
    "a log loaded by 0.10.2": (
        "Completed load of log orders-0 with 1 log segments and log end offset 5169 in 85 ms "
        "(kafka.log.Log)",
        {"kind": Kind.LOADED, "offset": 5169, **PARTITION},
    ),
    "a torn log": (
        "[LogLoader partition=orders-0, dir=/var/lib/ackproof/data] Corruption found in segment "
        "0, truncating to offset 77 (org.apache.kafka.storage.internals.log.LogLoader)",
        {"kind": Kind.RECOVERY_TRUNCATED, "offset": 77, **PARTITION},
    ),
    "an unclean start": (
        "Recovering 3 logs from /var/lib/ackproof/data since no clean shutdown file was found "
        "(kafka.log.LogManager)",
        {"kind": Kind.UNCLEAN_START},
    ),
    "a clean start": (
        "Skipping recovery of 3 logs from /var/lib/ackproof/data since clean shutdown file was "
        "found (kafka.log.LogManager)",
        {"kind": Kind.CLEAN_START},
    ),
    "an unfencing": (
        "[BrokerLifecycleManager id=1] The broker has been unfenced. Transitioning from RECOVERY "
        "to RUNNING. (org.apache.kafka.server.BrokerLifecycleManager)",
        {"kind": Kind.UNFENCED},
    ),
    "a shutdown": (
        "[BrokerLifecycleManager id=1] Beginning controlled shutdown. "
        "(kafka.server.BrokerLifecycleManager)",
        {"kind": Kind.SHUTTING_DOWN},
    ),
    "a skipped marker": (
        "[Transaction Marker Channel Manager 3]: Couldn't find leader endpoint for partitions "
        "Set(orders-0) while trying to send transaction markers for payments-1, these partitions "
        "are likely deleted already and hence can be skipped "
        "(kafka.coordinator.transaction.TransactionMarkerChannelManager)",
        {"kind": Kind.MARKER_SKIPPED, **PARTITION},
    ),
    "a leader of 3.2": (
        "[Broker id=1] Leader orders-1 starts at leader epoch 2 from offset 1179 with high "
        "watermark 1170 ISR [1] addingReplicas [] removingReplicas []. Previous leader epoch was "
        "1. (state.change.logger)",
        {
            "kind": Kind.LEADER,
            "leader": 2,
            "leader_epoch": 2,
            "offset": 1179,
            "high_watermark": 1170,
            "isr": (1,),
            "topic": "orders",
            "partition": 1,
        },
    ),
    "a leader of 2.4": (
        "[Partition orders-0 broker=2] orders-0 starts at leader epoch 3 from offset 7 with high "
        "watermark 6. Previous leader epoch was 2. (kafka.cluster.Partition)",
        {
            "kind": Kind.LEADER,
            "leader": 2,
            "leader_epoch": 3,
            "offset": 7,
            "high_watermark": 6,
            **PARTITION,
        },
    ),
    "a leader of 0.11": (
        "Partition [orders,0] on broker 2: orders-0 starts at Leader Epoch 3 from offset 7. "
        "Previous Leader Epoch was: 2 (kafka.cluster.Partition)",
        {"kind": Kind.LEADER, "leader": 2, "leader_epoch": 3, "offset": 7, **PARTITION},
    ),
    "a follower of 3.2": (
        "[Broker id=1] Follower orders-0 starts at leader epoch 1 from offset 961 with high "
        "watermark 838. Previous leader epoch was 0. (state.change.logger)",
        {
            "kind": Kind.FOLLOWER,
            "leader_epoch": 1,
            "offset": 961,
            "high_watermark": 838,
            **PARTITION,
        },
    ),
    "a truncation of 3.0": (
        "[Log partition=orders-0, dir=/data] Truncating to offset 5 (kafka.log.Log)",
        {"kind": Kind.TRUNCATED, "offset": 5, **PARTITION},
    ),
    "a truncation of 0.11": (
        "Truncating log orders-0 to offset 5. (kafka.log.Log)",
        {"kind": Kind.TRUNCATED, "offset": 5, **PARTITION},
    ),
    "an ISR of 2.4": (
        "[Partition orders-0 broker=2] ISR updated to [2,3] and zkVersion updated to [5] "
        "(kafka.cluster.Partition)",
        {"kind": Kind.ISR_CHANGED, "isr": (2, 3), "partition_epoch": 5, **PARTITION},
    ),
    "an ISR of 3.0": (
        "[Partition orders-0 broker=2] ISR updated to 2,3 and version updated to [5] "
        "(kafka.cluster.Partition)",
        {"kind": Kind.ISR_CHANGED, "isr": (2, 3), "partition_epoch": 5, **PARTITION},
    ),
    "a fetcher of 2.8": (
        "[ReplicaFetcherManager on broker 2] Added fetcher to broker 1 for partitions Map(orders-0 "
        "-> InitialFetchState(BrokerEndPoint(id=1, host=broker-1:9092),4,70)) "
        "(kafka.server.ReplicaFetcherManager)",
        {"kind": Kind.FETCHING, "leader": 1, "leader_epoch": 4, "offset": 70, **PARTITION},
    ),
    "a log loaded by 2.3": (
        "[Log partition=orders-0, dir=/data] Completed load of log with 1 segments, log start "
        "offset 0 and log end offset 5169 in 85 ms (kafka.log.Log)",
        {"kind": Kind.LOADED, "offset": 5169, **PARTITION},
    ),
    "a torn log of 2.8": (
        "[Log partition=orders-0, dir=/data] Corruption found in segment 0, truncating to offset "
        "77 (kafka.log.Log)",
        {"kind": Kind.RECOVERY_TRUNCATED, "offset": 77, **PARTITION},
    ),
    "an unclean start of 3.4": (
        "Attempting recovery for all logs in /data since no clean shutdown file was found "
        "(kafka.log.LogManager)",
        {"kind": Kind.UNCLEAN_START},
    ),
    "a clean start of 3.4": (
        "Skipping recovery for all logs in /data since clean shutdown file was found "
        "(kafka.log.LogManager)",
        {"kind": Kind.CLEAN_START},
    ),
}
NOTHING = [
    "[Log partition=orders-0.7b5035e3edc943b3baf5fe106f76c8f7-delete, dir=/data] Completed load of "
    "log with 1 segments, log start offset 0 and log end offset 7 in 4 ms (kafka.log.Log)",
    LOG + "Truncating to 0 has no effect as the largest offset in the log is -1 (kafka.log.X)",
    "[BrokerServer id=1] Waiting for the broker to be unfenced (kafka.server.BrokerServer)",
    "java.io.IOException: ISR updated to nothing",
    # The log of a deleted topic of the same name.
    "Completed load of log orders-0.7b5035e3edc943b3baf5fe106f76c8f7-delete with 1 log segments "
    "and log end offset 7 in 4 ms (kafka.log.Log)",
    "Completed load of Log(dir=/data/orders-0.7b5035e3edc943b3baf5fe106f76c8f7-delete, topicId=H5_"
    ", topic=orders, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, "
    "logEndOffset=0) with 1 segments, local-log-start-offset 0 and log-end-offset 0 in 4ms "
    "(1/6 completed in /data) (kafka.log.LogManager)",
]


@pytest.mark.parametrize("stamp", [T4, T3], ids=["log4j 2", "log4j 1"])
@pytest.mark.parametrize("name", LINES)
def test_a_line_is_an_event(name, stamp):
    line, fields = LINES[name]
    (event,) = parse([stamp + line + "\n"], broker=2)
    text = line.rpartition(" (")[0]
    assert event == BrokerEvent(at=AT_4, broker=2, text=text, **fields)


def test_a_line_about_several_partitions_is_one_event_for_each():
    state = "InitialFetchState(Some(x),BrokerEndPoint[id=1, host=b, port=9092],{},{})"
    line = (
        f"Added fetcher to broker 1 for partitions HashMap(a-b-0 -> {state.format(1, 7)}, "
        f"orders-1 -> {state.format(2, 9)}) (kafka.server.ReplicaFetcherManager)"
    )
    events = [
        (event.topic, event.partition, event.leader_epoch, event.offset)
        for event in parse([T4 + line], broker=2)
    ]
    assert events == [("a-b", 0, 1, 7), ("orders", 1, 2, 9)]


@pytest.mark.parametrize("line", NOTHING)
def test_other_lines_are_ignored(line):
    assert list(parse([T4 + line, line], broker=1)) == []


def test_partitions_of_other_topics_are_left_out(tmp_path: Path):
    other = LEADER.replace("orders-0", "__consumer_offsets-3")
    (tmp_path / "b2.log").write_text(f"{T4}{other}\n{T4}{LEADER}\n")
    (tmp_path / "b1.log").write_bytes(b"\xff\xfe\n" + (T3 + FOLLOWER).encode() + b"\n")
    events = read_logs(tmp_path, {1: "b1", 2: "b2", 3: "b3"}, topics=["orders"])
    assert [(event.broker, event.kind) for event in events] == [(1, "follower"), (2, "leader")]


def test_a_topic_name_may_contain_dashes():
    (event,) = parse([T4 + LEADER.replace("orders-0", "my-orders-12")], broker=2)
    assert (event.topic, event.partition) == ("my-orders", 12)


START = T4 + "Registered signal handlers for TERM, INT, HUP (o.a.k.LoggingSignalHandler)"
SIGNAL = T4 + "Terminating process due to signal SIGTERM (o.a.k.LoggingSignalHandler)"
FATAL = "[2026-11-21 13:12:59,704] ERROR Encountered fatal fault: Error starting LogManager (o.a.k)"
EXCEPTION = "java.lang.IllegalStateException: Duplicate log directories for orders-2"
TRACE = "\tat kafka.log.LogManager.loadLog(LogManager.scala:371)"
STARTS = f"Encountered fatal fault: Error starting LogManager: {EXCEPTION}"
OFFLINE = "Shutting down because couldn't communicate offline log dir L7VX with controllers"
HALTED = "Shutdown broker because all log dirs in /data have failed"


@pytest.mark.parametrize(
    ("lines", "whys"),
    [
        ([FATAL, EXCEPTION, TRACE], [STARTS]),
        ([f"{T4}{OFFLINE} (o.a.k)", f"{T4}Beginning controlled shutdown. (o.a.k)"], [OFFLINE]),
        ([f"{T3}{HALTED} (kafka.log.LogManager)"], [HALTED]),
        ([SIGNAL, FATAL, EXCEPTION], []),
        ([SIGNAL, START, FATAL, EXCEPTION], [STARTS]),
        ([f"{T4}Stopping serving logs in dir /data (kafka.log.LogManager)"], []),
    ],
)
def test_a_process_that_ended_by_itself_says_why(lines, whys):
    """Unless a signal had asked it to end; lines of Kafka 3.7.0 and 4.3.1."""
    events = parse([f"{line}\n" for line in lines], broker=1)
    assert [event.text for event in events if event.kind is Kind.ENDED] == whys
