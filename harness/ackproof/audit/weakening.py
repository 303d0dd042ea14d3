"""Weaker settings of a change: losses of which more records are at risk, and what has no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ackproof.audit.answer import (
    Answer,
    Audit,
    Finding,
    Growth,
    Measure,
    NoEffect,
    Risk,
    Weakening,
)
from ackproof.audit.failure import Failure, covers
from ackproof.kafka_versions import complete
from ackproof.own_config.configuration import Given, OwnConfig
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    ACKS,
    ENABLE_IDEMPOTENCE,
    LOG_FLUSH_INTERVAL_MESSAGES,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

_ACKS = {"0": 0, "1": 1, "all": 2, "-1": 2}


#: After these the last member of the ISR is gone, and replicas are left that lack records.
_ELECT_OUTSIDE = tuple(
    (Failure.LAG, one) for one in (Failure.CRASH, Failure.CLEAN_RESTART, Failure.LOST_SESSION)
)


def _number(value: str) -> int:
    return int(value) if value.strip().isdecimal() else 0


#: How strong a value of a setting is.
_STRENGTH: Mapping[str, Callable[[str], int]] = {
    ACKS: lambda value: _ACKS.get(value.strip().lower(), 0),
    MIN_INSYNC_REPLICAS: _number,
    REPLICATION_FACTOR: _number,
    UNCLEAN_LEADER_ELECTION_ENABLE: lambda value: value.strip().lower() != "true",
    ENABLE_IDEMPOTENCE: lambda value: value.strip().lower() != "false",
    LOG_FLUSH_INTERVAL_MESSAGES: lambda value: value.strip() == "1",
}


def in_one_rack(own: OwnConfig, others: Sequence[OwnConfig]) -> OwnConfig:
    """Return a configuration; if only the other side of a change has racks, all are in one rack.

    Without broker.rack Kafka places replicas as if there were no racks, so one may hold all
    replicas of a partition.
    """
    alike = [one for one in others if len(others) == 1 or one.cluster == own.cluster]
    racks = [given for one in alike for given in one.racks.values()]
    if own.racks or not racks:
        return own
    return replace(own, racks={"": Given("", racks[0].source)})


def weaker(before: Answer, after: Answer) -> Iterator[tuple[str, Given, Given]]:
    """Yield each setting with its values, if the later one is weaker."""
    for setting, strength in _STRENGTH.items():
        old, new = before.settings.get(setting), after.settings.get(setting)
        if old and new and strength(new.value) < strength(old.value):
            yield setting, old, new


def growth(
    before: Answer,
    after: Answer,
    known: Iterable[tuple[Finding, Risk, Sequence[Risk]]],
    audit: Audit,
) -> Iterator[Growth]:
    """Yield the losses of which more records are at risk than before.

    known: losses of the later answer that are not new, each with the earlier ones that imply it.
    audit: the later one.
    """
    fewer: dict[tuple[int, int], list[tuple[Finding, Risk]]] = {}
    disks: list[tuple[Finding, Risk]] = []
    elected: list[tuple[Finding, Risk]] = []
    outside = any(
        _reason(setting, new.value, after, audit) is NoEffect.SAME_RISKS
        for setting, _, new in weaker(before, after)
        if setting == UNCLEAN_LEADER_ELECTION_ENABLE
    )
    replicas = [
        _number(one.settings[REPLICATION_FACTOR].value) if REPLICATION_FACTOR in one.settings else 0
        for one in (before, after)
    ]
    all_disks = (Failure.DISK_REPLACED,) * replicas[1]
    for finding, risk, earlier in known:
        copies = [one.copies for one in earlier if one.copies is not None]
        if risk.copies is not None and copies and risk.copies < min(copies):
            fewer.setdefault((min(copies), risk.copies), []).append((finding, risk))
        elif replicas[1] < replicas[0] and covers(risk.failures, all_disks):
            disks.append((finding, risk))
        elif outside and any(covers(risk.failures, one) for one in _ELECT_OUTSIDE):
            elected.append((finding, risk))
    for (old, new), found in fewer.items():
        yield _growth(found, Measure.COPIES, old, new)
    if disks:
        yield _growth(disks, Measure.REPLICAS, *replicas)
    if elected:
        yield _growth(elected, Measure.OUTSIDE, 0, max(replicas[1] - 1, 1))


def _growth(found: list[tuple[Finding, Risk]], measure: Measure, before: int, after: int) -> Growth:
    ordered = sorted(found, key=lambda one: len(one[1].failures))
    finding, risk = ordered[0]
    variants = tuple(one for _, one in ordered)
    return Growth(
        finding=replace(finding, risk=risk, variants=variants),
        measure=measure,
        before=before,
        after=after,
    )


def weakenings(before: Answer, after: Answer, audit: Audit) -> Iterator[Weakening]:
    """Yield the weaker values of an answer that make no loss possible, and put no more at risk."""
    for setting, old, new in weaker(before, after):
        yield Weakening(
            answer=after,
            setting=setting,
            before=old,
            after=new,
            reason=_reason(setting, new.value, after, audit),
        )


def _reason(setting: str, value: str, answer: Answer, audit: Audit) -> NoEffect:
    settings = {key: given.value for key, given in answer.settings.items()}
    one_replica = settings.get(REPLICATION_FACTOR) == "1"
    if one_replica and (setting, value) != (ACKS, "0") and setting != ENABLE_IDEMPOTENCE:
        return NoEffect.ONE_REPLICA
    waits = _STRENGTH[ACKS](settings.get(ACKS, "all")) == _ACKS["all"]
    if setting == MIN_INSYNC_REPLICAS and not waits:
        return NoEffect.ONLY_ACKS_ALL
    if setting == UNCLEAN_LEADER_ELECTION_ENABLE and waits and _all_have_it(settings):
        return NoEffect.EVERY_REPLICA
    version, mode = answer.version or audit.version, audit.mode
    in_kraft = version is not None and mode is not None and mode.value == "kraft"
    if setting == UNCLEAN_LEADER_ELECTION_ENABLE and version and in_kraft:
        reads = Profile.of(complete(version.value)).unclean_by_setting
        return NoEffect.SAME_RISKS if reads else NoEffect.NOT_READ
    return NoEffect.SAME_RISKS


def _all_have_it(settings: Mapping[str, str]) -> bool:
    """Whether as many replicas must have a record as there are, before it is acked."""
    replicas = _number(settings.get(REPLICATION_FACTOR, ""))
    return 0 < replicas <= _number(settings.get(MIN_INSYNC_REPLICAS, ""))
