"""`__share_group_state` loses its newest records, and share groups get records again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.effective import of_broker
from ackproof.audit.failure import OF_TOPICS, Failure
from ackproof.audit.replication import losing
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import UNCLEAN, Setup
from ackproof.audit.share_groups import of_shares, shares
from ackproof.audit.words import phrase

_TOPIC = "share.coordinator.state.topic"
_REPLICAS, _MINIMUM = f"{_TOPIC}.replication.factor", f"{_TOPIC}.min.isr"
#: The fewest of both with which one failure loses nothing.
_SAFE = {_REPLICAS: 3, _MINIMUM: 2}

KIND = Kind(
    title="the topic of share groups' states loses its newest records",
    subject=Subject.CONSUMERS,
    texts={
        Effect.REPROCESSED: Text(
            text="__share_group_state loses which records were accepted, and share groups get them "
            "again",
            at_risk="records that groups of that coordinator accepted or released",
            trace=(
                "A group accepts records, which only some replicas of __share_group_state have.",
                "{after}, and these states are gone.",
                "A broker that then leads the group's partition gives the records again.",
            ),
        )
    },
    failures=OF_TOPICS,
    removed_by={key: str(value) for key, value in _SAFE.items()},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield what loses states of a topic with one replica, or a minimum ISR below 2."""
    if not shares(setup):
        return
    replicas, minimum = of_shares(setup, _REPLICAS), of_shares(setup, _MINIMUM)
    few = {
        key: given
        for key, given in ((_REPLICAS, replicas), (_MINIMUM, minimum))
        if given.value.isdecimal() and 0 < int(given.value) < (3 if key == _REPLICAS else 2)
    }
    if not few or not (replicas.value + minimum.value).isdecimal():
        return
    partition = replace(
        setup.partition,
        acks="all",
        replication_factor=int(replicas.value),
        min_insync_replicas=max(1, int(minimum.value)),
        unclean_leader_election=of_broker(setup, UNCLEAN).value.lower() == "true",
        brokers=None,
    )
    changes: list[Decision] = [
        decision(key, given, _SAFE[key], "needs three brokers; counts before the topic is created")
        for key, given in few.items()
    ]
    for failures in losing(setup, partition):
        if len(failures) == 1 or (len(failures) == 2 and Failure.LAG in failures):
            after = phrase(failures).capitalize()
            yield KIND.risk(setup, failures, after=after, decided_by=changes)
