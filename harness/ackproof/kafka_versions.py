"""What each Kafka version has: how it keeps its metadata, and when a feature came.

Brokers run in two modes. Until 3.2 they keep their metadata in ZooKeeper; from 3.3, the first
release that calls KRaft ready for production (KIP-833), in a quorum of controllers. Versions that
know both are run with KRaft.
"""

from __future__ import annotations

import re

DEFAULT_KAFKA = "4.3.1"

TRIED = (
    "0.10.2.2",
    "2.6.2",
    "3.9.1",
    "4.1.0",
    "4.1.1",
    "4.1.2",
    "4.2.0",
    "4.2.1",
    "4.3.0",
    "4.3.1",
)
"""Versions that have run here; others are legal too, if their image can be pulled or built."""

OLDEST = (0, 10, 2)
"""Named listeners, which keep clients and replication apart, came with 0.10.2 (KIP-103)."""

_KRAFT = (3, 3)

FEATURES_SINCE = {
    "metadata.version": (3, 3),
    "eligible.leader.replicas.version": (4, 0),
    "group.version": (4, 0),
    "transaction.version": (4, 0),
    "share.version": (4, 1),
    "streams.version": (4, 2),
}
"""Finalized features (KIP-584, KIP-1022) that a cluster can be formatted with, and since when."""

_PATTERN = r"0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+(-rc\d+)?"


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a release, to be compared: ``(4, 3, 1)``, ``(0, 10, 2, 2)``.

    Raises ValueError, with what is legal, for what names no release, or one older than 0.10.2.
    """
    if not re.fullmatch(_PATTERN, version):
        raise ValueError(
            f"{version!r} is not a Kafka version: name one release by all its numbers, in quotes "
            f"({', '.join(map(repr, TRIED))}, and others)"
        )
    found = tuple(int(number) for number in version.partition("-")[0].split("."))
    if found < OLDEST:
        raise ValueError(
            f"Kafka {version} is too old: listeners for clients and replication came with 0.10.2 "
            f"(known: {', '.join(TRIED)})"
        )
    return found


def uses_zookeeper(version: str) -> bool:
    """Tell whether this version is run with ZooKeeper, not with KRaft controllers."""
    return numbers(version) < _KRAFT


def scala(version: str) -> str:
    """Return the Scala version of the Kafka artifact to take: the one its download names first."""
    return "2.13" if numbers(version) >= (2, 5) else "2.11"


def has_idempotence(version: str) -> bool:
    """Tell whether brokers take an idempotent producer's records (KIP-98)."""
    return numbers(version) >= (0, 11)
