"""Effects of a schedule on requests of clients and on coordinators.

Whether records are lost, also in coordinators' partitions, is a question to the replication model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from ackproof.scenario.client import ClientLibrary
from ackproof.scenario.kafka_clients import REQUEST_TIMEOUT, SOCKET_TIMEOUT
from ackproof.scenario.model import Scenario
from ackproof_faults.schedule.blocks import plain
from ackproof_model import Likelihood
from ackproof_model.effects import CLIENTS_LATE, Client, Disturbance
from ackproof_model.kafka_settings import REQUEST_TIMEOUT_MS
from ackproof_spark.anomaly import Anomaly

#: An anomaly, its prediction, and the reason in one sentence.
ClientPrediction = tuple[Anomaly, Likelihood, str]

#: The most perturbations that a search combines.
IN_ALL = 2

#: The timeout after which a broker repeats a request.
_BROKER_TIMEOUT = (REQUEST_TIMEOUT_MS, 30_000)

#: Seconds that a fault may hold longer than its `heal_after`.
MARGIN_S = 10.0


def disturbances(
    scenario: Scenario, client: ClientLibrary, settings: Mapping[str, object]
) -> Mapping[Disturbance, str]:
    """Return the possible disturbances of such a client, each with the fault that causes it.

    A request is repeated when its connection ends, or after a timeout. So a fault that holds
    requests for a shorter time makes no request late, unless a fault ends connections.
    """
    by: dict[Disturbance, str] = {}
    lasting: dict[Disturbance, float] = defaultdict(float)
    repeats = not plain(scenario.faults)
    closes = False
    for fault in scenario.every_fault:
        lasts = math.inf if repeats or fault.heal_after is None else fault.heal_after + MARGIN_S
        for effect in fault.effects:
            closes |= effect.closes_connections
            for disturbance in set(effect.disturbances()):
                by.setdefault(disturbance, fault.name)
                lasting[disturbance] += lasts
    timeout = SOCKET_TIMEOUT if client.java is None else REQUEST_TIMEOUT
    patience = dict.fromkeys(CLIENTS_LATE, _seconds(settings, timeout))
    patience[Disturbance.LATE_MARKER] = _seconds(scenario.cluster.settings, _BROKER_TIMEOUT)
    return {
        disturbance: fault
        for disturbance, fault in by.items()
        if closes or lasting[disturbance] >= patience.get(disturbance, 0.0)
    }


def _seconds(settings: Mapping[str, object], timeout: tuple[str, int]) -> float:
    return float(str(settings.get(*timeout))) / 1000


def client_effects(scenario: Scenario, role: str) -> Iterator[tuple[Client, str]]:
    """Yield the effects of faults on clients of a role, each with the fault's name."""
    for fault in scenario.every_fault:
        for effect in fault.effects:
            if isinstance(effect, Client) and effect.role == role:
                yield effect, fault.name


def in_words(kinds: Iterable[str], words: Mapping[str, str], causes: Mapping[str, str]) -> str:
    """Return perturbations as `a late marker (isolate) and a failover (kill)`."""
    parts = [
        words[kind] + (f" ({causes[kind]})" if causes.get(kind) else "")
        for kind in dict.fromkeys(kinds)
    ]
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
