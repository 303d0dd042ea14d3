"""Parses brokers' logs into events of replication: role changes, truncations, ISR changes.

The lines are those of `Partition`, `ReplicaFetcherThread`, `UnifiedLog`, `LogLoader`, `LogManager`,
`BrokerLifecycleManager` and `TransactionMarkerChannelManager` in Kafka 3.9.1 and 4.3.1; the pattern
of loaded logs also matches 0.10.2.2. Other lines are ignored. Verdicts do not depend on these
events: they complement the controller's log and the segments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any


class Kind(StrEnum):
    """The kinds of events.

    `LEADER`, `FOLLOWER`: the broker took this role in `leader_epoch`; its log ended at `offset`.
    `FETCHING`: a new fetcher replaced the former one; the log ended at `offset`.
    `LOADED`: at its start the broker loaded the log, which ended at `offset`.
    `TRUNCATING`: the fetcher decided to truncate to `offset`; `TRUNCATED`: the log was truncated.
    `BELOW_HIGH_WATERMARK`: it truncates what it had as committed, up to `high_watermark`. The
    classes of 4.3.1 and 4.4.0 log it; those of 4.1.2 compare only after they have truncated, so
    that nothing is logged (KAFKA-19474).
    `RECOVERY_TRUNCATED`: at its start the broker removed bytes that are no complete batch.
    `ISR_SHRINKING`: the leader requested a smaller ISR; `ISR_CHANGED`: an ISR was accepted.
    `CLEAN_START`, `UNCLEAN_START`: the broker started with or without a clean shutdown file.
    `UNFENCED`, `SHUTTING_DOWN`: changes of the broker's lifecycle.
    `MARKER_SKIPPED`: as coordinator it skips a marker, as it takes the partition for deleted.
    `ENDED`: the broker or controller ended by itself; `text` is the reason that it logged.
    """

    LEADER = "leader"
    FOLLOWER = "follower"
    FETCHING = "fetching"
    LOADED = "loaded"
    TRUNCATING = "truncating"
    TRUNCATED = "truncated"
    BELOW_HIGH_WATERMARK = "below-high-watermark"
    RECOVERY_TRUNCATED = "recovery-truncated"
    ISR_SHRINKING = "isr-shrinking"
    ISR_CHANGED = "isr-changed"
    CLEAN_START = "clean-start"
    UNCLEAN_START = "unclean-start"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "shutting-down"
    MARKER_SKIPPED = "marker-skipped"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent:
    """A row of `tables.BROKER_EVENTS`. Fields that the line does not contain are None.

    `partition_epoch` (of a changed ISR) is not in the table.
    """

    at: datetime
    broker: int
    kind: Kind
    text: str
    topic: str | None = None
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    offset: int | None = None
    high_watermark: int | None = None
    isr: tuple[int, ...] | None = None
    partition_epoch: int | None = None


# `[2026-11-21T13:12:59,704] INFO text (logger)`; Kafka 3's log4j prints a blank instead of T.
_LINE = re.compile(
    r"\[(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d,\d{3})\] [A-Z]+ (?P<text>.*) \([\w.$]+\)$"
)
_PARTITION = r"(?P<topic>\S+)-(?P<partition>\d+)"
#: The newest release's; `ci/new-kafka` looks for their texts in a new one.
PATTERNS = {
    Kind.LEADER: re.compile(
        rf"Leader {_PARTITION} with topic id .* starts at leader epoch (?P<leader_epoch>\d+) "
        r"from offset (?P<offset>\d+) with partition epoch \d+, "
        r"high watermark (?P<high_watermark>\d+), ISR \[(?P<isr>[\d, ]*)\]"
    ),
    Kind.FOLLOWER: re.compile(
        rf"Follower {_PARTITION} starts at leader epoch (?P<leader_epoch>\d+) "
        r"from offset (?P<offset>\d+) with partition epoch \d+ and "
        r"high watermark (?P<high_watermark>\d+)\. Current leader is (?P<leader>-?\d+)\."
    ),
    # A line may contain several partitions: InitialFetchState(topic id, leader, epoch, offset).
    Kind.FETCHING: re.compile(
        r"(?<=[ (])(?P<topic>[^\s(]+)-(?P<partition>\d+) -> InitialFetchState\([^)]*\), ?"
        r"BrokerEndPoint[\[(]"
        r"id=(?P<leader>\d+),.*?[\])], ?(?P<leader_epoch>\d+), ?(?P<offset>\d+)\)"
    ),
    Kind.LOADED: re.compile(
        # The log of a deleted topic stays on disk for a minute (file.delete.delay.ms). Before 1.1
        # the line is `Completed load of log orders-0 with … and log end offset 5169 in 85 ms`.
        r"Completed load of (?:Log\((?!dir=[^,]*-delete,).*?topic=|log )(?P<topic>[^,\s]+)"
        r"(?:, partition=|-)(?P<partition>\d+)"
        r"(?:, .*?logEndOffset=| with .*?log end offset )(?P<offset>\d+)"
    ),
    Kind.TRUNCATING: re.compile(
        rf"Truncating partition {_PARTITION} with (?:Offset)?TruncationState\("
        r"offset=(?P<offset>\d+), completed=\w+\) due to (?:leader epoch|local high watermark)"
    ),
    Kind.TRUNCATED: re.compile(
        rf"\[UnifiedLog partition={_PARTITION}, dir=[^\]]*\] Truncating to offset (?P<offset>\d+)$"
    ),
    Kind.BELOW_HIGH_WATERMARK: re.compile(
        rf"Truncating {_PARTITION} to offset (?P<offset>\d+) below high watermark "
        r"(?P<high_watermark>\d+)"
    ),
    Kind.RECOVERY_TRUNCATED: re.compile(
        rf"\[LogLoader partition={_PARTITION}, dir=[^\]]*\] Corruption found in segment \d+, "
        r"truncating to offset (?P<offset>\d+)"
    ),
    Kind.ISR_SHRINKING: re.compile(
        rf"\[Partition {_PARTITION} broker=\d+\] Shrinking ISR from [\d,]+ to (?P<isr>[\d,]*)\. "
        r"Leader: \(highWatermark: (?P<high_watermark>\d+), endOffset: (?P<offset>\d+)\)"
    ),
    Kind.ISR_CHANGED: re.compile(
        rf"\[Partition {_PARTITION} broker=\d+\] ISR updated to (?P<isr>[\d,]*)\s.*"
        r"version updated to (?P<partition_epoch>\d+)"
    ),
    Kind.CLEAN_START: re.compile(r"Skipping recovery of \d+ logs from .* clean shutdown file was"),
    Kind.UNCLEAN_START: re.compile(r"Recovering \d+ logs from .* no clean shutdown file was found"),
    Kind.UNFENCED: re.compile(r"The broker has been unfenced\."),
    Kind.SHUTTING_DOWN: re.compile(r"Beginning controlled shutdown\."),
    # A line may contain several partitions: `Set(orders-0, orders-1) while trying to …`.
    Kind.MARKER_SKIPPED: re.compile(
        r"(?<=[ (])(?P<topic>[^\s(]+)-(?P<partition>\d+)(?=[,)].*"
        r" while trying to send transaction markers for .*"
        r", these partitions are likely deleted already and hence can be skipped)"
    ),
    # `ProcessTerminatingFaultHandler`, `Kafka`, `KafkaServer`, `BrokerLifecycleManager`,
    # `LogManager`, `ReplicaManager`.
    Kind.ENDED: re.compile(
        r"Encountered fatal fault: |Exiting Kafka due to fatal exception"
        r"|Fatal error during \w+ startup|Shutting down because |Shutdown broker because "
        r"|Halting broker because "
    ),
}
#: Texts of earlier releases, with the last that has them; before 0.11 there are no leader epochs.
_EARLIER = (
    (  # 3.2
        Kind.LEADER,
        rf"Leader {_PARTITION} starts at leader epoch (?P<leader_epoch>\d+) from offset "
        r"(?P<offset>\d+) with high watermark (?P<high_watermark>\d+) ISR \[(?P<isr>[\d,]*)\]",
    ),
    (  # 2.5
        Kind.LEADER,
        rf"[\]:] {_PARTITION} starts at [Ll]eader [Ee]poch (?P<leader_epoch>\d+) from offset "
        r"(?P<offset>\d+)(?: with high watermark (?P<high_watermark>\d+))?\. Previous",
    ),
    (  # 3.2
        Kind.FOLLOWER,
        rf"Follower {_PARTITION} starts at leader epoch (?P<leader_epoch>\d+) "
        r"from offset (?P<offset>\d+) with high watermark (?P<high_watermark>\d+)\.",
    ),
    (  # 2.8
        Kind.FETCHING,
        r"(?<=[ (])(?P<topic>[^\s(]+)-(?P<partition>\d+) -> InitialFetchState\(BrokerEndPoint\("
        r"id=(?P<leader>\d+),[^)]*\),(?P<leader_epoch>\d+),(?P<offset>\d+)\)",
    ),
    (  # 2.5
        Kind.LOADED,
        rf"\[Log partition={_PARTITION}, dir=[^\]]*\] Completed load of log with .*"
        r"log end offset (?P<offset>\d+)",
    ),
    (  # 3.0
        Kind.TRUNCATED,
        rf"\[Log partition={_PARTITION}, dir=[^\]]*\] Truncating to offset (?P<offset>\d+)$",
    ),
    (  # 0.11
        Kind.TRUNCATED,
        rf"Truncating log {_PARTITION} to offset (?P<offset>\d+)\.",
    ),
    (  # 2.8
        Kind.RECOVERY_TRUNCATED,
        rf"\[Log partition={_PARTITION}, dir=[^\]]*\] Corruption found in segment \d+, "
        r"truncating to offset (?P<offset>\d+)",
    ),
    (  # 3.0; until 2.7 `and zkVersion updated to`
        Kind.ISR_CHANGED,
        rf"\[Partition {_PARTITION} broker=\d+\] ISR updated to \[?(?P<isr>[\d,]*)\]? "
        r"and (?:v|zkV)ersion updated to \[(?P<partition_epoch>\d+)\]",
    ),
    (  # 3.4
        Kind.CLEAN_START,
        r"Skipping recovery for all logs in .* since clean shutdown file was found",
    ),
    (  # 3.4
        Kind.UNCLEAN_START,
        r"Attempting recovery for all logs in .* no clean shutdown file was found",
    ),
)
_ALL = (*PATTERNS.items(), *((kind, re.compile(text)) for kind, text in _EARLIER))
#: A signal ends the process, and the first line of the next process.
_SIGNAL = re.compile(r"(Terminating process due to signal)|Registered signal handlers")
#: A fast check, which most lines fail.
_RELEVANT = re.compile(
    r"starts at [Ll]eader [Ee]poch|InitialFetchState|Completed load of"
    r"|Truncating (?:partition|to offset|log)|below high watermark|Corruption found|Shrinking ISR"
    r"|ISR updated|hence can be skipped|clean shutdown file|has been unfenced|controlled shutdown"
    r"|fatal fault|[Ff]atal e|(?:down|broker) because|process due to signal|signal handlers"
)


def read_logs(
    folder: Path, brokers: Mapping[int, str], *, topics: Sequence[str]
) -> list[BrokerEvent]:
    """Return the events in `<name>.log` of each node (id to name), in order of time.

    Events of other topics than `topics` are left out. An absent log has no events.
    """
    events: list[BrokerEvent] = []
    for broker, name in brokers.items():
        path = folder / f"{name}.log"
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as lines:
                events += (
                    event for event in parse(lines, broker=broker) if event.topic in (None, *topics)
                )
    return sorted(events, key=lambda event: event.at)


def parse(lines: Iterable[str], *, broker: int) -> Iterator[BrokerEvent]:
    """Yield the events of one broker's log, in its order. Log times are UTC.

    The exception in the line after an `ENDED` event belongs to its text. A process that fails after
    a signal has not ended by itself.
    """
    ended: BrokerEvent | None = None
    signalled = False
    for line in lines:
        if ended is not None:
            cause = "" if line.startswith("[") else line.strip()
            yield replace(ended, text=": ".join(filter(None, (ended.text, cause))))
            ended = None
        if not _RELEVANT.search(line):
            continue
        if signal := _SIGNAL.search(line):
            signalled = signal[1] is not None
        for event in _events(line, broker):
            if event.kind is not Kind.ENDED:
                yield event
            elif not signalled:
                ended = event
    if ended is not None:
        yield ended


def _events(line: str, broker: int) -> Iterator[BrokerEvent]:
    match = _LINE.match(line.rstrip("\r\n"))
    if match is None:
        return
    for kind, pattern in _ALL:
        matches = list(pattern.finditer(match["text"]))
        for partition_match in matches:
            yield BrokerEvent(
                at=datetime.strptime(match["at"].replace(" ", "T"), "%Y-%m-%dT%H:%M:%S,%f").replace(
                    tzinfo=UTC
                ),
                broker=broker,
                kind=kind,
                text=match["text"],
                **_fields(partition_match.groupdict(), broker if kind is Kind.LEADER else None),
            )
        if matches:
            return


def _fields(groups: Mapping[str, str | None], leader: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {} if leader is None else {"leader": leader}
    for name, text in groups.items():
        if text is None:
            continue
        if name == "topic":
            fields[name] = text
        elif name == "isr":
            fields[name] = tuple(map(int, re.findall(r"\d+", text)))
        else:
            fields[name] = int(text)
    return fields
