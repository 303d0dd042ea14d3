"""The consumer groups of a workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    Field,
    WrapValidator,
)

from ackproof.scenario.client import Client, ClientLibrary, JavaConsumerSettings, settings_of_client
from ackproof.scenario.librdkafka import ConsumerSettings
from ackproof.scenario.types import StrictModel

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


#: A group.id, which is also a group's name in tables and reports.
GroupName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]


class ConsumerGroup(StrictModel):
    """Consumers that share the partitions of the workload's topic.

    Processing a record has a durable effect: an entry in a database, or a record in other topics.
    Offsets are committed separately from it, or with `commit: transaction` together with it.
    """

    members: int = Field(default=1, ge=1, le=64, description="how many, each a process")
    via: Literal["subscribe", "assign"] = Field(
        default="subscribe",
        description="whether the group coordinator assigns the partitions, or ackproof does",
    )
    commit: Commit = Field(
        default=Commit.AFTER,
        description="when offsets are committed: by librdkafka's timer (auto), before or after "
        "processing the polled records, in one transaction with forwarded records, or never",
    )
    into: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="topics to which each record is forwarded, which is then its processing",
    )
    poll: int = Field(
        default=500, ge=2, le=10_000, description="maximum number of records in one poll"
    )
    crash_after: int | None = Field(
        default=None,
        ge=1,
        description="the first member of the group is killed while it processes the poll in which "
        "it reaches this number of records; another process then continues",
    )
    client: Client = Field(
        default=ClientLibrary(),
        description="the client library; by default the workload's",
        json_schema_extra={"default": "librdkafka"},
    )
    settings: Annotated[
        ConsumerSettings | JavaConsumerSettings,
        WrapValidator(settings_of_client(ConsumerSettings, JavaConsumerSettings, "consumer")),
    ] = Field(validate_default=True, default_factory=dict)

    @property
    def commits(self) -> Commit:
        """When offsets are committed in effect.

        The Java client's automatic commits are part of a poll, and commit what earlier polls have
        returned: with our synchronous processing, what is processed.
        """
        java = self.client.java is not None
        return Commit.AFTER if java and self.commit is Commit.AUTO else self.commit


def consumer_problems(
    consumers: Mapping[str, ConsumerGroup], written: Sequence[str], topics: Iterable[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with consumer groups, with paths below `workload.consumers`.

    topics: those of the scenario. written: those that producers write to.
    """
    taken: dict[str, str] = {}
    for name, group in consumers.items():
        if group.commit is Commit.TRANSACTION and not group.into:
            yield (
                (name, "commit"),
                "a transaction holds forwarded records and their offsets: name topics in `into`",
            )
        for into in group.into:
            if into in written:
                yield (
                    (name, "into"),
                    f"{into!r} is a topic that producers write to: name another topic",
                )
            elif into not in topics:
                yield (name, "into"), f"{into!r} is not a topic here ({', '.join(sorted(topics))})"
            elif taken.setdefault(into, name) != name:
                yield (
                    (name, "into"),
                    f"the group {taken[into]} already forwards to {into!r}: name another topic",
                )
