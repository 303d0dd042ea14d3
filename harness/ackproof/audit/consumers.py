"""What a consumer group does if it finds no committed offset."""

from __future__ import annotations

from ackproof.audit.answer import Effect
from ackproof.scenario.librdkafka import EARLIEST


def without_offset(reset: str) -> tuple[Effect, str]:
    """Return the effect, and a sentence about the members. reset: their auto.offset.reset."""
    if reset in EARLIEST:
        return Effect.REPROCESSED, "repeat what is retained"
    if reset in ("none", "error"):
        return Effect.READS_STOP, "stop with an error until somebody sets their offsets"
    if reset.startswith("by_duration"):
        return Effect.UNPROCESSED, f"skip what they have not read and is older than {reset[12:]}"
    return Effect.UNPROCESSED, "skip what they have not read"
