"""Validates a controller's metadata log against the rules, change by change.

Every PartitionChangeRecord must be the change by the rules on some event, from the state after the
earlier records. An event of a broker must have changed all its partitions. (Trace validation:
Cirstea, Kuppe, Loillier, Merz 2024; Howard and others, CCF, NSDI 2025.)

Requests are not in the log, so any valid requested ISR is accepted, and any time of a requested
election or reassignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from ackproof_model.kafka.partition_change import (
    NO_LEADER,
    Change,
    ControllerRules,
    Registration,
)
from ackproof_model.validation import controller_events as events
from ackproof_model.validation.controller_events import Event, Step
from ackproof_model.validation.controller_state import (
    ControllerState,
    LogError,
    MetadataRecord,
    PartitionId,
    change_of,
    created,
    partition_of,
)
from ackproof_model.validation.mismatch import Mismatch

_CHANGE = "PARTITION_CHANGE_RECORD"
_CREATED = "partition created"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The explained part of a log.

    steps: the metadata offset of each explained partition change or creation, and its kind, such as
    ``broker fenced: leader from the ISR``. events: by metadata offset, the events on any of which
    the rules make the explained change. total: the number of partition changes. mismatch: the first
    unexplained change, None if all are explained.
    """

    steps: tuple[tuple[int, str], ...]
    events: Mapping[int, frozenset[Event]]
    total: int
    mismatch: Mismatch | None

    @property
    def explained(self) -> int:
        return sum(step != _CREATED for _, step in self.steps)

    @property
    def coverage(self) -> dict[str, int]:
        return dict(sorted(Counter(step for _, step in self.steps).items()))


def replay(records: Sequence[MetadataRecord], rules: ControllerRules) -> Replay:
    """Explain a whole metadata log, or its longest explainable beginning."""
    run = _Run(records, ControllerState(rules))
    total = sum(record.kind == _CHANGE for record in records)
    mismatch = next(filter(None, map(run.take, range(len(records)))), None)
    return Replay(steps=tuple(run.steps), events=run.events, total=total, mismatch=mismatch)


class _Run:
    def __init__(self, records: Sequence[MetadataRecord], state: ControllerState) -> None:
        self.records = records
        self.state = state
        self.steps: list[tuple[int, str]] = []
        self.events: dict[int, frozenset[Event]] = {}
        #: The last record that changes no partition, and the changes that must still follow it.
        self.before: MetadataRecord | None = None
        self.due: dict[PartitionId, Step] = {}
        #: The partitions that have changed since then.
        self.changed: dict[PartitionId, frozenset[Event]] = {}

    def take(self, index: int) -> Mismatch | None:
        """Check and apply one record; return the mismatch if it does not fit."""
        record = self.records[index]
        if record.snapshot:
            return self._apply(record)
        if record.kind == _CHANGE:
            return self._change(index) or self._apply(record)
        if mismatch := self._missing(record, self.due) or self._missing(record, self._gone(record)):
            return mismatch
        if record.kind == "PARTITION_RECORD" and (wrong := self._created(record)):
            return wrong
        self.before, self.changed = record, {}
        failed = self._apply(record)
        self.due = {} if failed else self._due(record)
        return failed

    def _apply(self, record: MetadataRecord) -> Mismatch | None:
        try:
            self.state.apply(record)
        except LogError as error:
            return _mismatch(record, "", observed=str(error), before="", expected=())
        return None

    def _change(self, index: int) -> Mismatch | None:
        record = self.records[index]
        partition = partition_of(record.data)
        now = self.state.partitions.get(partition)
        if now is None:
            return None  # applying the record reports it
        written = change_of(record.data)
        later = (self.records[at] for at in range(index + 1, len(self.records)))
        after = next((one for one in later if one.kind != _CHANGE), None)
        possible = list(
            events.steps(self.state, partition, written, before=self.before, after=after)
        )
        if partition in self.due:  # the records of one event are adjacent
            possible = [self.due.pop(partition)]
        fitting = [one for one in possible if one.change == written]
        if not fitting:
            return _mismatch(
                record,
                self.state.name(partition),
                observed=in_words(written),
                before=describe(now),
                expected=tuple(
                    dict.fromkeys(f"{_name(one)}: {in_words(one.change)}" for one in possible)
                ),
            )
        self.steps.append((record.offset, f"{fitting[0].event}: {effect(now, written)}"))
        self.changed[partition] = frozenset(one.event for one in fitting)
        self.events[record.offset] = self.changed[partition]
        return None

    def _due(self, record: MetadataRecord) -> dict[PartitionId, Step]:
        """Return the changes that must follow a broker's record, which was just applied."""
        if record.kind != "BROKER_REGISTRATION_CHANGE_RECORD":
            return {}
        broker, partitions = record.data["brokerId"], self.state.partitions
        steps: dict[PartitionId, Step] = {}
        if record.data.get("fenced") == -1:
            leaderless = [
                partition for partition, now in partitions.items() if now.leader == NO_LEADER
            ]
            steps = {
                partition: events.broker_unfenced(self.state, partition, broker)
                for partition in leaderless
            }
        elif record.data.get("inControlledShutdown") == 1:
            steps = self._leaves(broker, Event.CONTROLLED_SHUTDOWN)
        return {partition: step for partition, step in steps.items() if step.change is not None}

    def _gone(self, record: MetadataRecord) -> dict[PartitionId, Step]:
        """Return the changes that must precede a broker's record."""
        broker = record.data.get("brokerId", NO_LEADER)
        if record.kind == "BROKER_REGISTRATION_CHANGE_RECORD" and record.data.get("fenced") == 1:
            return self._leaves(broker, Event.FENCED)
        if record.kind == "UNREGISTER_BROKER_RECORD":
            return self._leaves(broker, Event.UNREGISTERED)
        if record.kind == "REGISTER_BROKER_RECORD" and self.state.rules.unclean_shutdown:
            known = self.state.brokers.get(broker)
            again = known is not None and known.incarnation != record.data["incarnationId"]
            due = self._leaves(broker, Event.CLEAN_START) if again else {}
            # 4.0 elects it in the same event, if it is the last known leader (KAFKA-19522).
            done = {at for at, by in self.changed.items() if Event.UNCLEAN_START in by}
            return {partition: step for partition, step in due.items() if partition not in done}
        return {}

    def _leaves(self, broker: int, event: Event) -> dict[PartitionId, Step]:
        return {
            partition: events.broker_goes(self.state, partition, broker, event)
            for partition, now in self.state.partitions.items()
            if broker in now.isr
        }

    def _missing(self, record: MetadataRecord, due: Mapping[PartitionId, Step]) -> Mismatch | None:
        """Return the first partition whose required change is missing."""
        for partition, step in due.items():
            if step.change is not None and partition in self.state.partitions:
                return _mismatch(
                    record,
                    self.state.name(partition),
                    observed="nothing was written before it",
                    before=describe(self.state.partitions[partition]),
                    expected=(f"{_name(step)}: {in_words(step.change)}",),
                )
        return None

    def _created(self, record: MetadataRecord) -> Mismatch | None:
        """Check a new partition (`ReplicationControlManager.buildPartitionRegistration`)."""
        actual = created(record.data)
        brokers = self.state.brokers
        isr = tuple(one for one in actual.replicas if one in brokers and brokers[one].active)
        expected = Registration(
            replicas=actual.replicas,
            directories=actual.directories,
            isr=isr,
            leader=isr[0] if isr else NO_LEADER,
            leader_epoch=0,
            partition_epoch=0,
            recovering=False,
        )
        if actual == expected:
            self.steps.append((record.offset, _CREATED))
            return None
        return _mismatch(
            record,
            self.state.name(partition_of(record.data)),
            observed=describe(actual),
            before="",
            expected=(f"created: {describe(expected)}",),
        )


def effect(now: Registration, change: Change) -> str:
    """Return a change of leader and ELR in words: the kind of a step."""
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
    values = {field.name: getattr(now, field.name) for field in fields(now)}
    del values["directories"]
    return _words({k: v for k, v in values.items() if v != () and v is not False})


def in_words(change: Change | None) -> str:
    if change is None:
        return "nothing"
    values = {field.name: getattr(change, field.name) for field in fields(change)}
    return _words({k: v for k, v in values.items() if v is not None})


def _words(values: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {list(value) if isinstance(value, tuple) else value}"
        for name, value in values.items()
    )


def _name(step: Step) -> str:
    event = step.event.format(isr=list(step.isr))
    return event if step.broker is None else f"{event} ({step.broker})"


def _mismatch(
    record: MetadataRecord, partition: str, *, observed: str, before: str, expected: tuple[str, ...]
) -> Mismatch:
    about = f" about {partition}" if partition else ""
    return Mismatch(
        where=f"metadata offset {record.offset}{about}",
        observed=observed,
        before=before,
        expected=expected,
    )
