"""What the faults of a schedule do to coordinators, and to requests on their way.

Not whether records are lost: that is the question of the model of replication, which is asked about
the partitions of the coordinators, too (`clients`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum

from ackproof.scenario.client import ClientLibrary
from ackproof.scenario.model import Scenario
from ackproof_faults.schedule.blocks import plain
from ackproof_model.effects import (
    Alters,
    Anything,
    Cuts,
    Effect,
    Elects,
    Ends,
    Intercepts,
    Reassigns,
    Resets,
    SetsBack,
    Skews,
    Slows,
    Stalls,
    Unreachable,
    Upgrades,
)


class Disturbance(StrEnum):
    """One thing that a fault may do.

    MOVES: a partition gets another leader, and so a coordinator moves. DEPOSED: a broker that is no
    longer the coordinator still answers. UNANSWERED: a request is carried out at once or never, and
    its sender gets no response. LATE_…: its sender repeats it, and it is carried out later: adding
    a partition to a transaction, a record, the end of a transaction, a commit of offsets, a marker.
    """

    MOVES = "moves"
    DEPOSED = "deposed"
    UNANSWERED = "unanswered"
    LATE_ADD = "late add"
    LATE_PRODUCE = "late produce"
    LATE_END = "late end"
    LATE_OFFSETS = "late offsets"
    LATE_MARKER = "late marker"


D = Disturbance

_CLIENTS_LATE = (D.LATE_ADD, D.LATE_PRODUCE, D.LATE_END, D.LATE_OFFSETS)
_LATE = (*_CLIENTS_LATE, D.LATE_MARKER)

#: Kafka's names of the requests that may be late. A log asks the coordinator before a transaction's
#: first record (KIP-890), so that request keeps a record waiting, too.
_REQUESTS: Mapping[str, tuple[Disturbance, ...]] = {
    "AddPartitionsToTxn": (D.LATE_ADD, D.LATE_PRODUCE),
    "AddOffsetsToTxn": (D.LATE_ADD,),
    "Produce": (D.LATE_PRODUCE,),
    "TxnOffsetCommit": (D.LATE_PRODUCE,),
    "EndTxn": (D.LATE_END,),
    "OffsetCommit": (D.LATE_OFFSETS,),
    "WriteTxnMarkers": (D.LATE_MARKER,),
}
#: Requests between brokers and controllers without which a broker is fenced.
_SESSION = frozenset({"BrokerHeartbeat", "BrokerRegistration"})

#: When the sender of a request repeats it, milliseconds: librdkafka, the Java client, a broker.
_CLIENT_TIMEOUT = ("socket.timeout.ms", 60_000)
_JAVA_TIMEOUT = ("request.timeout.ms", 30_000)
_BROKER_TIMEOUT = ("request.timeout.ms", 30_000)

#: Seconds that a fault may hold longer than its `heal_after`.
_MARGIN_S = 10.0


def disturbances(
    scenario: Scenario, client: ClientLibrary, settings: Mapping[str, object]
) -> Mapping[Disturbance, str]:
    """Return what may happen to such a client with these settings, each with the fault behind it.

    A request is repeated when its connection ends, or after a timeout. Without a fault that ends
    connections, what holds requests for a shorter time makes none late.
    """
    by: dict[Disturbance, str] = {}
    held: dict[Disturbance, float] = defaultdict(float)
    repeats = not plain(scenario.faults)
    closes = False
    for fault in scenario.every_fault:
        lasts = math.inf if repeats or fault.heal_after is None else fault.heal_after + _MARGIN_S
        for effect in fault.effects:
            closes |= _closes_connections(effect)
            for one in set(_disturbances(effect)):
                by.setdefault(one, fault.name)
                held[one] += lasts
    timeout = _CLIENT_TIMEOUT if client.java is None else _JAVA_TIMEOUT
    patience = dict.fromkeys(_CLIENTS_LATE, _seconds(settings, timeout))
    patience[D.LATE_MARKER] = _seconds(scenario.cluster.settings, _BROKER_TIMEOUT)
    return {
        one: fault for one, fault in by.items() if closes or held[one] >= patience.get(one, 0.0)
    }


def _closes_connections(effect: Effect) -> bool:
    if isinstance(effect, Intercepts):
        return effect.action == "cut"
    return isinstance(effect, Anything | Ends | Resets | Unreachable | Upgrades)


def _seconds(settings: Mapping[str, object], timeout: tuple[str, int]) -> float:
    return float(str(settings.get(*timeout))) / 1000


def _disturbances(effect: Effect) -> Iterator[Disturbance]:
    """Yield what an effect may do, whatever its order and duration."""
    match effect:
        case Anything():
            yield from Disturbance
        case Ends() | Unreachable() | Upgrades():
            yield from (D.MOVES, D.UNANSWERED)
        case Elects() | Reassigns():
            yield from (D.MOVES, D.UNANSWERED)
        case Stalls():
            yield from (D.MOVES, D.DEPOSED, D.UNANSWERED, *_LATE)
        case Resets():
            yield D.UNANSWERED
        case Slows():
            yield from (D.MOVES, D.DEPOSED, D.UNANSWERED, *_LATE)
        case Skews():
            yield from (D.MOVES, D.DEPOSED)
        case Cuts():
            yield from _by_cut(effect)
        case Intercepts():
            yield from _by_proxy(effect)
        case SetsBack() | Alters():
            yield D.MOVES


def _by_cut(cut: Cuts) -> Iterator[Disturbance]:
    """Yield what a cut does: packets that were lost are sent again until it ends.

    Packets that the nodes send are no requests of clients, but may be markers.
    """
    if "clients" in cut.channels:
        yield D.UNANSWERED
        if cut.direction != "to_peers":
            yield from _CLIENTS_LATE
    if "controllers" in cut.channels:
        yield from (D.MOVES, D.DEPOSED)
    if "replication" in cut.channels:
        yield from (D.LATE_MARKER, D.LATE_PRODUCE)


def _by_proxy(taken: Intercepts) -> Iterator[Disturbance]:
    if taken.api in _SESSION:
        yield from (D.MOVES, D.DEPOSED)
    yield D.UNANSWERED
    if taken.direction == "response" or taken.action in ("drop", "cut"):
        return
    late = _REQUESTS.get(taken.api, ())
    if taken.action == "hold":  # with everything behind it on its connection
        behind = (D.LATE_MARKER,) if late == (D.LATE_MARKER,) else _CLIENTS_LATE
        late = behind if late else _LATE
    yield from late
