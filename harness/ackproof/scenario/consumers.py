"""The groups of consumers of a workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ackproof.scenario.commit import Commit
from ackproof.scenario.librdkafka import explained
from ackproof.scenario.types import Setting, StrictModel

#: Settings of consumers that ackproof sets itself.
OWNED_CONSUMER_SETTINGS = {
    "bootstrap.servers": "set by ackproof itself",
    "metadata.broker.list": "set by ackproof itself",
    "client.id": "set by ackproof itself",
    "group.id": "the name of the consumers",
    "enable.auto.commit": "what the key `commit` says",
    "enable.auto.offset.store": "what the key `commit` says",
    "enable.partition.eof": "not supported",
}

#: A group.id, which is also a group's name in tables and reports.
GroupName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]


class ConsumerSettings(BaseModel):
    """librdkafka's settings for the consumers of a group; all are passed through as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Setting]

    @model_validator(mode="after")
    def _librdkafka_takes_them(self) -> Self:
        from confluent_kafka import Consumer, KafkaException

        for key in self.__pydantic_extra__:
            if key in OWNED_CONSUMER_SETTINGS:
                raise ValueError(f"{key} is {OWNED_CONSUMER_SETTINGS[key]}: remove it")
        try:
            Consumer({"group.id": "any", **self.as_client_settings(), "log_level": 0}).close()
        except KafkaException as refusal:
            raise ValueError(explained(refusal)) from None
        return self

    def as_client_settings(self) -> dict[str, Setting]:
        """Return every setting under librdkafka's name."""
        return dict(self.__pydantic_extra__)


class ConsumerGroup(StrictModel):
    """Consumers that share the partitions of the workload's topic.

    They process every record they read once, which is a durable effect: an entry in a database, or
    a record in further topics. Offsets are committed apart from it, or with `commit: transaction`
    together with it.
    """

    members: int = Field(default=1, ge=1, le=64, description="how many, each a process")
    via: Literal["subscribe", "assign"] = Field(
        default="subscribe",
        description="whether the group deals the partitions, or each member is assigned some",
    )
    commit: Commit = Field(
        default=Commit.AFTER,
        description="when offsets are committed: by librdkafka's timer (auto), before or after "
        "processing what was polled, in one transaction with what is sent on, or never",
    )
    into: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="topics into which each record is sent on, which is then its processing",
    )
    poll: int = Field(default=500, ge=2, le=10_000, description="records of one poll, at most")
    crash_after: int | None = Field(
        default=None,
        ge=1,
        description="each first member is killed while it processes the poll in which it has read "
        "so many records, and resumed by another process",
    )
    settings: ConsumerSettings = ConsumerSettings.model_validate({})


def consumer_problems(
    consumers: Mapping[str, ConsumerGroup], written: Sequence[str], topics: Iterable[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what groups of consumers cannot do, and where it stands.

    `topics` are those of the scenario, `written` those that producers write to.
    """
    taken: dict[str, str] = {}
    for name, group in consumers.items():
        if group.commit is Commit.TRANSACTION and not group.into:
            yield (
                (name, "commit"),
                "a transaction holds what is sent on, with its offsets: name topics for it (into)",
            )
        for into in group.into:
            if into in written:
                yield (name, "into"), f"{into!r} is what producers write to, not consumers"
            elif into not in topics:
                yield (name, "into"), f"{into!r} is not a topic here ({', '.join(sorted(topics))})"
            elif taken.setdefault(into, name) != name:
                yield (name, "into"), f"{taken[into]} sends on into {into!r} already"
