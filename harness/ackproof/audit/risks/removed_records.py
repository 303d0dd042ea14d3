"""Acked records that Kafka removes on purpose: by retention and by compaction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.effective import of_topic, removal_settings
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.audit.words import period
from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    RETENTION_BYTES,
    RETENTION_MS,
)
from ackproof_model.removal import (
    FOR_EVER,
    KEEP_EVERYTHING,
    Removal,
    appended,
    removals,
)

_AT_RISK = {
    CLEANUP_POLICY: "all but the newest record of each key",
    RETENTION_MS: "records that are older, and with CreateTime those whose producers date them "
    "back, as soon as they are written",
    RETENTION_BYTES: "the oldest records of each partition",
}
#: The price of the value with which a setting removes nothing.
_COSTS = {
    CLEANUP_POLICY: "older records of a key are kept, too",
    **dict.fromkeys((RETENTION_MS, RETENTION_BYTES), "the topic grows without limit"),
}

KIND = Kind(
    title="retention or compaction removes records on purpose",
    subject=Subject.TOPIC,
    texts={Effect.REMOVED: Text(case="B28")},
    removed_by={key: str(KEEP_EVERYTHING[key]) for key in _COSTS},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the settings with which Kafka removes records of the topic, without a failure."""
    settings = removal_settings(setup)
    records = replace(FOR_EVER, misdated_s=math.inf, misdated_by="producers set them")
    for removal in removals(settings, records):
        yield KIND.risk(
            setup,
            (),
            text=_text(removal, by_producers=not appended(settings)),
            at_risk=_AT_RISK[removal.key] if not appended(settings) else removal.reason,
            decided_by=[
                decision(
                    removal.key,
                    of_topic(setup, removal.key),
                    KEEP_EVERYTHING[removal.key],
                    _COSTS[removal.key],
                )
            ],
        )


def _text(removal: Removal, *, by_producers: bool) -> str:
    if removal.key != RETENTION_MS:
        return removal.in_time or removal.reason
    whose = "the timestamps that producers set" if by_producers else "the brokers' timestamps"
    kept = period(int(removal.value))
    return f"retention removes records {kept} (retention.ms={removal.value}) after {whose}"
