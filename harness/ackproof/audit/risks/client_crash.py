"""A producer crashes after a send, before its response, and what readers then see.

Idempotence covers one session of a producer (KIP-98), and a transaction stays open until
`transaction.timeout.ms` or until a producer with its id starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.effective import of_consumer, of_producer
from ackproof.audit.failure import Failure
from ackproof.audit.remedies import exactly_once
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.own_config.configuration import KAFKA_CONNECT, Client
from ackproof.scenario.kafka_clients import TRANSACTION_TIMEOUT
from ackproof_model.kafka_settings import ISOLATION_LEVEL, TRANSACTION_TIMEOUT_MS, TRANSACTIONAL_ID

_COMMITTED = "read_committed"
_ENDS = "The producer sends records, and its process ends before it has all responses."

KIND = Kind(
    title="a producer's process ends between a send and its response",
    subject=Subject.PRODUCER,
    texts={
        Effect.DUPLICATED: Text(
            text="after a crash it cannot know which of its last sends were written",
            at_risk="sends without a response at that moment",
            trace=(_ENDS, "It starts again, and sends them again as a new producer."),
        ),
        Effect.READS_STOP: Text(
            text="consumers with isolation.level=read_committed wait for the open transaction of a "
            "producer that has crashed, up to transaction.timeout.ms={limit}",
            at_risk="nothing that was acked",
            trace=(_ENDS, "Its transaction is open; the last stable offset does not advance."),
        ),
        Effect.REPROCESSED: Text(
            text="consumers with isolation.level={level} process records of a transaction that is "
            "aborted, and process them again when the application repeats it",
            at_risk="records of aborted transactions",
            trace=(
                _ENDS,
                "A consumer processes them; the transaction is aborted and repeated.",
            ),
        ),
    },
    failures=(Failure.CLIENT_CRASH,),
    removed_by={
        TRANSACTIONAL_ID: "a name",
        TRANSACTION_TIMEOUT_MS: "10000",
        ISOLATION_LEVEL: _COMMITTED,
        "exactly.once.source.support": "enabled",
    },
)


def risks(setup: Setup) -> Iterator[Risk]:
    producer = setup.producer
    if producer is None or setup.refusal:
        return
    if TRANSACTIONAL_ID not in producer.settings:
        yield KIND.risk(
            setup,
            KIND.failures,
            Effect.DUPLICATED,
            when={"application": "sends again after a start"},
            decided_by=[*_transactions(setup, producer)],
        )
        return
    levels = {of_consumer(setup, one, ISOLATION_LEVEL): one for one in setup.consumers}
    if not levels or any(one.value == _COMMITTED for one in levels):
        limit = of_producer(setup, *TRANSACTION_TIMEOUT)
        cost = "longer transactions are aborted"
        yield KIND.risk(
            setup,
            KIND.failures,
            Effect.READS_STOP,
            limit=limit.value,
            when={} if levels else {ISOLATION_LEVEL: _COMMITTED},
            decided_by=[decision(TRANSACTION_TIMEOUT_MS, limit, 10_000, cost, of=producer)],
        )
    for given, consumer in sorted(levels.items(), key=lambda one: str(one[0].source)):
        if given.value != _COMMITTED:
            cost = "records are read after their transaction"
            yield KIND.risk(
                setup,
                KIND.failures,
                Effect.REPROCESSED,
                level=given.value,
                decided_by=[decision(ISOLATION_LEVEL, given, _COMMITTED, cost, of=consumer)],
            )


def _transactions(setup: Setup, producer: Client) -> Iterator[Decision]:
    if producer.framework in (KAFKA_CONNECT, "MirrorMaker 2"):
        yield from exactly_once(producer)
    else:
        yield decision(
            TRANSACTIONAL_ID,
            of_producer(setup, TRANSACTIONAL_ID, ""),
            "a name, with the position of the input in each transaction",
            "transactions, and consumers with isolation.level=read_committed",
            of=producer,
        )
