"""Settings that a user's files contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a setting, and where a user's file has it: `server.properties:4`."""

    value: str
    source: str


Settings = Mapping[str, Given]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConfig:
    """What is known of a user's cluster and producer; None is what no file says."""

    kafka: str = ""
    brokers: int | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    broker: Settings | None = None
    topic: Settings | None = None
    producer: Settings | None = None
    #: Whether `broker` is what a running broker answered, and no file.
    in_force: bool = False
    #: Names of what was read, for the description of a scenario.
    read: tuple[str, ...] = field(default=())
