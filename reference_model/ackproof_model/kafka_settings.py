"""The names of Kafka's settings that rules depend on: a constant is the name in capital letters.

Brokers, topics and clients share names, so each stands here once. What a setting does, and its
default where that depends on the version, is beside the rule: `ackproof_model.configuration`,
`ackproof_model.removal`, and for clients `ackproof.scenario.kafka_clients`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Producers.
ACKS: Final = "acks"
DELIVERY_TIMEOUT_MS: Final = "delivery.timeout.ms"
ENABLE_IDEMPOTENCE: Final = "enable.idempotence"
LINGER_MS: Final = "linger.ms"
MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: Final = "max.in.flight.requests.per.connection"
REQUEST_TIMEOUT_MS: Final = "request.timeout.ms"
RETRIES: Final = "retries"
TRANSACTIONAL_ID: Final = "transactional.id"
TRANSACTION_TIMEOUT_MS: Final = "transaction.timeout.ms"

# Features of a cluster (KIP-584).
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"

# Consumers.
AUTO_OFFSET_RESET: Final = "auto.offset.reset"
ENABLE_AUTO_COMMIT: Final = "enable.auto.commit"
ENABLE_AUTO_OFFSET_STORE: Final = "enable.auto.offset.store"
ISOLATION_LEVEL: Final = "isolation.level"

# Topics, and what brokers give to topics that have none of their own.
CLEANUP_POLICY: Final = "cleanup.policy"
FLUSH_MESSAGES: Final = "flush.messages"
MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Final = "message.timestamp.before.max.ms"
MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS: Final = "message.timestamp.difference.max.ms"
MESSAGE_TIMESTAMP_TYPE: Final = "message.timestamp.type"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
REPLICATION_FACTOR: Final = "replication.factor"
RETENTION_BYTES: Final = "retention.bytes"
RETENTION_MS: Final = "retention.ms"
SEGMENT_BYTES: Final = "segment.bytes"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"

# Brokers and controllers.
AUTO_LEADER_REBALANCE_ENABLE: Final = "auto.leader.rebalance.enable"
BROKER_RACK: Final = "broker.rack"
BROKER_SESSION_TIMEOUT_MS: Final = "broker.session.timeout.ms"
DEFAULT_REPLICATION_FACTOR: Final = "default.replication.factor"
LOG_FLUSH_INTERVAL_MESSAGES: Final = "log.flush.interval.messages"
LOG_INITIAL_TASK_DELAY_MS: Final = "log.initial.task.delay.ms"
LOG_RETENTION_CHECK_INTERVAL_MS: Final = "log.retention.check.interval.ms"
OFFSETS_TOPIC_REPLICATION_FACTOR: Final = "offsets.topic.replication.factor"
PROCESS_ROLES: Final = "process.roles"
REPLICA_LAG_TIME_MAX_MS: Final = "replica.lag.time.max.ms"
TRANSACTION_STATE_LOG_MIN_ISR: Final = "transaction.state.log.min.isr"
TRANSACTION_STATE_LOG_REPLICATION_FACTOR: Final = "transaction.state.log.replication.factor"
ZOOKEEPER_CONNECT: Final = "zookeeper.connect"
ZOOKEEPER_SESSION_TIMEOUT_MS: Final = "zookeeper.session.timeout.ms"

#: The setting of a broker's session timeout, by whether the cluster uses ZooKeeper.
SESSION_TIMEOUTS: Final = {
    False: BROKER_SESSION_TIMEOUT_MS,
    True: ZOOKEEPER_SESSION_TIMEOUT_MS,
}

#: Defaults of brokers that are the same in all versions.
BROKER_DEFAULTS: Final[Mapping[str, str]] = {
    MIN_INSYNC_REPLICAS: "1",
    DEFAULT_REPLICATION_FACTOR: "1",
    OFFSETS_TOPIC_REPLICATION_FACTOR: "3",
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "3",
    TRANSACTION_STATE_LOG_MIN_ISR: "2",
}
