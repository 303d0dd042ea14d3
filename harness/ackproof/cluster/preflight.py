"""Whether a cluster that is not ours lets us in, and lets us do what a run needs.

Asked before anything is touched, so that a refusal is one clear sentence and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, NewTopic

_ANSWER_S = 15.0

#: What librdkafka says of a connection that fails, as far as it says why; the first that was said.
_WHY = {
    "_AUTHENTICATION": "refuses our login",
    "SASL_AUTHENTICATION_FAILED": "refuses our login",
    "_SSL": "and we do not agree about TLS",
    "_RESOLVE": "has a name that cannot be resolved",
}


class Admission:
    """Asks a cluster at `bootstrap`; `settings` are a client's, by librdkafka's names."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AdminClient

        self._bootstrap = bootstrap
        self._errors: list[Any] = []
        self._kafka: AdminClient = _made(
            AdminClient,
            {
                **settings,
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "error_cb": self._errors.append,
            },
        )

    def topics(self) -> frozenset[str]:
        """Return the names of the topics that we may see.

        Raises ClusterError, saying why as far as the client knows, if nobody answers or we are not
        let in.
        """
        from confluent_kafka import KafkaException

        try:
            return frozenset(self._kafka.list_topics(timeout=_ANSWER_S).topics)
        except KafkaException as error:
            self._kafka.poll(0.5)  # serves the errors behind this one
            raise self._refusal(error.args[0]) from error

    def addresses(self) -> dict[int, str]:
        """Return where each broker says that clients reach it, by its id."""
        brokers = self._kafka.list_topics(timeout=_ANSWER_S).brokers.values()
        return {broker.id: f"{broker.host}:{broker.port}" for broker in brokers}

    def require_creatable(self, topics: Sequence[NewTopic]) -> None:
        """Have Kafka validate that we may create these topics, without creating them.

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
                    f"{self._bootstrap} does not let us create the topic {name!r}: "
                    f"{error.args[0].str()}",
                    hint="The client needs Create, Write, Read, Describe and Delete on topics with "
                    "the prefix cluster.attach.topic_prefix.",
                ) from error

    def require_operations(self, topics: Sequence[str], operations: Sequence[str]) -> None:
        """Raise ClusterError unless we may do these operations (Kafka's names) on the topics."""
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
                    f"{self._bootstrap} does not let us describe {name!r}: {error.args[0].str()}"
                ) from error
            if allowed is None:  # a broker that does not say; it will, in the run
                continue
            missing = set(operations) - {operation.name for operation in allowed}
            if missing:
                raise ClusterError(
                    f"{self._bootstrap} does not let us {', '.join(sorted(missing))} the topic "
                    f"{name!r}",
                    hint="Give the client these permissions on the prefix.",
                )

    def broker_settings(self, brokers: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return each broker's settings as DescribeConfigs gives them.

        Raises ClusterError if we may not ask.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        found = {}
        for broker in brokers:
            # One broker a call is all that librdkafka allows.
            asked = ConfigResource(ResourceType.BROKER, str(broker))
            answer = self._kafka.describe_configs([asked], request_timeout=_ANSWER_S)[asked]
            try:
                entries = answer.result(_ANSWER_S)
            except KafkaException as error:
                raise ClusterError(
                    f"the settings of broker {broker} cannot be described: {error.args[0].str()}"
                ) from error
            found[broker] = {
                name: entry.value for name, entry in entries.items() if entry.value is not None
            }
        return found

    def _refusal(self, last: Any) -> ClusterError:
        for error in (*self._errors, last):
            why = _WHY.get(error.name())
            if why is not None:
                return ClusterError(
                    f"the cluster at {self._bootstrap} {why}: {error.str()}",
                    hint="Check cluster.attach.client, and the variables that it names.",
                )
        return ClusterError(
            f"nobody answers at {self._bootstrap}: {last.str()}",
            hint="Check cluster.attach.bootstrap, and whether its listener is this one's protocol "
            "(security.protocol in cluster.attach.client).",
        )


def _made(kind: type[AdminClient], settings: Mapping[str, Any]) -> AdminClient:
    from confluent_kafka import KafkaException

    try:
        return kind(dict(settings))
    except KafkaException as error:
        # librdkafka names the setting that it refuses, and no value.
        raise ClusterError(
            f"the client cannot be made: {error.args[0].str()}",
            hint="Check cluster.attach.client.",
        ) from error
