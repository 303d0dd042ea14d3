"""A consumer is away for longer than the topic keeps its records."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.effective import of_consumer, of_topic, removal_settings
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.audit.words import period
from ackproof.scenario.librdkafka import EARLIEST
from ackproof_model.kafka_settings import AUTO_OFFSET_RESET, RETENTION_MS
from ackproof_model.removal import DEFAULTS, FOR_EVER, removals

_AWAY = "The consumers of a group end, or fall behind."
_REMOVED = "After {period} retention removes the record at the group's committed offset."

KIND = Kind(
    title="a consumer is away for longer than records are kept",
    subject=Subject.TOPIC,
    texts={
        Effect.UNPROCESSED: Text(
            text="a group that is away, or behind, for {period} (retention.ms) finds that its "
            "offset is out of range; by auto.offset.reset={reset} it goes on at the end, and skips "
            "also what is retained",
            at_risk="what the group has not read, also the part that is retained",
            trace=(
                _AWAY,
                _REMOVED,
                "The offset is out of range; by auto.offset.reset={reset} the group goes on at the "
                "end of the log.",
            ),
        ),
        Effect.READS_STOP: Text(
            text="a group that is away, or behind, for {period} (retention.ms) finds that its "
            "offset is out of range; by auto.offset.reset={reset} it stops with an error",
            at_risk="what retention has removed",
            trace=(_AWAY, _REMOVED, "The offset is out of range; the group stops with an error."),
        ),
    },
    failures=(Failure.CONSUMER_CRASH,),
    removed_by={RETENTION_MS: f"{DEFAULTS[RETENTION_MS]} or more", AUTO_OFFSET_RESET: "earliest"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield what groups do, if records are kept for less than a week, the default."""
    if not setup.consumers:
        return
    settings = removal_settings(setup)
    short = [one for one in removals(settings, FOR_EVER) if one.key == RETENTION_MS]
    usual = DEFAULTS[RETENTION_MS]
    if not short or int(short[0].value) >= int(usual):
        return
    kept, given = period(int(short[0].value)), of_topic(setup, RETENTION_MS)
    for consumer in setup.consumers:
        reset = of_consumer(setup, consumer, AUTO_OFFSET_RESET)
        if reset.value in EARLIEST or reset.value.startswith("by_duration"):
            continue  # it reads all that is retained, or what is young
        stops = reset.value in ("none", "error")
        yield KIND.risk(
            setup,
            KIND.failures,
            Effect.READS_STOP if stops else Effect.UNPROCESSED,
            period=kept,
            reset=reset.value,
            when={"consumers down": f"for {kept}"},
            decided_by=[
                decision(
                    AUTO_OFFSET_RESET, reset, "earliest", "a new group reads all", of=consumer
                ),
                decision(RETENTION_MS, given, usual, "more data on the disks"),
            ],
        )
