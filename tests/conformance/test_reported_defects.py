"""Defects of Kafka that docs/reports-to-kafka describe, asked of Kafka's own classes.

A failure says that a version behaves otherwise: the defect is mended, and its report needs a line.
`ci/lab/defects` asks any version.
"""

from __future__ import annotations

import pytest

from ackproof_model.kafka.partition_change import UNASSIGNED, Election, Registration, Target
from conformance import partition_cases, replica_cases
from conformance.kafka_classes import Oracle

pytestmark = pytest.mark.cluster

EVERY, WITHOUT_2 = 0b111, 0b011


def high_watermark(oracle: Oracle, *steps: str) -> int:
    """Return that of broker 0, which leads with two records that broker 1 has, after more steps."""
    before = ("learn", "append:-1", "append:-1", "fetch:1:9:0", "fetch:2:0:0")
    case = replica_cases.Case(min_isr=2, steps=(*before, *steps))
    (answer,) = oracle.ask("replica", [replica_cases.line(case)])
    role, _, shown, *_ = answer.split(",")[-1].partition("/")[2].split(":")
    assert role == "leads"
    return int(shown)


@pytest.mark.parametrize(
    ("steps", "committed"),
    [
        # Broker 2 leads in between, and 1 truncates to its empty log.
        ((f"elect:2:{EVERY}", f"elect:0:{WITHOUT_2}", "learn"), 2),
        ((f"elect:2:{EVERY}", f"elect:0:{EVERY}", "learn", "fetch:2:9:0"), 2),
        # Broker 0 learns of each election.
        ((f"elect:2:{EVERY}", "learn", f"elect:0:{WITHOUT_2}", "learn"), 0),
        ((f"elect:2:{EVERY}", "learn", f"elect:0:{EVERY}", "learn", "fetch:2:9:0"), 0),
    ],
)
def test_a_leader_that_missed_an_epoch_commits_what_no_follower_has_fetched_in_its_term(
    oracle: Oracle, version: str, steps: tuple[str, ...], committed: int
) -> None:
    seen = high_watermark(oracle, *steps)
    assert seen == committed, f"missed-leader-epoch.md: Kafka {version} commits {seen} records"


def test_a_replica_that_a_reassignment_removes_enters_the_elr(oracle: Oracle, version: str) -> None:
    """Broker 4 joins the ISR of 3, which the reassignment removes, while 2 and 1 lag."""
    brokers = (1, 2, 3, 4)
    nothing = dict.fromkeys(("replicas", "removing", "adding", "recovering", "directory"))
    case = partition_cases.Case(
        now=Registration(
            replicas=(4, 2, 1, 3),
            directories=(UNASSIGNED,) * 4,
            isr=(3,),
            leader=3,
            leader_epoch=0,
            partition_epoch=3,
            recovering=False,
            elr=(1,),
            last_known_elr=(),
            removing=(3,),
            adding=(4,),
        ),
        target=Target(election=Election.ONLINE, isr=(3, 4), unclean_shutdown=(), **nothing),
        acceptable=brokers,
        min_isr=2,
        eligible=True,
        metadata_version=22,
        defaults=tuple((broker, UNASSIGNED) for broker in brokers),
    )
    (answer,) = oracle.ask("partition", [partition_cases.line(case)])
    change = dict(word.split("=") for word in answer.split())
    assert (change["replicas"], change["isr"]) == ("4,2,1", "4")
    said = f"elr-of-a-removed-replica.md: the ELR of Kafka {version} is {change['elr']}"
    assert set(change["elr"].split(",")) == {"1", "3"}, said
