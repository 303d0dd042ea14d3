"""Terms: the leader of each leader epoch, with the time and offset at which it starts.

The controller's log has the time of each election, and the ISR before it. The leader's log end at
its election is the offset of the first batch with its epoch in any replica's segments, because a
leader writes its epoch into each batch. For a leader that wrote nothing it is the offset in the
broker's log line. Before 0.11 there is neither: if a leader stopped and was elected again, without
another leader in between, it is the end of the log that it loaded at its start. The line also has
the epoch of which the broker knew before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import Any

Partition = tuple[str, int]

#: `Partition.makeLeader`: the last epoch of which the broker knew, -1 if it has just started.
_EPOCH_BEFORE = re.compile(r"revious leader epoch was (\d+)")


class Election(StrEnum):
    """How a leader was elected, by the partition's state before.

    `FIRST`: when the topic was created. `CLEAN`: from the ISR. `ELIGIBLE`: from the eligible leader
    replicas, `LAST_KNOWN`: as the last known leader, both KIP-966. `UNCLEAN`: none of these.
    """

    FIRST = "first"
    CLEAN = "clean"
    ELIGIBLE = "eligible"
    LAST_KNOWN = "last-known"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A leader's time in one epoch.

    `start`: its log end when elected, None if unknown. `isr_before`: the ISR before the election.
    `changes`: the ISR at the start and after each change, in order. `missed_since`: when another
    leader was elected of which this one did not learn, as it led before and after; None if none
    was. `removed_while_eligible`: it was elected as an eligible leader replica, and had meanwhile
    not been a replica.
    """

    epoch: int
    leader: int
    elected_at: datetime
    election: Election
    isr_before: tuple[int, ...]
    changes: tuple[tuple[datetime, tuple[int, ...]], ...]
    start: int | None = None
    high_watermark: int | None = None
    missed_since: datetime | None = None
    removed_while_eligible: bool = False


def terms(
    states: Iterable[Mapping[str, Any]],
    starts: Mapping[tuple[str, int, int], int],
    events: Iterable[Mapping[str, Any]],
) -> dict[Partition, tuple[Term, ...]]:
    """Return the terms of every partition since its last creation, in order of their epochs.

    states: rows of `tables.PARTITION_STATES`. starts: topic, partition, epoch to the first offset
    with that epoch. events: rows of `tables.BROKER_EVENTS` of the kinds `leader` and `loaded`.
    """
    lines: dict[tuple[str, int, int], list[Mapping[str, Any]]] = defaultdict(list)
    loads: dict[Partition, list[Mapping[str, Any]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["at"]):
        partition = event["topic"], event["partition"]
        if event["kind"] == "loaded":
            loads[partition].append(event)
        else:
            lines[(*partition, event["leader_epoch"])].append(event)
    return {
        partition: tuple(_of_partition(partition, lives[-1], starts, lines, loads[partition]))
        for partition, lives in lives_of(states).items()
    }


def lives_of(
    states: Iterable[Mapping[str, Any]],
) -> dict[Partition, list[list[Mapping[str, Any]]]]:
    """Return the states of every partition by its lives: more than one if its topic was recreated.

    A new partition has the epoch 0. With ZooKeeper the epoch is the version of its znode, which a
    reassignment does not change.
    """
    lives: dict[Partition, list[list[Mapping[str, Any]]]] = defaultdict(list)
    for state in sorted(states, key=lambda state: state["metadata_offset"]):
        of_partition = lives[state["topic"], state["partition"]]
        last = of_partition[-1][-1] if of_partition else None
        moved = (
            last is not None
            and last["partition_epoch"] == 0
            and (list(last["replicas"]) != list(state["replicas"]))
        )
        if last is None or (state["partition_epoch"] == 0 and not moved):
            of_partition.append([])
        of_partition[-1].append(state)
    return lives


def _of_partition(
    partition: Partition,
    history: Sequence[Mapping[str, Any]],
    starts: Mapping[tuple[str, int, int], int],
    lines: Mapping[tuple[str, int, int], Sequence[Mapping[str, Any]]],
    loads: Sequence[Mapping[str, Any]],
) -> Iterator[Term]:
    earlier: list[Term] = []
    for index, state in enumerate(history):
        before = history[index - 1] if index else None
        leader, epoch = state["leader"], state["leader_epoch"]
        if leader < 0 or (before and before["leader_epoch"] == epoch):
            continue
        of_epoch = [later for later in history[index:] if later["leader_epoch"] == epoch]
        line = _line(lines.get((*partition, epoch), ()), state["at"])
        start = starts.get((*partition, epoch), line.get("offset"))
        last = earlier[-1] if earlier else None
        if start is None and last is not None and last.leader == leader:
            start = _loaded(leader, loads, after=last.elected_at, before=state["at"])
        election = _election(state, before)
        term = Term(
            epoch=epoch,
            leader=leader,
            elected_at=state["at"],
            election=election,
            isr_before=tuple(before["isr"]) if before else (),
            changes=tuple((later["at"], tuple(later["isr"])) for later in of_epoch),
            start=start,
            high_watermark=line.get("high_watermark"),
            missed_since=_missed_since(leader, line.get("text") or "", earlier),
            removed_while_eligible=election is Election.ELIGIBLE
            and _removed_while_eligible(leader, history[:index]),
        )
        earlier.append(term)
        yield term


def _line(of_epoch: Sequence[Mapping[str, Any]], elected_at: datetime) -> Mapping[str, Any]:
    """Return the line with which the leader began its term, in the order of time.

    A leader that is started again within its term writes another one, which knows of no epoch
    before; a partition that was recreated had lines of the same epoch before.
    """
    since = (line for line in of_epoch if line["at"] >= elected_at)
    return next(since, of_epoch[-1] if of_epoch else {})


def _missed_since(leader: int, line: str, earlier: Sequence[Term]) -> datetime | None:
    """Return when the first leader was elected that this one has missed, by its own log line."""
    known = _EPOCH_BEFORE.search(line)
    if known is None:
        return None
    before = int(known[1])
    led = any(term.epoch == before and term.leader == leader for term in earlier)
    missed = (term for term in earlier if term.epoch > before and term.leader != leader)
    return next((term.elected_at for term in missed), None) if led else None


def _removed_while_eligible(leader: int, before: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether it was no replica at some time since it became eligible; its log is gone."""
    eligible = takewhile(lambda state: leader in state["elr"], reversed(before))
    return any(leader not in state["replicas"] for state in eligible)


def _loaded(
    broker: int, loads: Sequence[Mapping[str, Any]], *, after: datetime, before: datetime
) -> int | None:
    """Return the end of the log that this broker loaded last in this time, None if it did not."""
    ends = [
        int(event["offset"])
        for event in loads
        if event["broker"] == broker and after < event["at"] < before
    ]
    return ends[-1] if ends else None


def _election(state: Mapping[str, Any], before: Mapping[str, Any] | None) -> Election:
    """Return how the controller elected the leader of this state from the state before.

    A record that completes a reassignment may both let its leader join the ISR and elect it. The
    record of the election may also remove the last replica from the ELR, because its broker
    registered after an unclean stop. So the ELR before it may have other brokers than the last
    known leader (`PartitionChangeBuilder.canElectLastKnownLeader`).
    """
    if before is None:
        return Election.FIRST
    leader = state["leader"]
    completes_reassignment = set(before["replicas"]) - set(state["replicas"])
    if leader in before["isr"] or completes_reassignment:
        return Election.CLEAN
    if leader in before["elr"]:
        return Election.ELIGIBLE
    if not before["isr"] and list(before["last_known_elr"]) == [leader]:
        return Election.LAST_KNOWN
    return Election.UNCLEAN
