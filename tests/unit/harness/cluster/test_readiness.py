"""Full ISR is what every broker tells, not only the one that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.admin import PartitionView, TopicPartition
from ackproof.cluster.readiness import await_full_isr
from ackproof.errors import ClusterError

PLACE = ("orders", 0)
Told = Mapping[TopicPartition, PartitionView]


def view(leader: int, *isr: int) -> Told:
    return {PLACE: PartitionView(leader=leader, replicas=(1, 2), isr=isr)}


FULL, SMALLER, OLD_LEADER = view(1, 1, 2), view(1, 1), view(2, 1, 2)


class Brokers:
    """Three brokers, of which the third tells these things one after the other."""

    def __init__(self, *told: Told, zookeeper: bool = False) -> None:
        self.nodes: dict[int, Any] = {}
        self.topology = SimpleNamespace(zookeeper=zookeeper)
        self.left = list(told)

    def partitions(self) -> Told:
        return FULL

    def broker_ids(self) -> list[int]:
        return [1, 2, 3]

    def told_by(self, broker: int) -> Told:
        if broker < 3:
            return FULL
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def await_it(brokers: Brokers, *, within_s: float = 30) -> None:
    await_full_isr(brokers, [PLACE], within_s=within_s)  # type: ignore[arg-type]


def test_it_ends_when_the_last_broker_has_heard() -> None:
    brokers = Brokers({}, OLD_LEADER, SMALLER, FULL)
    await_it(brokers)
    assert brokers.left == [FULL]


@pytest.mark.parametrize("told", [{}, OLD_LEADER, SMALLER], ids=["nothing", "leader", "ISR"])
def test_a_broker_that_never_hears_is_named(told: Told) -> None:
    with pytest.raises(ClusterError, match="broker 3 has not heard of it"):
        await_it(Brokers(told), within_s=0.1)


def test_with_zookeeper_brokers_hear_late_of_an_isr_and_need_not() -> None:
    await_it(Brokers(SMALLER, zookeeper=True), within_s=0.1)
    with pytest.raises(ClusterError):
        await_it(Brokers(OLD_LEADER, zookeeper=True), within_s=0.1)
