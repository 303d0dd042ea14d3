"""Parts of Kafka that ackproof neither models nor judges, and the settings that show their use.

`docs/reference/scope.md` has the table for readers. A reader of settings warns by `beyond`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A part of Kafka. `keys` and `value` are patterns of the settings that switch it on."""

    name: str
    keys: str
    value: str = r".+"
    #: The documented examples of `keys`.
    examples: tuple[str, ...]
    consequence: str
    answers: str = "not modelled and not judged, so no answer covers it"

    def has(self, key: str, value: object) -> bool:
        return bool(
            re.fullmatch(self.keys, key) and re.fullmatch(self.value, str(value).strip().lower())
        )


SHARE_GROUPS = "share groups"

SUBJECTS = (
    Subject(
        name="tiered storage",
        keys=r"remote\.storage\.enable|remote\.log\.storage\.system\.enable",
        value="true",
        examples=("remote.storage.enable", "remote.log.storage.system.enable"),
        consequence="the remote store, its metadata and its retention may lose acked records that "
        "every replica had (KAFKA-17062, KAFKA-19858, KAFKA-20732)",
    ),
    Subject(
        name=SHARE_GROUPS,
        keys=r"group\.share\..+|share\.(coordinator\..+|version|acknowledgement\.mode)",
        value=r"(?!0$).+",
        examples=("group.share.*", "share.coordinator.*", "share.version"),
        consequence="a share group may skip or repeat records (KIP-932): an audit knows some "
        "of the brokers' settings; groups of a scenario with `via: share` are predicted and judged",
        answers="predicted and judged only of groups with via: share",
    ),
    Subject(
        name="mirrors",
        keys=r"(source|target)\.cluster\.(alias|bootstrap\.servers)|replication\.policy\.class"
        r"|mirrors|clusters|mirror\..+",
        examples=("clusters", "source.cluster.alias", "replication.policy.class"),
        consequence="the target may lack, repeat or reorder records of the source, and translated "
        "offsets may skip records",
    ),
    Subject(
        name="Kafka Connect",
        keys=r"connector\.class|tasks\.max|(offset|config|status)\.storage\.(topic|.+filename)"
        r"|exactly\.once\.source\.support|errors\.tolerance",
        examples=("connector.class", "offset.storage.topic", "errors.tolerance"),
        consequence="connectors have offsets, retries and skipped records of their own",
    ),
    Subject(
        name="the migration to KRaft",
        keys=r"zookeeper\.metadata\.migration\.enable",
        value="true",
        examples=("zookeeper.metadata.migration.enable",),
        consequence="brokers in both modes follow rules of their own until it has ended",
    ),
    Subject(
        name="Kafka Streams",
        keys=r"application\.id|processing\.guarantee|num\.(stream\.threads|standby\.replicas)"
        r"|state\.dir|group\.streams\..+|streams\.version",
        value=r"(?!0$).+",
        examples=("application.id", "processing.guarantee", "num.standby.replicas"),
        consequence="state stores and their changelogs may differ from the topics",
    ),
)


def recognises(name: str, key: str, value: object) -> bool:
    """Whether a setting shows the use of the part with this name."""
    return any(subject.name == name and subject.has(key, value) for subject in SUBJECTS)


def beyond(
    settings: Mapping[str, object], *, judged: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the first setting of each subject that is out of scope, with a sentence about it.

    judged: the names of subjects that the run with these settings judges.
    """
    for subject in SUBJECTS:
        for key, value in settings.items():
            if subject.name not in judged and subject.has(key, value):
                yield (
                    key,
                    f"{subject.name}: {subject.answers}: {subject.consequence}; "
                    "docs/reference/scope.md",
                )
                break
