"""Checks the client's permissions on a cluster, and the settings of its brokers.

The checks of an attached cluster come before the first change, so that a refusal leaves nothing
behind. The settings of a scenario are compared with the brokers' own, because a user's build of
Kafka may not know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, ResourceType

from ackproof.cluster.admin import refusal
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.kafka_keys import ignored, known
from ackproof.scenario.types import Setting, setting_text

_ANSWER_S = 15.0

#: librdkafka's errors that explain a failed connection.
_REASONS = {
    "_AUTHENTICATION": "refuses the login",
    "SASL_AUTHENTICATION_FAILED": "refuses the login",
    "_SSL": "does not accept the TLS settings",
    "_RESOLVE": "has a host name that cannot be resolved",
}


#: Brokers describe these without their value.
_SECRET = re.compile(r"password|secret|jaas|\.key$")


class Preflight:
    """Checks the cluster at `bootstrap`; `settings` are a client's, in librdkafka's names."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap
        self._errors: list[Any] = []
        own = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": self._errors.append}
        try:
            self._kafka = AdminClient({**settings, **own})
        except KafkaException as error:
            # librdkafka's message has the name of the setting but not its value, so no secret.
            raise ClusterError(
                f"the client cannot be created: {refusal(error)}",
                hint="Check cluster.attach.client.",
            ) from error

    def topics(self) -> frozenset[str]:
        """Return the names of the topics that the client may describe.

        Raises ClusterError, with the reason if librdkafka reports one, if no broker answers or the
        cluster refuses the client.
        """
        try:
            return frozenset(self._kafka.list_topics(timeout=_ANSWER_S).topics)
        except KafkaException as error:
            self._kafka.poll(0.5)  # delivers the errors that caused this one
            raise self._connection_error(error.args[0]) from error

    def cluster_id(self) -> str:
        return self._kafka.list_topics(timeout=_ANSWER_S).cluster_id or ""

    def addresses(self) -> dict[int, str]:
        brokers = self._kafka.list_topics(timeout=_ANSWER_S).brokers.values()
        return {broker.id: f"{broker.host}:{broker.port}" for broker in brokers}

    def require_creatable(self, topics: Sequence[NewTopic]) -> None:
        """Let Kafka validate these topics without creating them (`validate_only`).

        Raises ClusterError with Kafka's reason.
        """
        answers = self._kafka.create_topics(
            list(topics), request_timeout=_ANSWER_S, validate_only=True
        )
        for name, answer in answers.items():
            try:
                answer.result(_ANSWER_S)
            except KafkaException as error:
                raise ClusterError(
                    f"{self._bootstrap} does not allow to create the topic {name!r}: "
                    f"{refusal(error)}",
                    hint="The client needs Create, Write, Read, Describe and Delete on topics with "
                    "the prefix cluster.attach.topic_prefix.",
                ) from error

    def require_operations(self, topics: Sequence[str], operations: Sequence[str]) -> None:
        """Raise ClusterError unless the client may do these operations on the topics."""
        answers = self._kafka.describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=_ANSWER_S,
        )
        for name, answer in answers.items():
            try:
                allowed = answer.result(_ANSWER_S).authorized_operations
            except KafkaException as error:
                raise ClusterError(
                    f"{self._bootstrap} does not allow to describe the topic {name!r}: "
                    f"{refusal(error)}"
                ) from error
            if allowed is None:  # not reported
                continue
            missing = set(operations) - {operation.name for operation in allowed}
            if missing:
                raise ClusterError(
                    f"{self._bootstrap} does not allow {', '.join(sorted(missing))} on the topic "
                    f"{name!r}",
                    hint="Give the client these permissions on the prefix.",
                )

    def broker_settings(self, brokers: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return each broker's settings (DescribeConfigs).

        Raises ClusterError if the client may not read them.
        """
        described = {broker: self._describe("broker", str(broker)) for broker in brokers}
        return {
            broker: {name: entry.value for name, entry in settings.items()}
            for broker, settings in described.items()
        }

    def changed_settings(
        self, kind: Literal["broker", "topic"], name: str, *, origin: ConfigSource | None = None
    ) -> dict[str, str]:
        """Return the settings of a broker or a topic that differ from Kafka's defaults.

        origin: only those whose value comes from there. Raises ClusterError if the client may not
        read them.
        """
        entries = self._describe(kind, name)
        if origin is not None:
            entries = {
                key: one for key, one in entries.items() if ConfigSource(one.source) is origin
            }
        return _changed(entries)

    def topic_settings(
        self, topics: Sequence[str]
    ) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """Return the changed settings by topic, and Kafka's reason for topics that are refused."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        described: dict[str, dict[str, str]] = {}
        refused: dict[str, str] = {}
        if not resources:
            return described, refused
        answers = self._kafka.describe_configs(resources, request_timeout=_ANSWER_S)
        for resource, answer in answers.items():
            try:
                described[resource.name] = _changed(answer.result(_ANSWER_S))
            except KafkaException as error:
                refused[resource.name] = refusal(error)
        return described, refused

    def layout(self, topic: str) -> list[list[int]]:
        partitions = self._kafka.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
        return [partition.replicas for _, partition in sorted(partitions.items())]

    def _describe(self, kind: str, name: str) -> Mapping[str, Any]:
        """Return the entries with a value. librdkafka allows one broker in a request."""
        resource = ConfigResource(ResourceType[kind.upper()], name)
        answer = self._kafka.describe_configs([resource], request_timeout=_ANSWER_S)[resource]
        try:
            entries = answer.result(_ANSWER_S)
        except KafkaException as error:
            raise ClusterError(
                f"the settings of {kind} {name} cannot be described: {refusal(error)}"
            ) from error
        return {key: entry for key, entry in entries.items() if entry.value is not None}

    def _connection_error(self, last: Any) -> ClusterError:
        for error in (*self._errors, last):
            if reason := _REASONS.get(error.name()):
                return ClusterError(
                    f"the cluster at {self._bootstrap} {reason}: {error.str()}",
                    hint="Check cluster.attach.client and the environment variables in it.",
                )
        return ClusterError(
            f"no broker answers at {self._bootstrap}: {last.str()}",
            hint="Check cluster.attach.bootstrap, and that security.protocol in "
            "cluster.attach.client is the protocol of that listener.",
        )


def _changed(entries: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: entry.value
        for key, entry in entries.items()
        if not (entry.value is None or entry.is_default or entry.is_sensitive)
    }


def require_in_force(
    spec: ClusterSpec, kafka: str, *, bootstrap_servers: str, settings: Mapping[str, str]
) -> None:
    """Ask each broker for its settings; raise ClusterError with those that are not in force.

    A key that a broker does not know is described without a value
    (`ConfigHelper.createBrokerConfigEntry`: it might be a secret). A key that only other versions
    than `kafka` know is for a scenario's other configurations, such as those with ZooKeeper.
    """
    brokers = range(1, spec.brokers + 1)
    described = Preflight(bootstrap_servers, settings).broker_settings(list(brokers))
    different = [
        difference
        for broker in brokers
        for difference in differences(
            broker, meant_for(kafka, spec.broker(broker).settings), described[broker]
        )
    ]
    if different:
        raise ClusterError("; ".join(different))


def meant_for(kafka: str, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings without those that only other versions know."""
    return {
        key: value
        for key, value in settings.items()
        if key not in known("broker") or not ignored("broker", key, kafka)
    }


def differences(
    broker: int, wanted: Mapping[str, Setting], described: Mapping[str, str]
) -> Iterator[str]:
    """Yield the settings that a broker does not know or that have another value there."""
    for key, value in wanted.items():
        if _SECRET.search(key):
            continue
        if key not in described:
            yield f"broker {broker} does not know the setting {key}"
        elif not _equal(setting_text(value), described[key]):
            yield f"broker {broker} has {key}={described[key]} instead of {setting_text(value)}"


def _equal(wanted: str, described: str) -> bool:
    """Whether Kafka reads two texts as one value: it trims, and parses numbers and booleans."""
    texts = {",".join(part.strip() for part in text.split(",")) for text in (wanted, described)}
    try:
        return len({float(text) for text in texts}) == 1
    except ValueError:
        return len(texts) == 1 or {text.lower() for text in texts} in ({"true"}, {"false"})
