"""The usual values of what no file states: an assumption, beside the answer for every value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ackproof.audit.answer import Answer, Effect
from ackproof.audit.assumption import Versions
from ackproof.audit.effective import OFFSETS, offsets_replicas, unstated
from ackproof.audit.setups import KAFKA, MINIMUM, MODE, REPLICAS, UNCLEAN, Setup
from ackproof.kafka_versions import DEFAULT_KAFKA, uses_zookeeper
from ackproof.own_config.configuration import Given, NoFile
from ackproof.safer_settings import USUAL_REPLICAS
from ackproof.scenario.kafka_clients import java_producer_defaults
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import ACKS, BROKER_DEFAULTS, ENABLE_IDEMPOTENCE

_PRODUCER = java_producer_defaults(DEFAULT_KAFKA)
#: Usual values: defaults of today's release, but for the replicas. Of other settings the last value
#: is used, which for versions of clients is the newest.
_USUAL = {
    REPLICAS: str(USUAL_REPLICAS),
    MINIMUM: BROKER_DEFAULTS[MINIMUM],
    UNCLEAN: str(Profile.of(DEFAULT_KAFKA).unclean_by_default).lower(),
    MODE: "zookeeper" if uses_zookeeper(DEFAULT_KAFKA) else "kraft",
    ACKS: str(_PRODUCER[ACKS]),
    ENABLE_IDEMPOTENCE: str(_PRODUCER[ENABLE_IDEMPOTENCE]).lower(),
}


def little_known(answer: Answer) -> bool:
    """Whether files leave the version open, or several other values, and that matters.

    What is refused with all of these values needs none of them.
    """
    refused = answer.risks and all(risk.effect is Effect.REFUSED for risk in answer.risks)
    return not refused and (KAFKA in answer.unstated or len(answer.unstated) > 1)


def usual(group: Sequence[Setup]) -> tuple[Setup, Mapping[str, str]]:
    """Return the setup with the usual values, as if they were stated, and these values."""
    left = list(group)
    for key in dict.fromkeys(key for setup in group for key in setup.when):
        left = [setup for setup in left if _is_usual(key, setup.when.get(key, ""))] or left
    chosen = left[-1]
    values = {
        key: _release(chosen, value) if isinstance(value, Versions) else value
        for key, value in chosen.when.items()
    }
    of_topic = (key for key in (REPLICAS, MINIMUM, UNCLEAN) if key in chosen.when)
    settings = {**chosen.settings, **{key: unstated(chosen, key) for key in of_topic}}
    own = chosen.own
    if len(offsets_replicas(chosen)) > 1:
        values[OFFSETS] = BROKER_DEFAULTS[OFFSETS]
        own = replace(own, broker={**own.broker, OFFSETS: Given(values[OFFSETS], NoFile.ASSUMED)})
    return replace(chosen, own=own, when={}, settings=settings), values


def _release(setup: Setup, value: Versions) -> str:
    return DEFAULT_KAFKA if value.newest else setup.partition.kafka_version


def _is_usual(key: str, value: str | Versions) -> bool:
    return value.newest if isinstance(value, Versions) else value == _USUAL.get(key)
