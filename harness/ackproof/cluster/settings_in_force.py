"""Proves that brokers use the settings of a scenario: a build of one's own may not know them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ackproof.cluster.preflight import Preflight
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.kafka_keys import ignored, known
from ackproof.scenario.types import Setting, setting_text

#: Brokers describe these without their value.
_SECRET = re.compile(r"password|secret|jaas|\.key$")


def require(
    spec: ClusterSpec, kafka: str, *, bootstrap_servers: str, settings: Mapping[str, str]
) -> None:
    """Ask each broker for its settings; raise ClusterError with those that are not in force.

    A key that a broker does not know is described without a value
    (`ConfigHelper.createBrokerConfigEntry`: it might be a secret). A key that only other versions
    than `kafka` know is for other configurations of a scenario, such as those with ZooKeeper.
    """
    brokers = range(1, spec.brokers + 1)
    described = Preflight(bootstrap_servers, settings).broker_settings(list(brokers))
    found = [
        problem
        for broker in brokers
        for problem in problems(
            broker, meant_for(kafka, spec.broker(broker).settings), described[broker]
        )
    ]
    if found:
        raise ClusterError("; ".join(found))


def meant_for(kafka: str, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Leave out what another version knows and this one ignores."""
    return {
        key: value
        for key, value in settings.items()
        if key not in known("broker") or not ignored("broker", key, kafka)
    }


def problems(
    broker: int, wanted: Mapping[str, Setting], described: Mapping[str, str]
) -> Iterator[str]:
    """Yield the settings that a broker does not know or has otherwise."""
    for key, value in wanted.items():
        if _SECRET.search(key):
            continue
        if key not in described:
            yield f"broker {broker} does not know the setting {key}"
        elif not _equal(setting_text(value), described[key]):
            yield f"broker {broker} has {key}={described[key]} instead of {setting_text(value)}"


def _equal(wanted: str, described: str) -> bool:
    """Whether two texts are one value to Kafka, which trims, and reads numbers and booleans."""
    one, other = (
        ",".join(part.strip() for part in text.split(",")) for text in (wanted, described)
    )
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other or {one.lower(), other.lower()} in ({"true"}, {"false"})
