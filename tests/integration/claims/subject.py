"""A published claim, tried on a running cluster of one Kafka version."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import uuid4

from confluent_kafka import Producer

import node_actions
from ackproof.cluster.booted import KafkaCluster
from ackproof.containers import commands, kafka_tools
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario.topics import TopicSpec
from integration.sending import send

#: The versions on which claims are tried: two of the ZooKeeper era, and two of today.
VERSIONS = ("0.10.2.2", "2.6.2", "3.9.1", DEFAULT_KAFKA)
#: Those with idempotence, transactions and the newer requests of the Admin API.
SINCE_0_11 = VERSIONS[1:]
KRAFT = VERSIONS[2:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Whether a claim held, and what showed it."""

    holds: bool
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A cluster of three brokers, all of them in sync when a claim is tried."""

    cluster: KafkaCluster
    kafka: str

    def topic(
        self, *, replicas: Sequence[int] = (1, 2, 3), partitions: int = 1, **settings: object
    ) -> str:
        """Create a topic; `settings` have `_` in place of dots. Return its name."""
        name = f"t-{uuid4().hex[:8]}"
        spec = {
            "assignment": [list(replicas)] * partitions,
            "settings": {key.replace("_", "."): value for key, value in settings.items()},
        }
        self.cluster.create_topics({name: TopicSpec.model_validate(spec)})
        return name

    def send(self, topic: str, **settings: object) -> tuple[int, int] | str:
        """Send one record; return partition and offset, or the name of the error."""
        return send(self.cluster, topic, **settings)  # type: ignore[arg-type]

    def producer(self, **settings: object) -> Producer:
        """Return a producer of the test's own."""
        return Producer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0, **settings}
        )

    @property
    def address(self) -> str:
        """The `bootstrap.servers` of tools that run inside the first broker's container."""
        return self.cluster.internal_address(self.cluster.nodes[1])

    def tool(self, classes: tuple[str, ...], *arguments: str) -> str:
        """Run a class of Kafka's in the first broker's container and return its output."""
        return commands.run_kafka_tool(self.cluster.nodes[1], classes, *arguments)

    def tool_says(self, classes: tuple[str, ...], *arguments: str) -> str:
        """Run a class like `tool`; return its output and errors, also if it fails."""
        script = kafka_tools.kafka_command(classes, shlex.join(arguments))
        done = commands.run(self.cluster.nodes[1].container, ["bash", "-c", script])
        return (done.stdout + done.stderr).decode(errors="replace")

    def repair(self) -> None:
        """Thaw and start every node, controllers first, and wait until brokers are in sync."""
        for broker in self.cluster.broker_ids():
            if self.cluster.nodes[broker].paused():
                node_actions.resume(self.cluster, broker)
        for node in sorted(self.cluster.nodes, reverse=True):
            if self.cluster.nodes[node].exit_status() is not None:
                node_actions.start(self.cluster, node)


T = TypeVar("T")


@dataclass(slots=True)
class Trials(Generic[T]):
    """The trials of claims on a T, each with the versions on which it can be run."""

    found: dict[str, tuple[Callable[[T], Observed], tuple[str, ...]]] = field(default_factory=dict)

    def of(
        self, *claims: str, on: tuple[str, ...] = VERSIONS
    ) -> Callable[[Callable[[T], Observed]], Callable[[T], Observed]]:
        """Register the decorated function as the trial of these claims."""

        def register(trial: Callable[[T], Observed]) -> Callable[[T], Observed]:
            for claim in claims:
                assert claim not in self.found, f"claim {claim} has a trial already"
                self.found[claim] = (trial, on)
            return trial

        return register


def merged(*every: Trials[T]) -> Mapping[str, tuple[Callable[[T], Observed], tuple[str, ...]]]:
    """Return the trials of several modules by claim."""
    return {claim: trial for trials in every for claim, trial in trials.found.items()}
