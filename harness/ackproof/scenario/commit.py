"""When consumers commit offsets. Client processes import this module, so it imports no pydantic."""

from __future__ import annotations

from enum import StrEnum

#: The transaction timeout and the delivery timeout of what consumers forward, milliseconds.
FORWARDING_TIMEOUT_MS = 10_000


class Commit(StrEnum):
    """When a consumer commits the offsets of the records that it polled.

    `AUTO`: librdkafka commits every `auto.commit.interval.ms`, as soon as it has handed the records
    to the application. `BEFORE`, `AFTER`: synchronously, before or after processing the records of
    a poll. `TRANSACTION`: together with the records that it forwards, one transaction a poll.
    `NEVER`: not at all.
    """

    AUTO = "auto"
    BEFORE = "before"
    AFTER = "after"
    TRANSACTION = "transaction"
    NEVER = "never"
