"""One complete assignment of the settings that decide: stated, by default, or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ackproof.own_config.configuration import Client, OwnConfig, Topic
from ackproof_model.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A topic with its producer and consumers, all of whose decisive settings have a value.

    partition: the settings that the model reads, brokers and version included. when: the values
    assumed for settings that nobody states. topic_settings: the topic's effective settings by
    Kafka's names. racks: the number of racks over which replicas are spread, 0 if there are none.
    """

    own: OwnConfig
    topic: Topic
    producer: Client | None
    consumers: tuple[Client, ...]
    partition: Configuration
    when: Mapping[str, str] = field(default_factory=dict)
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    zookeeper: bool = False
    controllers: int = 0
    combined: bool = False
    racks: int = 0
