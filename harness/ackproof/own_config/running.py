"""Asks a running cluster for the configuration of its brokers and of one topic."""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.cluster.preflight import Preflight
from ackproof.errors import ClusterError, ScenarioError
from ackproof.own_config.files import Given, OwnConfig


def ask(bootstrap: str, topic: str, client: Mapping[str, str]) -> OwnConfig:
    """Return the configuration of a running cluster (requests: Metadata and DescribeConfigs).

    `client` are client settings by librdkafka's names. Raises ClusterError if no broker
    answers or describing is not allowed, ScenarioError if there is no such topic.
    """
    try:
        cluster = Preflight(bootstrap, client)
        topics = cluster.topics()
    except ClusterError as error:
        raise ClusterError(
            error.message,
            hint="Check --from-cluster, and security.protocol, TLS and SASL in --client-config.",
        ) from None
    if topic not in topics:
        names = ", ".join(sorted(name for name in topics if not name.startswith("__"))[:10])
        raise ScenarioError(
            f"{bootstrap} has no topic {topic!r}",
            hint=f"Name one with --topic; it has {names or 'none that this client may describe'}.",
        )
    ids = sorted(cluster.addresses())
    described = cluster.changed_settings("broker", str(ids[0]))
    of_topic = cluster.changed_settings("topic", topic)
    layout = cluster.layout(topic)
    return OwnConfig(
        brokers=len(ids),
        partitions=len(layout),
        replication_factor=min(map(len, layout)),
        broker=_given(described, f"broker {ids[0]} at {bootstrap}"),
        topic=_given(of_topic, f"topic {topic} at {bootstrap}"),
        in_force=True,
        read=(bootstrap,),
    )


def _given(settings: Mapping[str, str], source: str) -> dict[str, Given]:
    return {key: Given(value, source) for key, value in settings.items()}
