"""Share groups of a cluster: their settings, and what they have left to deliver, by Kafka's tool.

Neither librdkafka nor confluent-kafka has the request for a share group's offsets (KIP-932).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ackproof.containers.kafka_tools import TOOLS

_COLUMNS = ("TOPIC", "PARTITION", "START-OFFSET", "LAG")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePosition:
    """What a share group has left in a partition.

    `lag` counts the records from `start_offset` to the high watermark that are neither accepted nor
    archived (KIP-1226). Both are None before the group's first fetch.
    """

    topic: str
    partition: int
    start_offset: int | None
    lag: int | None


class ShareGroups:
    """`run_tool` runs one of Kafka's tools at a broker and raises ClusterError if it fails."""

    def __init__(self, run_tool: Callable[..., str]) -> None:
        self._run_tool = run_tool

    def positions(self, group: str) -> list[SharePosition]:
        output = self._run_tool(
            TOOLS["kafka-share-groups"], "--describe", "--offsets", "--group", group
        )
        return list(parse(output))


def parse(output: str) -> Iterator[SharePosition]:
    """Yield the rows of the output of `kafka-share-groups.sh --describe --offsets`."""
    for topic, partition, start, lag in rows(output, _COLUMNS):
        yield SharePosition(
            topic=topic, partition=int(partition), start_offset=_number(start), lag=_number(lag)
        )


def rows(output: str, names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield these columns of the table that one of Kafka's tools has printed."""
    columns: list[int] = []
    for words in map(str.split, output.splitlines()):
        if set(names) <= set(words):
            columns = [words.index(name) for name in names]
        elif columns and len(words) > max(columns):
            yield [words[column] for column in columns]


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)
