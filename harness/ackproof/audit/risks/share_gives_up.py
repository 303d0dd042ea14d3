"""A share group gives up a record that consumers did not process as often as its limit."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.audit.share_groups import of_shares, shares

_LIMIT = "group.share.delivery.count.limit"
_HIGHEST = "group.share.max.delivery.count.limit"

KIND = Kind(
    title="a share group gives up a record after its last delivery",
    subject=Subject.CONSUMERS,
    texts={
        Effect.ARCHIVED: Text(
            case="B38",
            text="a record on which consumers crash, or that they release, {limit} times is given "
            "up by its share group, in silence",
            at_risk="records that consumers cannot process",
            trace=(
                "A consumer gets the record, and ends or releases it.",
                "The record is available again; its deliveries are counted.",
                "After {limit} deliveries the broker archives it for the group, whose lag is 0.",
            ),
        )
    },
    failures=(Failure.CONSUMER_CRASH,),
    removed_by={_LIMIT: "a higher limit; it only takes longer"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    if not shares(setup):
        return
    limit, most = of_shares(setup, _LIMIT), of_shares(setup, _HIGHEST)
    cost = (
        "such a record is tried more often, and is then given up, too; from 4.4 on a group may "
        "have errors.deadletterqueue.topic.name, with errors.deadletterqueue.copy.record.enable"
    )
    higher = [decision(_LIMIT, limit, most.value, cost)] if limit.value != most.value else []
    yield KIND.risk(setup, KIND.failures, limit=limit.value, decided_by=higher)
