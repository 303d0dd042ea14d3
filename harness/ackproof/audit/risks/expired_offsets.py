"""Offsets of a group expire while it has no members."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.consumers import without_offset
from ackproof.audit.effective import of_consumer
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof_model.kafka_settings import AUTO_OFFSET_RESET

_EXPIRY, _RESET = "offsets.retention.minutes", AUTO_OFFSET_RESET
_A_WEEK = 7 * 24 * 60
_TEXT = Text(
    text="a group without members for {minutes} minutes loses its offsets "
    "(offsets.retention.minutes); its members start again by auto.offset.reset={reset}, and {then}",
    at_risk="everything that the group has committed, or what it has not read",
    trace=(
        "All members of the group end.",
        "After {minutes} minutes the coordinator removes the group's offsets.",
        "Members start and find no offset; by auto.offset.reset={reset} they {then}.",
    ),
)

KIND = Kind(
    title="the offsets of a group expire while it has no members",
    subject=Subject.CONSUMERS,
    texts=dict.fromkeys((Effect.UNPROCESSED, Effect.REPROCESSED, Effect.READS_STOP), _TEXT),
    failures=(Failure.CONSUMER_CRASH,),
    removed_by={_EXPIRY: str(_A_WEEK)},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield what groups do, if the stated time is shorter than a week."""
    given = setup.own.broker.get(_EXPIRY)
    if given is None or not given.value.isdecimal() or int(given.value) >= _A_WEEK:
        return
    for consumer in setup.consumers:
        reset = of_consumer(setup, consumer, _RESET)
        effect, then = without_offset(reset.value)
        yield KIND.risk(
            setup,
            KIND.failures,
            effect,
            minutes=given.value,
            reset=reset.value,
            then=then,
            when={"consumers down": f"for {given.value} minutes"},
            decided_by=[decision(_EXPIRY, given, _A_WEEK, "offsets of dead groups stay longer")],
        )
