"""What Kafka's tools print of a group's offsets, and how often they are asked to change them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.group_offsets import GroupOffsets, offsets
from ackproof_faults import FaultError

#: Of kafka-consumer-groups.sh and kafka-share-groups.sh, 4.4.0.
CONSUMERS = """
GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
billing  orders  0          20              50              30   -            -     -
billing  orders  1          -               50              -    -            -     -
billing  other   0          7               50              43   -            -     -
"""
SHARED = """
GROUP    TOPIC   PARTITION  START-OFFSET  LAG
billing  orders  0          9             41
"""
RESET = """
GROUP    TOPIC   PARTITION  NEW-OFFSET
billing  orders  0          50
billing  orders  1          50
"""
DELETED = """Request succeeded for deleting offsets from group billing.

TOPIC   PARTITION  STATUS
orders  0          Successful
"""
NO_SHARE_GROUP = "\nError: GroupIdNotFoundException: Group billing is not a share group.\n"
ACTIVE = (
    "\nError: Assignments can only be reset if the group 'billing' is inactive, but the current "
    "state is Stable.\n\nGROUP    TOPIC   PARTITION  NEW-OFFSET\n"
)


@pytest.mark.parametrize(
    ("output", "found"),
    [(CONSUMERS, {0: 20}), (SHARED, {0: 9}), (RESET, {0: 50, 1: 50}), (DELETED, {}), ("", {})],
)
def test_offsets_are_those_of_the_topic(output: str, found: dict[int, int]) -> None:
    assert offsets(output, "orders") == found


class Tools:
    """Answers of the tools, in order; `asked` is what they were asked."""

    def __init__(self, *outputs: str, kafka: str = "4.4.0") -> None:
        self.topology = SimpleNamespace(kafka=kafka)
        self._outputs = list(outputs)
        self.asked: list[tuple[str, ...]] = []

    def run_kafka_tool(self, classes: tuple[str, ...], *arguments: str) -> str:
        self.asked.append((classes[0].rpartition(".")[2], *arguments))
        return self._outputs.pop(0) if len(self._outputs) > 1 else self._outputs[0]

    @property
    def groups(self) -> Any:
        return GroupOffsets(self)


GROUP = ("--group", "billing", "--topic", "orders")


def test_a_group_is_asked_for_by_the_tool_of_its_kind() -> None:
    share = Tools(SHARED)
    assert share.groups.group_offsets("billing", "orders") == {0: 9}
    assert [asked[0] for asked in share.asked] == ["ShareGroupCommand"]
    consumers = Tools(NO_SHARE_GROUP, CONSUMERS)
    assert consumers.groups.group_offsets("billing", "orders") == {0: 20}
    assert [asked[0] for asked in consumers.asked] == ["ShareGroupCommand", "ConsumerGroupCommand"]
    old = Tools(CONSUMERS, kafka="4.1.2")
    assert old.groups.group_offsets("billing", "orders") == {0: 20}
    assert [asked[0] for asked in old.asked] == ["ConsumerGroupCommand"]


@pytest.mark.parametrize(
    ("to", "options"),
    [
        (7, ("--reset-offsets", "--execute", "--to-offset", "7")),
        (0, ("--reset-offsets", "--execute", "--to-offset", "0")),
        ("latest", ("--reset-offsets", "--execute", "--to-latest")),
        (None, ("--delete-offsets",)),
    ],
)
def test_what_an_administrator_asks_for(to: int | str | None, options: tuple[str, ...]) -> None:
    tools = Tools(SHARED, DELETED if to is None else RESET)
    asked = tools.groups.set_offsets("billing", "orders", to, within_s=0)
    assert asked == ({} if to is None else {0: 50, 1: 50})
    assert tools.asked[-1] == ("ShareGroupCommand", *options, *GROUP)


def test_a_group_with_members_is_asked_again_until_it_has_none() -> None:
    tools = Tools(SHARED, ACTIVE, ACTIVE, RESET)
    assert tools.groups.set_offsets("billing", "orders", "latest", within_s=60) == {0: 50, 1: 50}
    reason = "Kafka refuses to change the offsets of billing: Assignments can only be reset if"
    with pytest.raises(FaultError, match=reason):
        Tools(SHARED, ACTIVE).groups.set_offsets("billing", "orders", "latest", within_s=0)
