"""Checks that an attached cluster accepts the client and allows what a run does.

They come before the first change, so that a refusal leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, NewTopic

_ANSWER_S = 15.0

#: librdkafka's errors that explain a failed connection.
_REASONS = {
    "_AUTHENTICATION": "refuses the login",
    "SASL_AUTHENTICATION_FAILED": "refuses the login",
    "_SSL": "does not accept the TLS settings",
    "_RESOLVE": "has a host name that cannot be resolved",
}


class Preflight:
    """Checks the cluster at `bootstrap`; `settings` are a client's, in librdkafka's names."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap
        self._errors: list[Any] = []
        self._kafka: AdminClient = _admin_client(
            {
                **settings,
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "error_cb": self._errors.append,
            }
        )

    def topics(self) -> frozenset[str]:
        """Return the names of the topics that the client may describe.

        Raises ClusterError, with the reason if librdkafka reports one, if no broker answers or the
        cluster refuses the client.
        """
        from confluent_kafka import KafkaException

        try:
            return frozenset(self._kafka.list_topics(timeout=_ANSWER_S).topics)
        except KafkaException as error:
            self._kafka.poll(0.5)  # delivers the errors that caused this one
            raise self._connection_error(error.args[0]) from error

    def addresses(self) -> dict[int, str]:
        """Return each broker's advertised address by its id."""
        brokers = self._kafka.list_topics(timeout=_ANSWER_S).brokers.values()
        return {broker.id: f"{broker.host}:{broker.port}" for broker in brokers}

    def require_creatable(self, topics: Sequence[NewTopic]) -> None:
        """Let Kafka validate these topics without creating them (`validate_only`).

        Raises ClusterError with Kafka's reason.
        """
        from confluent_kafka import KafkaException

        answers = self._kafka.create_topics(
            list(topics), request_timeout=_ANSWER_S, validate_only=True
        )
        for name, answer in answers.items():
            try:
                answer.result(_ANSWER_S)
            except KafkaException as error:
                raise ClusterError(
                    f"{self._bootstrap} does not allow to create the topic {name!r}: "
                    f"{error.args[0].str()}",
                    hint="The client needs Create, Write, Read, Describe and Delete on topics with "
                    "the prefix cluster.attach.topic_prefix.",
                ) from error

    def require_operations(self, topics: Sequence[str], operations: Sequence[str]) -> None:
        """Raise ClusterError unless the client may do these operations on the topics."""
        from confluent_kafka import KafkaException, TopicCollection

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
                    f"{error.args[0].str()}"
                ) from error
            if allowed is None:  # not reported; the run will show it
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
        # librdkafka allows one broker in a request.
        return {
            broker: {
                name: entry.value
                for name, entry in self._describe("broker", str(broker)).items()
                if entry.value is not None
            }
            for broker in brokers
        }

    def changed_settings(self, kind: Literal["broker", "topic"], name: str) -> dict[str, str]:
        """Return the settings of a broker or a topic that differ from Kafka's defaults.

        Raises ClusterError if the client may not read them.
        """
        return {
            key: entry.value
            for key, entry in self._describe(kind, name).items()
            if entry.value is not None and not entry.is_default and not entry.is_sensitive
        }

    def layout(self, topic: str) -> list[list[int]]:
        """Return the replicas of each partition of a topic."""
        partitions = self._kafka.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
        return [partition.replicas for _, partition in sorted(partitions.items())]

    def _describe(self, kind: str, name: str) -> Mapping[str, Any]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType[kind.upper()], name)
        answer = self._kafka.describe_configs([resource], request_timeout=_ANSWER_S)[resource]
        try:
            entries: Mapping[str, Any] = answer.result(_ANSWER_S)
        except KafkaException as error:
            raise ClusterError(
                f"the settings of {kind} {name} cannot be described: {error.args[0].str()}"
            ) from error
        return entries

    def _connection_error(self, last: Any) -> ClusterError:
        for error in (*self._errors, last):
            reason = _REASONS.get(error.name())
            if reason is not None:
                return ClusterError(
                    f"the cluster at {self._bootstrap} {reason}: {error.str()}",
                    hint="Check cluster.attach.client and the environment variables in it.",
                )
        return ClusterError(
            f"no broker answers at {self._bootstrap}: {last.str()}",
            hint="Check cluster.attach.bootstrap, and that security.protocol in "
            "cluster.attach.client is the protocol of that listener.",
        )


def _admin_client(settings: dict[str, Any]) -> AdminClient:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return AdminClient(settings)
    except KafkaException as error:
        # librdkafka's message has the name of the setting but not its value, so no secret.
        raise ClusterError(
            f"the client cannot be created: {error.args[0].str()}",
            hint="Check cluster.attach.client.",
        ) from error
