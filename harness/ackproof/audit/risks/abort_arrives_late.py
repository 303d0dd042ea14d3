"""A late request to abort a transaction aborts the beginning of the next one (KAFKA-17754)."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.kafka_versions import FEATURES_SINCE, numbers
from ackproof.own_config.configuration import Client, Given, NoFile, Origin
from ackproof_model.kafka_settings import TRANSACTION_VERSION, TRANSACTIONAL_ID

KIND = Kind(
    title="a late abort reaches the next transaction",
    subject=Subject.PRODUCER,
    rare=True,
    texts={
        Effect.LOST: Text(
            case="B13",
            text="a late request that aborts one transaction aborts the beginning of the next, "
            "which then commits (KAFKA-17754)",
            at_risk="the first records of a committed transaction",
            trace=(
                "A request that aborts a transaction is delayed; the producer repeats it after a "
                "timeout.",
                "The producer begins the next transaction, with the same epoch, and sends records.",
                "The delayed request arrives and aborts them; the producer sends more, and "
                "commits.",
            ),
        )
    },
    failures=(Failure.CLIENT_TIMEOUT,),
    removed_by={TRANSACTION_VERSION: "2 (brokers and Java clients of 4.0 or later)"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the loss under transaction protocol 1; protocol 2 (KIP-890) needs 4.0 on both sides."""
    producer, version = setup.producer, setup.partition.kafka_version
    if producer is None or TRANSACTIONAL_ID not in producer.settings:
        return
    since = FEATURES_SINCE[TRANSACTION_VERSION]
    when = {}
    if producer.library == "java" and numbers(version) >= since:
        if producer.version is not None:
            if numbers(producer.release) >= since:
                return
        else:
            when = {"producer.version": "before 4.0"}
    protocol = Given("1", _origin(setup, producer))
    [(setting, change)] = KIND.removed_by.items()
    yield KIND.risk(
        setup,
        KIND.failures,
        when=when,
        decided_by=[
            decision(setting, protocol, change, "an upgrade; librdkafka has no protocol 2")
        ],
    )


def _origin(setup: Setup, producer: Client) -> Origin:
    """Return what makes the protocol 1: the brokers' version, the library, or its version."""
    own = setup.own
    if numbers(setup.partition.kafka_version) < FEATURES_SINCE[TRANSACTION_VERSION]:
        return own.kafka.source if own.kafka else NoFile.UNSTATED
    if producer.library != "java":
        return producer.default
    return producer.version.source if producer.version else NoFile.UNSTATED
