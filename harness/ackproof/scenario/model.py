"""The models of a scenario file: their fields are its keys.

`loader` reads files, `validation` checks combinations of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ackproof.kafka_versions import DEFAULT_KAFKA, FEATURES_SINCE, numbers
from ackproof.scenario.client import ClientLibrary, with_clients
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.cluster_kinds import ClusterKind, cluster_kind_of
from ackproof.scenario.share_groups import DEAD_LETTERS, DELIVERY_COUNT_LIMIT
from ackproof.scenario.topics import SHARES, TopicSpec, internal_topics
from ackproof.scenario.types import KafkaVersion, StrictModel
from ackproof.scenario.workload import Senders, Sends, Workload, senders_of
from ackproof_faults import BlastRadius, Fault, StepList
from ackproof_faults.schedule.blocks import every_fault
from ackproof_model.effects import AddsPartitions, Configures, SetsOffsets
from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    FLUSH_MESSAGES,
    LOG_FLUSH_INTERVAL_MESSAGES,
    TRANSACTION_VERSION,
)


class Case(StrictModel):
    """What a catalogue says of a scenario. Nothing of it but `skip` changes a run."""

    id: str = Field(
        pattern=r"^[A-Z][1-9][0-9]*[a-z]?$",
        description="the number in the catalogue, by which commands find the scenario",
        examples=["B6"],
    )
    title: str = Field(description="the case in a few words")
    shows: str = Field(description="the story: what happens, and which rule of Kafka lets it")
    loses_on: str = Field(default="", description="the Kafka versions that it holds for")
    fixed_in: str = Field(default="", description="the versions that ended it, and by what")
    instead: str = Field(default="", description="what to configure or to do instead")
    sources: list[str] = Field(
        default_factory=list, description="KIPs, JIRA issues and publications"
    )
    skip: str = Field(
        default="",
        description="why no machine here can run it: `run` and `compare` pass over it",
    )


Expectation = Literal["none", "some", "any"]

_AT_LEAST = r"^>=? ?[0-9]+(\.[0-9]+)? ?%$"


class ExpectedStep(StrictModel):
    """What the probe can do with every partition at the end of a step; None if it does not matter.

    A partition that can be read or written has answered within the second before.
    """

    readable: bool | None = None
    writable: bool | None = None


class Expect(StrictModel):
    """What the author expects to observe. The verdict compares observation and expectation."""

    loss: Expectation = "none"
    duplicates: Expectation = "any"
    reordered: Expectation = "any"
    phantom: Expectation = "none"
    corrupt: Expectation = "none"
    diverged: Expectation = "none"
    aborted_read: Expectation = "none"
    zombie_commit: Expectation = "none"
    hanging_transaction: Expectation = "none"
    unprocessed: Expectation = "none"
    reprocessed: Expectation = "any"
    replayed: Expectation = "any"
    read_then_gone: Expectation = "none"
    misplaced_read: Expectation = "any"
    undelivered: Expectation = "none"
    over_delivered: Expectation = "none"
    delivered_after_accept: Expectation = "none"
    archived_unprocessed: Expectation = "none"
    dead_letter_missing: Expectation = "none"
    redelivered: Expectation = "any"
    unordered: Expectation = "any"
    failed: Expectation = "any"
    unknown: Expectation = "any"
    removed: Expectation = Field(
        default="any",
        description="acked sends whose records retention or compaction has removed",
    )
    stopped: Expectation = Field(
        default="any",
        description="producers that stopped with a fatal error of `workload.may_stop_for`",
    )
    follower_fetch: Expectation = Field(
        default="any",
        description="fetches of consumers with `client.rack` from a follower (KIP-392)",
    )
    cause: str | None = Field(
        default=None,
        pattern=r"^(B[1-9][0-9]*|recreated|unexplained)$",
        description="the case (docs/explanation/forensics.md) that explains the most lost records",
        examples=["B6"],
    )
    availability: str | None = Field(
        default=None,
        pattern=_AT_LEAST,
        description="share of the run in which the worst partition acked sends",
        examples=[">= 99%"],
    )
    read_availability: str | None = Field(
        default=None,
        pattern=_AT_LEAST,
        description="share of time in which the probe could read the worst partition",
        examples=[">= 99%"],
    )
    write_availability: str | None = Field(
        default=None,
        pattern=_AT_LEAST,
        description="share of time in which the probe could write the worst partition",
        examples=[">= 99%"],
    )
    steps: dict[str, ExpectedStep] = Field(
        default_factory=dict,
        description="what the probe can read and write just before a fault is healed, by its id",
        examples=[{"alone": {"readable": True, "writable": False}}],
    )


class Scenario(StrictModel):
    """One scenario. A file with a `matrix` has one for each configuration."""

    version: Literal[1] = Field(description="version of this format")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)
    description: str = ""
    case: Case | None = Field(
        default=None, description="the entry of a catalogue that the scenario reproduces"
    )
    seed: int = Field(default=1, ge=0)
    kafka: KafkaVersion = Field(
        default=DEFAULT_KAFKA,
        description="Kafka version, quoted or with all three numbers",
        examples=[DEFAULT_KAFKA],
    )
    cluster: ClusterSpec = ClusterSpec()
    topics: dict[str, TopicSpec] = Field(min_length=1)
    workload: Workload
    faults: Annotated[list[Any], StepList] = Field(
        default_factory=list, description="faults and blocks of them (docs/reference/schedules.md)"
    )
    blast_radius: BlastRadius = BlastRadius()
    expect: Expect = Expect()
    matrix: dict[str, dict[str, Any]] | list[dict[str, list[Any] | dict[str, Any]]] = Field(
        default_factory=dict,
        description="configurations to compare: names with the keys that they change; or a list "
        "of such mappings, or of keys with their values, to compare all combinations",
        examples=[[{"workload.settings.acks": [1, "all"]}, {"kafka": ["3.9.1", DEFAULT_KAFKA]}]],
    )

    @model_validator(mode="before")
    @classmethod
    def _clients_are_complete(cls, given: Any) -> Any:
        return with_clients(given) if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _racks_have_brokers(self) -> Self:
        """Fill in the brokers of faults' racks, while nothing else uses the scenario."""
        for fault in self.every_fault:
            located = fault.target.located(self.cluster.brokers_by_rack)
            object.__setattr__(fault, "target", located)
        return self

    @property
    def every_topic(self) -> Mapping[str, TopicSpec]:
        """The topics and the internal ones, which faults may target, too."""
        cluster = self.cluster
        internal = internal_topics(cluster.brokers, cluster.settings, self.kafka)
        absent = {SHARES} - {SHARES for _ in self.share_groups}
        return {name: topic for name, topic in internal.items() if name not in absent} | self.topics

    @property
    def topic(self) -> TopicSpec:
        return self.topics[self.workload.topic]

    def flushes(self, topic: str) -> bool:
        """Whether brokers fsync every record of a topic before the ack."""
        own = self.topics[topic].settings.get(FLUSH_MESSAGES)
        all_topics = self.cluster.settings.get(LOG_FLUSH_INTERVAL_MESSAGES)
        return str(all_topics if own is None else own) == "1"

    @property
    def cluster_kind(self) -> ClusterKind:
        return cluster_kind_of(self.cluster)

    @property
    def senders(self) -> Senders:
        return senders_of(self.workload)

    @property
    def sends(self) -> dict[str, Sends]:
        """The sends to each topic that is written to, the workload's topic first."""
        return self.senders.sends(self.topics)

    @property
    def clients(self) -> list[ClientLibrary]:
        groups = self.workload.consumers.values()
        return [*(one.client for one in self.sends.values()), *(one.client for one in groups)]

    def transaction_protocol(self, client: ClientLibrary) -> Literal[1, 2]:
        """Return the protocol of a client's transactions (KIP-890 part 2).

        It is 2 if brokers and client are of 4.0 or later and the cluster has transaction.version=2,
        the default of a new cluster. It is 1 for librdkafka, and for attached clusters.
        """
        if client.java is None or not self.cluster_kind.is_described:
            return 1
        known = (
            min(numbers(self.kafka), numbers(client.java)) >= FEATURES_SINCE[TRANSACTION_VERSION]
        )
        return 2 if known and int(self.cluster.features.get(TRANSACTION_VERSION, 2)) >= 2 else 1

    @property
    def producers(self) -> int:
        """The number of ledgers: one for each producer, or for each acked log of an application."""
        return self.senders.producers

    @property
    def written(self) -> list[tuple[str, int]]:
        return [
            (name, number) for name in self.sends for number in range(self.topics[name].partitions)
        ]

    def later_partitions(self, topic: str) -> tuple[int, ...]:
        """Return the greater numbers of partitions that faults may give a topic, ascending."""
        added = {
            effect.partitions
            for fault in self.every_fault
            for effect in fault.effects
            if isinstance(effect, AddsPartitions) and effect.topic == topic
        }
        return tuple(sorted(count for count in added if count > self.topics[topic].partitions))

    def resets(self, group: str) -> list[tuple[SetsOffsets, str]]:
        """Return the changes of a group's offsets by faults, each with the fault's name."""
        return [
            (effect, fault.name)
            for fault in self.every_fault
            for effect in fault.effects
            if isinstance(effect, SetsOffsets) and effect.group == group
        ]

    @property
    def forwarded(self) -> dict[str, list[str]]:
        """The topics to which consumer groups forward records, by group."""
        groups = self.workload.consumers.items()
        return {name: list(dict.fromkeys(group.into)) for name, group in groups if group.into}

    @property
    def share_groups(self) -> list[str]:
        groups = self.workload.consumers.items()
        return [name for name, group in groups if group.via == "share"]

    def dead_letters(self, group: str) -> str | None:
        """Return the topic for records that a share group gives up; None without one."""
        topic = self.workload.consumers[group].group_settings.get(DEAD_LETTERS)
        return None if topic is None else str(topic)

    def delivery_limit(self, group: str) -> int:
        """Return how often a share group may get a record: by default five times."""
        of_brokers = self.cluster.settings.get(f"group.{DELIVERY_COUNT_LIMIT}", 5)
        own = self.workload.consumers[group].group_settings
        return int(own.get(DELIVERY_COUNT_LIMIT, of_brokers))

    @property
    def compacted_keys(self) -> dict[str, int]:
        """The number of keys of each topic that is written to and compacted."""
        return {name: sends.keys or 1 for name, sends in self.sends.items() if self.compacts(name)}

    def compacts(self, topic: str) -> bool:
        """Whether a topic is compacted by its settings, or after a fault has changed them."""
        return self.topics[topic].compacted or any(
            isinstance(effect, Configures)
            and (effect.topic, effect.key) == (topic, CLEANUP_POLICY)
            and "compact" in effect.value.lower()
            for fault in self.every_fault
            for effect in fault.effects
        )

    @property
    def rack_aware(self) -> bool:
        """Whether a group may fetch from followers, and records it: librdkafka's with a rack."""
        groups = self.workload.consumers.values()
        return any(
            "client.rack" in group.settings.as_client_settings()
            for group in groups
            if group.client.java is None
        )

    @property
    def every_fault(self) -> list[Fault]:
        return list(every_fault(self.faults))


def json_schema() -> dict[str, Any]:
    schema = Scenario.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
