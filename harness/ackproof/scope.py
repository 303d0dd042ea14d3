"""Parts of Kafka that ackproof neither models nor judges, and the settings that show their use.

`docs/reference/scope.md` has the table for readers. A reader of settings warns by `beyond`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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

    def has(self, key: str, value: object) -> bool:
        return bool(
            re.fullmatch(self.keys, key) and re.fullmatch(self.value, str(value).strip().lower())
        )


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


def beyond(settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the first setting of each subject that is out of scope, with a sentence about it."""
    for subject in SUBJECTS:
        for key, value in settings.items():
            if subject.has(key, value):
                yield (
                    key,
                    f"{subject.name}: not modelled and not judged, so no answer covers it: "
                    f"{subject.consequence}; docs/reference/scope.md",
                )
                break
