"""Which settings are safer for acked records, in the order of their prices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof.safer_settings import Protection, candidates, spelled

SAFE = Protection(
    kafka="4.3.1",
    acks="all",
    replicas=3,
    min_insync_replicas=2,
    unclean=False,
    zookeeper=False,
    elr=True,
)
MINIMUM, FLUSH = ("min.insync.replicas", "3"), ("log.flush.interval.messages", "1")
ELR = "eligible.leader.replicas.version"


@pytest.mark.parametrize(
    ("changes", "cheap"),
    [
        ({}, []),
        ({"acks": "1"}, [("acks", "all")]),
        ({"unclean": True}, [("unclean.leader.election.enable", "false")]),
        ({"min_insync_replicas": 1}, [("min.insync.replicas", "2")]),
        ({"racks": 2}, [("broker.rack", "three racks")]),
        ({"kafka": "3.9.2", "elr": False}, [("kafka.version", "4.1 or later")]),
        ({"kafka": "4.0.2", "elr": False}, [(ELR, "1")]),
        ({"kafka": "3.9.2", "zookeeper": True}, [("kafka.version", "4.1 or later")]),
    ],
)
def test_each_weakness_has_its_change(changes, cheap):
    found = [*candidates(replace(SAFE, **changes))]
    assert [one.name for one in found if not one.costly] == cheap
    assert [one.name for one in found if one.costly] == [FLUSH, MINIMUM]


def test_few_replicas_are_the_first_thing_to_change():
    first, *rest = candidates(replace(SAFE, replicas=1, min_insync_replicas=1))
    assert (first.name, first.cost) == (
        ("replication.factor", "3"),
        "three copies of the data, on as many brokers",
    )
    assert [one.name for one in rest] == [FLUSH]


def test_a_change_has_its_price():
    [change] = [one for one in candidates(replace(SAFE, min_insync_replicas=1)) if not one.costly]
    assert change.cost == "while two of three replicas are away, writes with acks=all are refused"
    assert (spelled(0), spelled(12)) == ("no", "12")
