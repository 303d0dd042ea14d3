"""Defects of Kafka that docs/reports-to-kafka describe, asked of Kafka's own classes.

A failure says that a version behaves otherwise: the defect is mended, and its report needs a line.
`ci/lab/defects` asks any version.
"""

from __future__ import annotations

import pytest

from ackproof_model.kafka.partition_change import UNASSIGNED, Election, Registration, Target
from ackproof_model.transactions.markers import Leader
from conformance import marker_cases, partition_cases, replica_cases
from conformance.kafka_classes import Oracle

pytestmark = pytest.mark.cluster

EVERY, WITHOUT_2 = 0b111, 0b011


#: Steps after which broker 0 leads, with the records that it calls committed.
COMMITTED = {
    # Broker 2 leads in between, and 1 truncates to its empty log.
    (f"elect:2:{EVERY}", f"elect:0:{WITHOUT_2}", "learn"): 2,
    (f"elect:2:{EVERY}", f"elect:0:{EVERY}", "learn", "fetch:2:9:0"): 2,
    # Broker 0 learns of each election.
    (f"elect:2:{EVERY}", "learn", f"elect:0:{WITHOUT_2}", "learn"): 0,
    (f"elect:2:{EVERY}", "learn", f"elect:0:{EVERY}", "learn", "fetch:2:9:0"): 0,
}


def high_watermark(answer: str) -> int:
    role, _, shown, *_ = answer.rpartition(",")[2].partition("/")[2].split(":")
    assert role == "leads"
    return int(shown)


def test_a_leader_that_missed_an_epoch_commits_what_no_follower_has_fetched_in_its_term(
    oracle: Oracle, version: str
) -> None:
    """Before the steps broker 0 leads with two records, which only broker 1 has fetched."""
    before = ("learn", "append:-1", "append:-1", "fetch:1:9:0", "fetch:2:0:0")
    cases = [replica_cases.Case(min_isr=2, steps=(*before, *steps)) for steps in COMMITTED]
    # One JVM answers all.
    answers = oracle.ask("replica", map(replica_cases.line, cases))
    seen = dict(zip(COMMITTED, map(high_watermark, answers), strict=True))
    assert seen == COMMITTED, f"missed-leader-epoch.md: what Kafka {version} commits"


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


def test_the_marker_of_a_partition_without_a_leader_is_skipped(
    oracle: Oracle, version: str
) -> None:
    leaders = (Leader.BROKER, Leader.UNREACHABLE, Leader.NONE, Leader.DELETED)
    (answer,) = oracle.ask("markers", [marker_cases.line(leaders)])
    said = f"skipped-transaction-markers.md: what Kafka {version} does with markers"
    assert answer == "sent,waits,skipped,skipped", said
