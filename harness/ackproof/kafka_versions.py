"""Kafka versions: where they keep metadata, which features they have, and which share their rules.

ackproof runs brokers up to 3.2 with ZooKeeper, and later ones with a quorum of KRaft controllers:
3.3 is the first release in which KRaft is ready for production (KIP-833).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from ackproof_model.configuration import NEWEST, OLDEST, Profile
from ackproof_model.kafka_settings import ELIGIBLE_LEADER_REPLICAS_VERSION, TRANSACTION_VERSION

DEFAULT_KAFKA = "4.4.0"
"""The version of brokers and Java clients where none is given: also of arms without a version.

`ci/new-kafka` says what else a new default needs.
"""

FEATURES_SINCE = {
    "metadata.version": (3, 3),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (4, 0),
    "group.version": (4, 0),
    TRANSACTION_VERSION: (4, 0),
    "share.version": (4, 1),
    "streams.version": (4, 2),
}
"""Features (KIP-584, KIP-1022) that a cluster can be formatted with, and their first version."""

_LAST_RELEASES = """
    0.10.2.2 0.11.0.3 1.0.2 1.1.1 2.0.1 2.1.1 2.2.2 2.3.1 2.4.1 2.5.1 2.6.3 2.7.2 2.8.2 3.0.2 3.1.2
    3.2.3 3.3.2 3.4.1 3.5.2 3.6.2 3.7.2 3.8.1 3.9.2 4.0.2 4.1.2 4.2.2 4.3.1 4.4.0
"""
#: The last known release of each line, the oldest line first.
RELEASES = tuple(_LAST_RELEASES.split())
#: The number of the last known release of each line.
_LAST = {
    tuple(map(int, line.split("."))): int(number)
    for line, _, number in (release.rpartition(".") for release in RELEASES)
}
#: Lines from this one on may get more releases than the known ones. No line has had more than this.
_OPEN = (3, 9)
_MORE = 3
_PATTERN = r"0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+(-rc\d+)?"


@cache
def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release, for comparisons: ``(4, 3, 1)``, ``(0, 10, 2, 2)``.

    Raises ValueError for a text that is not a release, for releases before 0.10.2, and for releases
    that do not exist. A release may be newer than the known ones: see `other_rules`.
    """
    if not re.fullmatch(_PATTERN, version):
        raise ValueError(
            f"{version!r} is not a Kafka version: write a release with all its numbers, in quotes, "
            f"such as {DEFAULT_KAFKA!r} (0.10.2.2 and later)"
        )
    release = tuple(int(number) for number in version.partition("-")[0].split("."))
    if release < OLDEST:
        raise ValueError(
            f"Kafka {version} is too old: ackproof needs named listeners, which came with 0.10.2"
        )
    line, number = release[:-1], release[-1]
    known, last = f"the newest known here is {DEFAULT_KAFKA}", _LAST.get(line, 0)
    if line in _LAST:
        known = f"the last known release of {_text(line)} is {_text(line)}.{last}"
    may_exist = line in _LAST or NEWEST < line < (NEWEST[0] + 2,)
    if not may_exist or number > last + (_MORE if line >= _OPEN else 0):
        raise ValueError(f"there is no Kafka {version}; {known}")
    return release


def complete(version: str) -> str:
    """Return a version with all its numbers: `3.6.0` for `3.6`."""
    return version + ".0" * (2 - version.count(".")) if version[:1].isdecimal() else version


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def other_rules(version: str) -> str:
    """Return which rules predict a version newer than the known ones; '' for other versions."""
    release = numbers(version)
    line = release[:-1]
    if line > NEWEST:
        return (
            f"Kafka {version} is newer than the newest rules of the model, those of "
            f"{_text(NEWEST)}: predictions use these"
        )
    if release[-1] > _LAST[line]:
        return (
            f"Kafka {version} is newer than {_text(line)}.{_LAST[line]}, the last known release: "
            f"predictions use the rules of {_text(line)}"
        )
    return ""


def uses_zookeeper(version: str) -> bool:
    """Whether ackproof runs this version with ZooKeeper instead of KRaft controllers."""
    return Profile.of(version).zookeeper


def caps_min_isr(version: str) -> bool:
    """Whether brokers take min.insync.replicas as at most the replication factor (KAFKA-15583)."""
    return Profile.of(version).hw_freeze


def scala(version: str) -> str:
    """Return the Scala version of the artifact: the first on Kafka's download page."""
    return "2.13" if numbers(version) >= (2, 5) else "2.11"


def has_idempotence(version: str) -> bool:
    """Whether brokers support idempotent producers (KIP-98)."""
    return Profile.of(version).transactions


#: Brokers without ZooKeeper: in preview from 2.8 on (KIP-500), ready from 3.3 on (KIP-833), which
#: ackproof runs. Since 4.0 there are no others.
KRAFT_PREVIEW, KRAFT_SINCE, ZOOKEEPER_UNTIL = (2, 8), (3, 3), (4, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """Release lines in a row that have the same rules.

    since: the first line, such as `2.1`; until: the last one, None if later lines are taken to have
    these rules. release: the version whose rules stand for all. Without an end it is of the first
    line, so that a new release with the same rules changes no answer.
    """

    since: str
    until: str | None
    release: str

    @property
    def label(self) -> str:
        """The lines in words: `2.0`, `2.1 to 2.3`, `4.3 or later`."""
        if self.until is None:
            return f"{self.since} or later"
        return self.since if self.since == self.until else f"{self.since} to {self.until}"


def eras(
    rules: Callable[[str], object], releases: Sequence[str] = RELEASES, *, ended: bool = False
) -> tuple[Era, ...]:
    """Group releases, in their order, by their rules.

    ended: there are no later releases. Otherwise the last era has no end.
    """
    groups = [list(group) for _, group in groupby(releases, rules)]
    last = None if ended else groups[-1]
    return tuple(
        Era(
            since=_line(group[0]),
            until=None if group is last else _line(group[-1]),
            release=group[0] if group is last else group[-1],
        )
        for group in groups
    )


def _line(release: str) -> str:
    """Return the line of a release as people name it: `2.8`, `0.11`, `0.10.2`."""
    line = release.rpartition(".")[0]
    return line.removesuffix(".0") if line.count(".") > 1 else line


#: The versions with eligible leader replicas by default (KIP-966).
WITH_ELR = eras(lambda release: Profile.of(release).elr)[-1]
#: The newest version that ackproof runs with ZooKeeper.
LAST_WITH_ZOOKEEPER = eras(lambda release: Profile.of(release).zookeeper)[0].release
