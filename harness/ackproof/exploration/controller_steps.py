"""The steps of one partition in the controllers' metadata log, as steps of the model.

An event of a broker has its own record; the changes of partitions that it causes are next to it:
before the record of a fencing or a registration, after that of an unfencing or a controlled
shutdown. Every other change was requested by the leader or by an operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ackproof.exploration.shapes import PartitionShapes, Seen, staying
from ackproof.observation.metadata_log import Entry
from ackproof_model.coverage import Pair
from ackproof_model.validation.controller_events import Event

_CHANGE = "PARTITION_CHANGE_RECORD"

#: Changes on request: the step of the controller, and the leader's request before it.
_ON_REQUEST = {
    Event.ISR_SHRINKS: ("apply", "shrink"),
    Event.ISR_EXPANDS: ("apply", "expand"),
    Event.PREFERRED_ELECTION: ("move leader", ""),
}


class Down(NamedTuple):
    """A broker's process was down from `since` until it was started."""

    broker: int
    since: datetime
    until: datetime | None

    def has(self, broker: int, at: datetime) -> bool:
        within = self.since <= at and (self.until is None or at < self.until)
        return within and broker == self.broker


class _BrokerRecord(NamedTuple):
    """A record about a broker, and the events that are recorded like this."""

    at: datetime
    broker: int
    events: frozenset[Event]


def controller_steps(
    partition: PartitionShapes,
    entries: Sequence[Entry],
    events: Mapping[int, frozenset[Event]],
    down: Sequence[Down],
) -> Iterator[Seen]:
    """Yield the steps from the creation of the partition on.

    events: by metadata offset, what may have changed a partition (`metadata_replay.Replay`).
    """
    entries = [one for one in entries if not one.snapshot]
    numbers = {offset: number for number, offset in enumerate(partition.offsets)}
    records = {at: record for at, one in enumerate(entries) if (record := _broker_record(one))}
    steps = dict(_of_brokers(records, down))
    cause = {  # by number of a shape, the place of the broker's record that led to it
        numbers[offset]: at
        for at, record in records.items()
        for offset in _beside(entries, at, record)
        if offset in numbers and events.get(offset, frozenset()) & record.events
    }
    linked = set(cause.values())
    number = -1
    for at, entry in enumerate(entries):
        if entry.offset in numbers:
            number = numbers[entry.offset]
            if number:
                by = cause.get(number, -1)  # no record has this place
                others = events[entry.offset] - (records[by].events if by >= 0 else frozenset())
                yield from _change(partition, number, steps.get(by, ()), others)
        elif number >= 0 and at not in linked and at in records:
            shape = partition.shapes[number]
            if records[at].broker in partition.numbers and steps[at]:
                yield frozenset(Pair(step, shape, shape) for step in steps[at])


def _change(
    partition: PartitionShapes, number: int, steps: Sequence[str], others: frozenset[Event]
) -> Iterator[Seen]:
    """Yield the change that led to a shape, and the request before it.

    steps: those of the broker's record beside it, if there is one. others: the events without a
    record of their own that explain the change, too.
    """
    before, after = partition.shapes[number - 1], partition.shapes[number]
    requested = [_ON_REQUEST[event] for event in sorted(others) if event in _ON_REQUEST]
    names = [*steps, *(step for step, _ in requested)]
    if names:
        yield frozenset(Pair(step, before, after) for step in names)
    if not steps and len(requested) == 1 and requested[0][1]:
        yield staying(requested[0][1], [before])


def _broker_record(entry: Entry) -> _BrokerRecord | None:
    data, events = entry.data, frozenset[Event]()
    if entry.kind == "REGISTER_BROKER_RECORD":
        events = frozenset({Event.CLEAN_START, Event.UNCLEAN_START})
    elif entry.kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        if data.get("fenced") == 1:
            events = frozenset({Event.FENCED})
        elif data.get("fenced") == -1:
            events = frozenset({Event.UNFENCED})
        elif data.get("inControlledShutdown") == 1:
            events = frozenset({Event.CONTROLLED_SHUTDOWN})
    return _BrokerRecord(entry.at, data["brokerId"], events) if events else None


def _beside(entries: Sequence[Entry], at: int, record: _BrokerRecord) -> Iterator[int]:
    """Yield the offsets of the changes of partitions that may belong to a broker's record."""
    after = record.events & {Event.UNFENCED, Event.CONTROLLED_SHUTDOWN}
    beside = range(at + 1, len(entries)) if after else range(at - 1, -1, -1)
    for other in beside:
        if entries[other].kind != _CHANGE:
            return
        yield entries[other].offset


def _of_brokers(
    records: Mapping[int, _BrokerRecord], down: Sequence[Down]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the place of each broker's record, and the steps of the model that it may be."""
    stopping, fenced = set[int](), set[int]()
    for at, record in records.items():
        if Event.CONTROLLED_SHUTDOWN in record.events:
            stopping.add(record.broker)
            yield at, ("stop",)
        elif Event.UNFENCED in record.events:
            fenced.discard(record.broker)
            yield at, ("unfence",)
        elif Event.FENCED not in record.events:
            stopping.discard(record.broker)
            yield at, ("restart",)
        elif record.broker in stopping:
            # Its end is recorded once as it exits, and again when its session is over.
            yield at, () if record.broker in fenced else ("exit",)
        else:
            yield at, _fenced(records, at, down)
        if Event.FENCED in record.events:
            fenced.add(record.broker)


def _fenced(records: Mapping[int, _BrokerRecord], at: int, down: Sequence[Down]) -> tuple[str, ...]:
    """Return whether a fenced broker was dead, or alive without a session, or both as possible."""
    record = records[at]
    if any(one.has(record.broker, record.at) for one in down):
        return ("fence",)
    later = (one for n, one in records.items() if n > at and one.broker == record.broker)
    if Event.UNFENCED in next((one.events for one in later), ()):
        return ("cut off",)  # it did not register again, so its process has lived on
    return ("fence", "cut off")
