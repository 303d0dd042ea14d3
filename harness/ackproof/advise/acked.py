"""Looks up the sends of an application's acked log in the logs on the disks."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ackproof.advise.disks import NodeDisks
from ackproof.advise.outage import Outage
from ackproof.advise.records import read_records
from ackproof.ledger import acked_log
from ackproof.ledger.acked_log import AckedSend, LogProblems
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets
from ackproof_spark.forensics.segment_records import Record
from ackproof_spark.record import ID_HEADER
from ackproof_spark.tables import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An acked send whose record is not in the partition's log. disks: brokers that still have it.

    certain: whether it is gone from the log for certain; if not, `why` says what is in doubt.
    """

    send: AckedSend
    disks: tuple[int, ...]
    certain: bool
    why: str = ""

    def __str__(self) -> str:
        disks = ", ".join(map(str, self.disks))
        where = f"broker {disks} still has it" if disks else "no given disk has it"
        return f"{self.send}: {'gone' if self.certain else f'may be gone ({self.why})'}; {where}"


@dataclass(slots=True, kw_only=True)
class Lookup:
    """What became of the acked sends.

    acked, present: how many. removed: those with an offset below the log's start. without_offset:
    those acked without an offset, which are not looked up. judged: the partitions with sends that
    were looked up. undecided: the sends to partitions that cannot be judged.
    """

    acked: int = 0
    present: int = 0
    removed: int = 0
    without_offset: int = 0
    judged: set[TopicPartition] = field(default_factory=set)
    undecided: dict[TopicPartition, int] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    problems: LogProblems = field(default_factory=LogProblems)


def look_up(
    logs: Sequence[Path],
    past: Mapping[TopicPartition, Outage],
    nodes: Mapping[int, NodeDisks],
) -> Lookup:
    """Compare each acked send with the record at its offset. Raises AckedLogError, ScenarioError.

    A bundle has no records. There a send is missing if its offset is gone from the log.
    """
    found = Lookup()
    sends: defaultdict[TopicPartition, defaultdict[int, list[AckedSend]]]
    sends = defaultdict(lambda: defaultdict(list))
    for path in logs:
        for send in acked_log.read(path, found.problems):
            if send.outcome is not Outcome.ACKED or send.partition is None:
                continue
            found.acked += 1
            if send.offset is None or send.offset < 0:
                found.without_offset += 1
            else:
                sends[send.topic, send.partition][send.offset].append(send)
    for place, of_place in sorted(sends.items()):
        _of_partition(found, place, of_place, past.get(place), nodes)
    return found


def _of_partition(
    found: Lookup,
    place: TopicPartition,
    sends: Mapping[int, list[AckedSend]],
    outage: Outage | None,
    nodes: Mapping[int, NodeDisks],
) -> None:
    if outage is None or outage.compared is None:
        found.undecided[place] = sum(map(len, sends.values()))
        return
    found.judged.add(place)
    node = nodes[outage.compared]
    log = node.logs[place]
    wanted = {offset: of_offset for offset, of_offset in sends.items() if offset >= log.begin}
    total = sum(map(len, wanted.values()))
    found.removed += sum(map(len, sends.values())) - total
    if place in node.folders:
        why = "; ".join(outage.undecided) if outage.compared_is_stale else ""
        left = _unmatched(wanted, node, place)
        on_disks: defaultdict[int, list[int]] = defaultdict(list)
        for broker, other in sorted(nodes.items()):
            if broker != outage.compared and place in other.folders and left:
                rest = {id(send) for of in _unmatched(left, other, place).values() for send in of}
                for send in (send for of in left.values() for send in of):
                    if id(send) not in rest:
                        on_disks[id(send)].append(broker)
        missing = [
            Missing(send=send, disks=tuple(on_disks[id(send)]), certain=not why, why=why)
            for of_offset in left.values()
            for send in of_offset
        ]
    else:
        why = "a bundle has no records to compare with"
        missing = [
            Missing(send=send, disks=tuple(disks or ()), certain=offset >= log.end, why=why)
            for offset, of_offset in wanted.items()
            if (disks := _disks(outage, offset)) is not None or offset >= log.end
            for send in of_offset
        ]
    found.missing += sorted(missing, key=lambda one: one.send.offset or 0)
    found.present += total - len(missing)


def _unmatched(
    wanted: Mapping[int, list[AckedSend]], node: NodeDisks, place: TopicPartition
) -> dict[int, list[AckedSend]]:
    """Return the sends whose record a replica does not have at their offset."""
    left = {offset: list(sends) for offset, sends in wanted.items()}
    if not left:
        return left
    for record in read_records(node.folders[place], Offsets(min(left), max(left))):
        sends = [one for one in left.get(record.offset, ()) if not _is(one, record)]
        if sends:
            left[record.offset] = sends
        else:
            left.pop(record.offset, None)
    return left


def _is(send: AckedSend, record: Record) -> bool:
    """Whether a record has the id, key and digest of the send, as far as the acked log has them."""
    headers = {name: value for name, value in record.headers if value is not None}
    key = None if record.key is None else record.key.decode(errors="replace")
    return (
        (send.id is None or headers.get(ID_HEADER, b"").decode(errors="replace") == send.id)
        and (send.key is None or send.key == key)
        and send.digest in (None, hashlib.sha256(record.value or b"").hexdigest())
    )


def _disks(outage: Outage, at: int) -> list[int] | None:
    """Return the brokers that still have a lost offset; None if the offset is not lost."""
    gone = [one for one in outage.gone if one.offsets.first <= at <= one.offsets.last]
    return sorted({broker for one in gone for broker in one.disks}) if gone else None
