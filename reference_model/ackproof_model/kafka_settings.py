"""The names of Kafka's settings that rules depend on: a constant is the name in capital letters.

Brokers, topics and clients share names, so each stands here once. What a setting does, and its
default where that depends on the version, is beside the rule: `ackproof_model.configuration`,
`ackproof_model.removal`, and for clients `ackproof.scenario.kafka_clients`.
"""

from __future__ import annotations

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
