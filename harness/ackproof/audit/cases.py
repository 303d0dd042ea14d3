"""The known case of the catalogue that a risk is an instance of, and the runs that showed it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ackproof.audit.answer import Effect, Failure, Runs
from ackproof.audit.setups import Setup
from ackproof.kafka_versions import numbers
from ackproof_model.configuration import Configuration, Truncation
from ackproof_model.kafka_settings import TRANSACTIONAL_ID

#: Written by `ci/lab/audit_cases.py`.
FILE = Path(__file__).with_name("cases.json")
_LOGS_TAKEN = frozenset((Failure.POWER_LOSS, Failure.DISK_REPLACED, Failure.RACK))


@cache
def _cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return cases


@cache
def runs_of(case: str, effect: Effect, kafka: str) -> Runs | None:
    """Return the stored runs of a case, of the version nearest to `kafka`, and their effect.

    None if no arm expects the effect.
    """
    by_version = _cases().get(case, {}).get(effect.value)
    if not by_version:
        return None
    nearest = min(by_version, key=lambda one: abs(_line(one) - _line(kafka)))
    showed, of = by_version[nearest]
    return Runs(showed=showed, of=of, kafka=nearest)


def _line(version: str) -> int:
    major, minor = numbers(version)[:2]
    return major * 100 + minor


def loss(setup: Setup, failures: Sequence[Failure]) -> str:
    """Return the case of a loss of acked records; '' if the catalogue has none like it."""
    configuration = setup.partition
    taken = not _LOGS_TAKEN.isdisjoint(failures)
    sole = configuration.replication_factor == 1 and taken
    if configuration.acks != "all" and not sole:
        if configuration.acks == "0":
            return "B1"
        planned = {Failure.LEADER_MOVE, Failure.CLEAN_RESTART}.issuperset(failures)
        return "B3" if Failure.LOST_SESSION in failures else "B53" if planned else "B2"
    if taken:
        return _by_lost_log(configuration, failures)
    profile = configuration.profile
    if profile.truncation is Truncation.HIGH_WATERMARK:
        return "B10"
    if configuration.unclean_election:
        later = not profile.truncates_first
        return by_unclean_election(setup) if Failure.LAG in failures or later else "B11"
    return ""


def by_unclean_election(setup: Setup) -> str:
    """Return the case of an election outside the ISR: with transactions markers are lost, too."""
    transactional = setup.producer and TRANSACTIONAL_ID in setup.producer.settings
    return "B54" if transactional else "B4"


def _by_lost_log(configuration: Configuration, failures: Sequence[Failure]) -> str:
    if Failure.LEADER_MOVE in failures and not configuration.profile.broker_epochs:
        return "B31"  # a replica that lost its log is in the ISR again
    return "B34" if Failure.DISK_REPLACED in failures else _by_power_loss(configuration, failures)


def _by_power_loss(configuration: Configuration, failures: Sequence[Failure]) -> str:
    if Failure.RACK in failures or failures.count(Failure.POWER_LOSS) > 1:
        return "B9"
    if configuration.min_insync_replicas == 1 or configuration.replication_factor == 1:
        return "B5"
    if Failure.LAG in failures and not configuration.profile.elr:
        return "B6"
    return "B8" if configuration.profile.zookeeper else "B7"
