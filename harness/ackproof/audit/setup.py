"""One complete assignment of the settings that decide: stated, by default, or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ackproof.own_config.configuration import Client, OwnConfig, Settings, Topic
from ackproof_model.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A topic with its producer and consumers, all of whose decisive settings have a value.

    partition: the settings that the model reads, brokers and version included. when: the values
    assumed for settings that nobody states. settings: those that decide, with their sources; the
    assumed ones are left out. topic_settings: the topic's own settings, and the effective
    min.insync.replicas and unclean.leader.election.enable. racks: the number of racks over which
    replicas are spread, 0 if there are none. flushes_every_record: a log is flushed before the ack.
    defaults_hold: whether what the topic and the brokers leave out has Kafka's default.
    refusal: why the producer's library refuses its settings; '' if it does not.
    """

    own: OwnConfig
    topic: Topic
    producer: Client | None
    consumers: tuple[Client, ...]
    partition: Configuration
    when: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    zookeeper: bool = False
    controllers: int = 0
    combined: bool = False
    racks: int = 0
    flushes_every_record: bool = False
    defaults_hold: bool = True
    refusal: str = ""
