"""Clusters whose rules the model does not know, before a run: then no anomaly is excluded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ackproof.scenario.cluster import TIMERS
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import Setting
from ackproof_model import Profile

#: With an older protocol brokers keep the rules of its version.
_PROTOCOL = "inter.broker.protocol.version"
#: Records of an older format have no leader epochs (KIP-98, KIP-101).
_FORMATS = ("log.message.format.version", "message.format.version")
_LEADER_EPOCHS = (0, 11)


def unknown_rules(scenario: Scenario) -> str:
    """Return why the model does not know this cluster's rules; '' if it does."""
    if scenario.cluster.attach is not None:
        return "an attached cluster's settings are unknown before a run, so no anomaly is excluded"
    try:
        Profile.of(scenario.kafka)
    except ValueError as error:
        return f"the model has no profile of this version ({error}), so no anomaly is excluded"
    if "metadata.version" in scenario.cluster.features:
        return (
            "the model knows only a version's default metadata.version, and cluster.features sets "
            "it, so no anomaly is excluded"
        )
    return next(_unknown_settings(scenario), "")


def _unknown_settings(scenario: Scenario) -> Iterator[str]:
    """Yield why settings take brokers to rules, or timers, that no prediction assumes."""
    for settings in _every_setting(scenario):
        for key in (_PROTOCOL, *_FORMATS):
            value = str(settings.get(key, scenario.kafka))
            release = _release(value)
            older = key == _PROTOCOL or release < _LEADER_EPOCHS
            if older and release != _release(scenario.kafka):
                yield (
                    f"{key}={value} makes brokers of {scenario.kafka} follow the rules of another "
                    "version, so no anomaly is excluded"
                )
    for number, own in scenario.cluster.overrides.items():
        for key in TIMERS:
            common = scenario.cluster.settings.get(key)
            if key in own.settings and str(own.settings[key]) != str(common):
                yield (
                    f"broker {number} has a {key} of its own, and the model has one for all "
                    "brokers, so no anomaly is excluded"
                )


def _every_setting(scenario: Scenario) -> Iterator[Mapping[str, Setting]]:
    yield scenario.cluster.settings
    for own in scenario.cluster.overrides.values():
        yield own.settings
    for topic in scenario.topics.values():
        yield topic.settings


def _release(version: str) -> tuple[int, ...]:
    """Return the release of a version such as `2.6`, `2.6.2` or `0.10.2-IV0`; none if it is not."""
    found = re.match(r"0\.\d+\.\d+|\d+\.\d+", version)
    return tuple(map(int, found[0].split("."))) if found else ()
