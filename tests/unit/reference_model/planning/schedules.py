"""Schedules with planned elections, moves and held requests that lose records."""

from __future__ import annotations

from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.coverage import Pair, Shape
from ackproof_model.planning import Operation, OperationKind, Operations

K = OperationKind

#: A planned election, and the ends of two leaders.
ELECTING = AdversaryModel(
    kafka_version="4.4.0", misses_epochs=True, budgets=Budgets(leader_moves=1, kills=2)
)
#: A move to a fourth broker and back, two followers that lag, and the end of the fourth.
MOVING = AdversaryModel(
    kafka_version="4.4.0",
    misses_epochs=True,
    spare_brokers=1,
    targets=((0, 1, 2), (3, 1, 2)),
    budgets=Budgets(reassignments=2, shrinks=2, kills=1),
)


def at_once(kind: OperationKind, broker: int) -> Operation:
    return Operation(kind=kind, broker=broker, settled=False)


def move(*to: int) -> Operation:
    return Operation(kind=K.REASSIGN, broker=to[0], to=to)


#: A planned election, and the ends of two processes, before KIP-903 (3.5).
REJOINING = AdversaryModel(
    kafka_version="3.4.1",
    misses_epochs=True,
    budgets=Budgets(kills=1, power_losses=1, leader_moves=1),
)
#: The shape of B56: broker 2 lacks a record, leads, and ends; 0 leads again, late, and ends.
LATE = at_once(K.HOLD_METADATA, 0)
MISSED_EPOCH = (
    at_once(K.HOLD_FETCHES, 2),
    LATE,
    Operation(kind=K.ELECT, broker=2),
    Operation(kind=K.KILL, broker=2),
    at_once(K.WITHHOLD, 0),
    Operation(kind=K.JOIN, broker=0, ends=K.HOLD_METADATA),
    Operation(kind=K.KILL, broker=0),
)
#: The shape of B31: broker 1 has caught up, loses its log, joins the ISR, and is elected.
REJOINED = (
    Operation(kind=K.KILL, broker=1),
    at_once(K.HOLD_ISR, 0),
    Operation(kind=K.START, broker=1),
    Operation(kind=K.LOSE_POWER, broker=1),
    at_once(K.WITHHOLD, 0),
    Operation(kind=K.START, broker=1),
    Operation(kind=K.JOIN, broker=0, ends=K.HOLD_ISR),
    Operation(kind=K.ELECT, broker=1),
)
#: In it broker 1 loses power outside the ISR.
OUTSIDE = Pair("lose power", Shape(0, (0, 2)), Shape(0, (0, 2)))
#: The shape of B57: broker 0 has deleted its log, and is elected when 3 ends.
REMOVED = (
    Operation(kind=K.LAG, broker=1),
    Operation(kind=K.LAG, broker=2),
    move(3, 1, 2),
    at_once(K.KILL, 3),
    move(0, 1, 2),
)


def in_time(operations: Operations) -> Operations:
    return tuple(one for one in operations if K.HOLD_METADATA not in (one.kind, one.ends))
