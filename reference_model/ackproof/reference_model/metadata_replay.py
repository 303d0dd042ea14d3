"""Holds a controller's metadata log against the rules, change by change.

Every PartitionChangeRecord must be what the rules write on some event, from the state that the
records before it led to; and an event that concerns a broker must have left no partition out.
(Trace validation: Cirstea, Kuppe, Loillier, Merz 2024; Howard and others, CCF, NSDI 2025.)

What the log does not hold stays free: which ISR a leader asked for, and when somebody asked for an
election or a reassignment. So an ISR that a leader could have asked for is no contradiction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from ackproof.reference_model import controller_events as events
from ackproof.reference_model.controller_events import Step
from ackproof.reference_model.controller_state import (
    ControllerState,
    LogError,
    MetadataRecord,
    Place,
    change_of,
    created,
    place_of,
)
from ackproof.reference_model.partition_change import (
    NO_LEADER,
    Change,
    ControllerRules,
    Registration,
)

_CHANGE = "PARTITION_CHANGE_RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The first step that does not fit.

    offset: of the record in the metadata log. partition: ``orders-0``; empty if it is about none.
    written: the record, in words. before: the partition's state. expected: what the rules would
    have written, one line an event that may have happened.
    """

    offset: int
    partition: str
    written: str
    before: str
    expected: tuple[str, ...]

    def __str__(self) -> str:
        about = f" about {self.partition}" if self.partition else ""
        rules = "; ".join(self.expected) or "nothing"
        state = f" (it was {self.before})" if self.before else ""
        return f"metadata offset {self.offset}{about}: {self.written}{state}; by the rules: {rules}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How far a log can be explained.

    explained: partition changes that fit, from the beginning on. total: all there are. steps: how
    often each kind of step was taken, such as ``broker fenced: leader from the ISR``. mismatch: the
    first that does not fit, None if all do.
    """

    explained: int
    total: int
    steps: Mapping[str, int]
    mismatch: Mismatch | None


def replay(records: Sequence[MetadataRecord], rules: ControllerRules) -> Replay:
    """Explain a whole metadata log, or the longest part from its beginning that can be."""
    run = _Run(records, ControllerState(rules))
    total = sum(record.kind == _CHANGE for record in records)
    mismatch = next(filter(None, map(run.take, range(len(records)))), None)
    return Replay(
        explained=run.explained,
        total=total,
        steps=dict(sorted(run.steps.items())),
        mismatch=mismatch,
    )


class _Run:
    """A replay under way."""

    def __init__(self, records: Sequence[MetadataRecord], state: ControllerState) -> None:
        self.records = records
        self.state = state
        self.explained = 0
        self.steps: Counter[str] = Counter()
        #: The last record that is about no partition; the partitions that the broker in it must
        #: still have changed.
        self.before: MetadataRecord | None = None
        self.due: dict[Place, str] = {}

    def take(self, index: int) -> Mismatch | None:
        """Check and apply one record; return what does not fit."""
        record = self.records[index]
        if record.snapshot:
            return self._apply(record)
        if record.kind == _CHANGE:
            return self._change(index) or self._apply(record)
        if mismatch := self._left_out(record, self.due) or self._incomplete(record):
            return mismatch
        if record.kind == "PARTITION_RECORD" and (wrong := self._created(record)):
            return wrong
        self.before = record
        failed = self._apply(record)
        self.due = {} if failed else self._due(record)
        return failed

    def _apply(self, record: MetadataRecord) -> Mismatch | None:
        try:
            self.state.apply(record)
        except LogError as error:
            return _mismatch(record, "", written=str(error), before="", expected=())
        return None

    def _change(self, index: int) -> Mismatch | None:
        record = self.records[index]
        place = place_of(record.data)
        now = self.state.partitions.get(place)
        if now is None:
            return None  # applying it says so
        written = change_of(record.data)
        following = (one for one in self.records[index:] if one.kind != _CHANGE)
        possible = list(
            events.steps(
                self.state, place, written, before=self.before, after=next(following, None)
            )
        )
        step = next((one for one in possible if one.change == written), None)
        if step is None:
            return _mismatch(
                record,
                self.state.name(place),
                written=tell(written),
                before=describe(now),
                expected=tuple(
                    dict.fromkeys(f"{_name(one)}: {tell(one.change)}" for one in possible)
                ),
            )
        self.explained += 1
        self.steps[f"{step.event}: {effect(now, written)}"] += 1
        self.due.pop(place, None)
        return None

    def _due(self, record: MetadataRecord) -> dict[Place, str]:
        """Return the partitions that the event of this record is yet to write about."""
        if record.kind != "BROKER_REGISTRATION_CHANGE_RECORD":
            return {}
        due = {}
        if record.data.get("fenced") == -1:
            event = "broker unfenced"
        elif record.data.get("inControlledShutdown") == 1:
            event = "controlled shutdown"
        else:
            return {}
        for place, now in self.state.partitions.items():
            stays = (
                now.leader != NO_LEADER
                if event == "broker unfenced"
                else (record.data["brokerId"] not in now.isr)
            )
            if not stays:
                due[place] = event
        return due

    def _incomplete(self, record: MetadataRecord) -> Mismatch | None:
        """Return a partition from which a broker should have gone before this record."""
        broker = record.data.get("brokerId", NO_LEADER)
        if record.kind == "BROKER_REGISTRATION_CHANGE_RECORD" and record.data.get("fenced") == 1:
            event = "broker fenced"
        elif record.kind == "UNREGISTER_BROKER_RECORD":
            event = "broker unregistered"
        elif record.kind == "REGISTER_BROKER_RECORD" and self._new_incarnation(record):
            event = "registered again"
        else:
            return None
        places = [place for place, now in self.state.partitions.items() if broker in now.isr]
        return self._missing(record, dict.fromkeys(places, event), broker)

    def _new_incarnation(self, record: MetadataRecord) -> bool:
        known = self.state.brokers.get(record.data["brokerId"])
        other = known is not None and known.incarnation != record.data["incarnationId"]
        return other and events.shutdown_cleans(self.state)

    def _left_out(self, record: MetadataRecord, due: Mapping[Place, str]) -> Mismatch | None:
        broker = self.before.data.get("brokerId", NO_LEADER) if self.before else NO_LEADER
        return self._missing(record, due, broker)

    def _missing(
        self, record: MetadataRecord, places: Mapping[Place, str], broker: int
    ) -> Mismatch | None:
        """Return the first partition about which an event should have written, and has not."""
        for place, event in places.items():
            if place not in self.state.partitions:
                continue
            if event == "broker unfenced":
                step = events.broker_unfenced(self.state, place, broker)
            else:
                step = events.broker_goes(self.state, place, broker, event)
            if step.change is not None:
                return _mismatch(
                    record,
                    self.state.name(place),
                    written="nothing was written before it",
                    before=describe(self.state.partitions[place]),
                    expected=(f"{_name(step)}: {tell(step.change)}",),
                )
        return None

    def _created(self, record: MetadataRecord) -> Mismatch | None:
        """Check a new partition (`ReplicationControlManager.buildPartitionRegistration`)."""
        found = created(record.data)
        brokers = self.state.brokers
        isr = tuple(one for one in found.replicas if one in brokers and brokers[one].active)
        expected = Registration(
            replicas=found.replicas,
            directories=found.directories,
            isr=isr,
            leader=isr[0] if isr else NO_LEADER,
            leader_epoch=0,
            partition_epoch=0,
        )
        if found == expected:
            self.steps["partition created"] += 1
            return None
        return _mismatch(
            record,
            self.state.name(place_of(record.data)),
            written=describe(found),
            before="",
            expected=(f"created: {describe(expected)}",),
        )


def effect(now: Registration, change: Change) -> str:
    """Return in words what a change does about the leader, for counting kinds of steps."""
    if change.leader is None:
        words = "same leader"
    elif change.leader == NO_LEADER:
        words = "no leader"
    elif change.leader == now.leader:
        words = "same leader, new epoch"
    elif change.recovering:
        words = "leader from outside"
        if change.leader in now.elr or change.leader in now.isr:
            words = "leader uncleanly from ISR or ELR"
        elif now.last_known_elr == (change.leader,):
            words = "last known leader"
    else:
        words = "leader from the ELR" if change.leader in now.elr else "leader from the ISR"
    if change.elr is not None:
        words += ", ELR grows" if len(change.elr) > len(now.elr) else ", ELR shrinks"
    return words


def describe(now: Registration) -> str:
    """Return a partition's state in words."""
    told = {field.name: getattr(now, field.name) for field in fields(now)}
    del told["directories"]
    told = {name: value for name, value in told.items() if value != () and value is not False}
    return _words(told)


def tell(change: Change | None) -> str:
    """Return a change in words."""
    if change is None:
        return "nothing"
    told = {field.name: getattr(change, field.name) for field in fields(change)}
    return _words({name: value for name, value in told.items() if value is not None})


def _words(values: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {list(value) if isinstance(value, tuple) else value}"
        for name, value in values.items()
    )


def _name(step: Step) -> str:
    return step.event if step.broker is None else f"{step.event} ({step.broker})"


def _mismatch(
    record: MetadataRecord, partition: str, *, written: str, before: str, expected: tuple[str, ...]
) -> Mismatch:
    return Mismatch(
        offset=record.offset,
        partition=partition,
        written=written,
        before=before,
        expected=expected,
    )
