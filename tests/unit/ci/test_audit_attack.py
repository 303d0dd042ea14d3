"""The attack on many topics, as far as it needs no brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import audit_attack
import audit_schedules
import pytest
from audit_attack import Target
from audit_schedules import Drawn

from ackproof.cluster.admin import PartitionView
from ackproof_model.planning import Operation, OperationKind


def test_brokers_of_a_rack_lose_power_together(monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[str, list[int]]] = []

    class Recorded:
        def __init__(self, **fields: object) -> None: ...

        def inject(self, cluster: object, nodes: list[int]) -> None:
            calls.append(("inject", nodes))

        def verify(self, cluster: object, nodes: list[int], done: None) -> None: ...

        def heal(self, cluster: object, nodes: list[int], done: None) -> None:
            calls.append(("heal", nodes))

    monkeypatch.setattr(audit_attack, "registered", lambda: {"power_loss": Recorded})
    cluster = cast("Any", SimpleNamespace(interfaces=None, broker_ids=lambda: [1, 2, 3]))
    faults = audit_attack.Faults(cluster, wiped=False)
    rack = next(one for one in audit_schedules.of_racks("4.4.0") if len(one.operations) == 4)
    for operation in rack.operations[:2]:
        faults.perform(operation)
    assert (calls, faults.informed()) == ([("inject", [1, 3])], [2])
    for operation in rack.operations[2:]:
        faults.perform(operation)
    assert calls[1:] == [("heal", [1]), ("heal", [3])]
    assert faults.informed() == [1, 2, 3]


@pytest.mark.parametrize(
    ("leader", "isr", "order"),
    [
        pytest.param(1, (1, 2, 3), [3, 1, 2], id="to the broker that fails next"),
        pytest.param(3, (1, 2, 3), [1, 2, 3], id="away from it"),
        pytest.param(1, (1, 2), [2, 1, 3], id="to a member of the ISR"),
        pytest.param(2, (2,), None, id="nowhere"),
    ],
)
def test_leaders_move_by_a_new_first_replica(
    leader: int, isr: tuple[int, ...], order: list[int] | None
):
    calls: list[object] = []
    operations = SimpleNamespace(
        reassign=calls.append, elect=lambda places, *, unclean: calls.append((places, unclean))
    )
    view = PartitionView(leader=leader, isr=isr, replicas=(1, 2, 3))
    cluster = SimpleNamespace(
        partitions=lambda: {("t", 0): view}, interfaces=SimpleNamespace(operations=operations)
    )
    drawn = Drawn(
        kafka="4.4.0", replicas=3, minimum=1, acks="all", idempotence=False, unclean=False, racks=0
    )
    schedule = next(audit_schedules.of_racks("4.4.0"))
    said = audit_schedules.claim(drawn, schedule)
    assert said is not None
    target = Target(
        number=0, topic="t", plan=said.plan, settings=drawn.topic, acks="all", idempotence=False
    )
    following = Operation(kind=OperationKind.LOSE_POWER, broker=2)
    audit_attack.further(cast("Any", cluster), "leader_move", [target], following)
    assert calls == ([{("t", 0): order}, ([("t", 0)], False)] if order else [])
