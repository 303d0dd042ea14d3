"""Every rule of a case: circumstances that fit, and similar ones that do not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ackproof_spark.forensics.cases import (
    RULES,
    TITLES,
    Case,
    Circumstances,
    Fault,
    FaultKind,
    Settings,
    classify,
)
from ackproof_spark.forensics.sentences import (
    Cut,
    cause,
    counted,
    decisive,
)
from ackproof_spark.forensics.terms import Election, Term

START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = (1, 2, 3)


def term(epoch, leader, start, election=Election.CLEAN, isr_before=ALL):
    at = START + timedelta(seconds=10 * epoch)
    return Term(
        epoch=epoch,
        leader=leader,
        elected_at=at,
        election=election,
        isr_before=isr_before,
        changes=((at, ALL),),
        start=start,
    )


def settings(acks, version="4.3.1"):
    return Settings(acks=acks, kafka_version=version)


KINDS = {
    "kill": FaultKind(past_tense="was killed"),
    "pause": FaultKind(past_tense="was paused"),
    "power_loss": FaultKind(past_tense="lost power", takes_bytes=True),
    "pause_client": FaultKind(hit_by=lambda stored: json.loads(stored)["client"]),
    "upgrade_feature": FaultKind(hit_by=lambda _: ""),
}


def fault(name, *nodes, window=0, **parameters):
    row = {
        "window": window,
        "fault": name,
        "nodes": list(nodes),
        "parameters": json.dumps(parameters),
        "injected_at": START + timedelta(seconds=5 + window),
        "until": START + timedelta(seconds=60),
    }
    return Fault.of_window(row, KINDS.get(name, FaultKind()))


#: acks=1; broker 1 acked 100-199 and died; broker 2 began its log at 100.
B2 = Circumstances(
    settings=settings("1"),
    acked=term(0, 1, 0, Election.FIRST),
    isr=ALL,
    next=term(1, 2, 100),
    offsets=(100, 199),
    faults=(fault("isolate_replication", 1), fault("kill", 1, window=1)),
)
B1 = replace(B2, settings=settings("0"), offsets=None)
B3 = replace(B2, zombie=True)
B4 = replace(B2, settings=settings("all"), next=term(1, 2, 100, Election.UNCLEAN, (1,)))
SAME = replace(B2, settings=settings("all"), next=term(2, 1, 100, Election.CLEAN, (1,)))
B5 = replace(SAME, isr=(1,))
B6 = replace(SAME, isr=(1, 3))
B7 = replace(SAME, isr=(1, 3), next=term(3, 1, 100, Election.LAST_KNOWN, ()))
#: The ISR stays {1, 2} while both are down; broker 1, which lost power, leads again with less.
B8 = replace(
    B2,
    settings=settings("all", "2.6.2"),
    isr=(1, 2),
    next=term(2, 1, 100, Election.CLEAN, (1, 2)),
    faults=(fault("kill", 2), fault("power_loss", 1, window=1)),
)
B9 = replace(B2, settings=settings("all"), faults=(fault("power_loss", 1, 2, 3),))
B13 = replace(B2, settings=settings("all"), held_by=ALL, standing=False, aborted=True)
#: Broker 2 had the records up to 199, and not the marker behind them.
HUNG = replace(
    B4,
    hung=True,
    held_by=ALL,
    standing=False,
    aborted=True,
    next=term(1, 2, 200, Election.UNCLEAN, (1,)),
)
B31 = replace(B2, settings=settings("all", "3.4.1"), isr=(1, 3))
#: Batches have no epoch before 0.11, so where the next leader's log began is unknown.
B10 = replace(B2, settings=settings("all", "0.10.2.2"), next=term(1, 2, None))

B12 = replace(B2, settings=settings("all", "3.9.0"), truncated=True)

#: Nobody was elected, and the ack had no offset.
B55 = replace(
    B2,
    settings=replace(settings("all"), acks_refused=True),
    next=None,
    offsets=None,
    faults=(fault("link", 1),),
)

#: Broker 1 led in epochs 0 and 2, and broker 2 truncated in epoch 1, before 1 acked.
B56 = replace(
    B2,
    settings=settings("all"),
    acked=term(2, 1, 200),
    next=term(3, 2, 100),
    truncated_before=True,
)
B57 = replace(
    B2,
    settings=settings("all"),
    next=replace(term(2, 3, 0, Election.ELIGIBLE), removed_while_eligible=True),
)

#: Broker 1 is the only replica, and leads again with all that it had.
B58 = replace(
    HUNG,
    isr=(1,),
    skipped=True,
    next=term(2, 1, 200, Election.CLEAN, (1,)),
    faults=(fault("kill", 1),),
)

RECREATED = replace(B2, recreated=True)

FITTING = {case: globals()[case.name] for case in Case if case is not Case.UNEXPLAINED}


def test_every_rule_is_tried():
    assert set(FITTING) == {rule.case for rule in RULES}
    assert set(TITLES) == set(Case)


def phrase_of(circumstances, cut=None):
    return cause(circumstances, classify(circumstances)[1], cut)


@pytest.mark.parametrize("case", FITTING)
def test_each_case_is_recognized(case):
    assert classify(FITTING[case])[0] is case


#: Losses whose records stay in the segments, or whose topic is another one.
STANDING = (Case.B13, Case.B58, Case.RECREATED)


@pytest.mark.parametrize("case", [case for case in FITTING if case not in STANDING])
def test_a_loss_whose_records_are_still_in_the_segments_fits_no_case(case):
    unread = replace(FITTING[case], held_by=(1, 2), standing=False)
    assert classify(unread) == (
        Case.UNEXPLAINED,
        "unexplained: their offsets still stand in the replicas' segments, but were not read",
    )


#: These rules do not use the begin of the next leader's log.
UNDATED = (Case.B1, Case.B10, Case.B13, Case.B55, Case.B58, Case.RECREATED)


@pytest.mark.parametrize("case", [case for case in FITTING if case not in UNDATED])
def test_without_a_later_log_that_begins_before_them_nothing_is_explained(case):
    known = FITTING[case]
    for following in (
        None,
        replace(known.next, start=101),
        replace(known.next, start=None),
    ):
        assert classify(replace(known, next=following))[0] is Case.UNEXPLAINED


#: Near misses that are other cases, and those that no rule explains.
OTHERS = {
    "a longer log, of an older epoch": (
        replace(B4, next=replace(B4.next, start=500), older=True),
        Case.B4,
    ),
    "a transaction that hung, and an unclean election": (HUNG, Case.B4),
    "a transaction that hung, and its leader lost bytes": (
        replace(B5, hung=True, held_by=ALL, standing=False, faults=(fault("power_loss", 1),)),
        Case.B5,
    ),
    "a zombie that is alone can": (replace(B3, settings=settings("all"), isr=(1,)), Case.B3),
    "an eligible replica is no unclean election": (
        replace(B2, next=term(1, 2, 100, Election.ELIGIBLE, ())),
        Case.B2,
    ),
    "not alone when it acked": (replace(B5, isr=(1, 2)), Case.B6),
    "both lost power": (replace(B8, faults=(fault("power_loss", 1, 2),)), Case.B9),
    "the one that kept its bytes was up all the time": (replace(B8, faults=B8.faults[1:]), Case.B9),
    "the one that kept its bytes joined the ISR after the ack": (replace(B8, isr=(1, 3)), Case.B9),
    "a third one had left the ISR since the ack": (replace(B8, isr=ALL), Case.B8),
    "the ISR had shrunk to the one that lost power": (
        replace(B8, next=term(2, 1, 100, Election.CLEAN, (1,))),
        Case.B6,
    ),
    "acks=1 before 0.11": (replace(B10, settings=settings("1", "0.10.2.2")), Case.B2),
    "the next leader joined the ISR after the ack": (replace(B10, isr=(1, 3)), Case.B10),
    "the next leader was not elected from the ISR": (
        replace(B10, next=term(1, 2, None, Election.UNCLEAN, (1,))),
        Case.B4,
    ),
    "4.0.0 has KAFKA-18991": (replace(B12, settings=settings("all", "4.0.0")), Case.B12),
    "acks=1 does not promise it": (replace(B12, settings=settings("1", "3.9.0")), Case.B2),
    "a fault took its bytes, too": (replace(B12, faults=(fault("power_loss", 2),)), Case.B9),
}
UNEXPLAINED = {
    "a longer log": replace(B4, next=replace(B4.next, start=500)),
    "a transaction that hung, and a clean election": replace(HUNG, next=term(1, 2, 200)),
    "a transaction that hung, and no election": replace(HUNG, next=None),
    "a transaction that hung, and its leader lost no byte": replace(
        B5, hung=True, held_by=ALL, standing=False
    ),
    "a transaction that hung, and no marker was skipped": replace(B58, skipped=False),
    "no marker follows": replace(B13, aborted=False),
    "a marker follows, but other records were read there": replace(B13, standing=True, next=None),
    "acks=0 far from any fault or election": replace(B1, timely=False),
    "acks=all, and a clean election of one that had them": replace(B2, settings=settings("all")),
    "a zombie cannot get acks=all from others": replace(B3, settings=settings("all")),
    "not the last one standing": replace(B6, next=term(2, 1, 100, Election.CLEAN, (1, 2))),
    "last known, but another broker": replace(B7, next=term(3, 2, 100, Election.LAST_KNOWN, ())),
    "acks=1, but the same broker leads again": replace(B2, next=term(2, 1, 100), isr=ALL),
    "no fault that takes bytes": replace(B9, faults=(fault("kill", 1, 2, 3),)),
    "the next leader lost none": replace(B9, faults=(fault("power_loss", 1),)),
    "none lost bytes": replace(B8, faults=(fault("kill", 1, 2),)),
    "the one that kept its bytes led": replace(B8, next=term(2, 2, 100, Election.CLEAN, (1, 2))),
    "KIP-903 is in 3.5": replace(B31, settings=settings("all", "3.5.0")),
    "acked at an offset, so it was written": replace(B55, offsets=(0, 0)),
    "one request in flight, or the Java client": replace(B55, settings=settings("all")),
    "truncated at another time than the epoch that its leader missed": replace(
        B56, truncated_before=False
    ),
    "the next leader has them": replace(B56, next=term(3, 2, 200)),
    "an eligible replica that was assigned all the time": replace(
        B57, next=term(2, 3, 0, Election.ELIGIBLE)
    ),
    "a removed replica with all of them": replace(B57, next=replace(B57.next, start=200)),
    "KIP-101 is in 0.11": replace(B10, settings=settings("all", "0.11.0.3")),
    "acks=1 before 0.11, and its leader leads again": replace(
        B10, settings=settings("1", "0.10.2.2"), next=term(1, 1, None)
    ),
    "acks=1 before 0.11, and a fault that takes bytes": replace(
        B10, settings=settings("1", "0.10.2.2"), faults=(fault("power_loss", 3),)
    ),
    "a fault that takes bytes": replace(B10, faults=(fault("power_loss", 3),)),
    "an unclean election before 0.11, and a fault that takes bytes": replace(
        B10, next=term(1, 2, None, Election.UNCLEAN, (1,)), faults=(fault("power_loss", 3),)
    ),
    "KAFKA-18991 is fixed in 3.9.1": replace(B12, settings=settings("all", "3.9.1")),
    "4.0.1 has not": replace(B12, settings=settings("all", "4.0.1")),
    "before 2.8 a follower asks for an epoch's end first": replace(
        B12, settings=settings("all", "2.7.2")
    ),
    "the next leader truncated nothing of it": replace(B12, truncated=False),
    "one that truncates, and was not in the ISR": replace(
        B12, isr=(1, 3), settings=settings("all", "3.9.0")
    ),
    "nobody knows who acked": replace(B2, acked=None, next=None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_near_misses_are_other_cases(name):
    circumstances, case = OTHERS[name]
    assert classify(circumstances)[0] is case


@pytest.mark.parametrize(
    ("standing", "says"), [(True, "other records are at their"), (False, "nothing is at their")]
)
def test_a_loss_whose_leader_is_unknown_names_what_is_at_its_offsets(
    standing: bool, says: str
) -> None:
    assert says in classify(replace(B2, acked=None, next=None, standing=standing))[1]


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_near_misses_are_unexplained(name):
    assert classify(UNEXPLAINED[name])[0] is Case.UNEXPLAINED


def test_the_fault_that_stopped_the_leader_is_the_decisive_one():
    assert decisive(B2).fault == "kill"
    assert decisive(replace(B2, faults=B2.faults[:1])).fault == "isolate_replication"
    others = (fault("pause", 2), fault("kill", 3, window=1))
    assert decisive(replace(B2, faults=others)).window == 1
    assert decisive(replace(B2, faults=())) is None


@pytest.mark.parametrize("name", ["pause_client", "upgrade_feature"])
def test_a_fault_that_hits_no_node_is_not_the_decisive_one(name):
    later = fault(name, *ALL, window=1, client="producer 0")
    assert decisive(replace(B2, faults=(B2.faults[0], later))).fault == "isolate_replication"


def test_a_cause_is_a_sentence():
    at = START + timedelta(seconds=12)
    phrase = phrase_of(B2, Cut(broker=1, to=100, at=at))
    assert phrase == (
        "acks=1: leader 1 was killed (kill, fault 2) before the next leader fetched them; "
        "meanwhile isolate_replication of broker 1 (fault 1); broker 2 was elected from the ISR "
        "in epoch 1 at 00:00:10.000, its log ending at 100; broker 1 truncated to 100 at "
        "00:00:12.000"
    )
    warned = phrase_of(B2, Cut(broker=1, to=100, at=at, below=120))
    assert warned == f"{phrase}, below its high watermark 120"
    assert counted(1481, "orders", 0, (100, 1580), "x") == (
        "1,481 records of orders-0 (offsets 100-1580): x"
    )
    assert counted(1, "orders", 0, (7, 7), "x") == "1 record of orders-0 (offset 7): x"
    assert counted(2, "orders", 0, None, "x") == "2 records of orders-0: x"


def test_an_unexplained_loss_gives_its_reason():
    lost = replace(B2, next=None, faults=())
    assert phrase_of(lost).startswith("unexplained: no later leader's log begins")


def test_a_transaction_that_hung_is_reported_with_the_abort_of_the_harness():
    aborted = (
        "; the log kept them without the COMMIT marker of their transaction, which hung until "
        "ackproof aborted it;"
    )
    assert aborted in phrase_of(HUNG)
    unexplained = phrase_of(replace(HUNG, next=None))
    assert unexplained.startswith("unexplained: their transaction was committed and hung")
    assert aborted in unexplained


def test_the_sentence_of_a_loss_outside_every_fault_names_no_fault():
    lost = replace(B1, timely=False, faults=(fault("isolate_replication", 1),))
    phrase = phrase_of(lost)
    assert phrase.startswith("unexplained: no fault was in force")
    assert "; acked before or after isolate_replication of broker 1 (fault 1); " in phrase
    assert "meanwhile" not in phrase


@pytest.mark.parametrize("case", FITTING)
def test_every_fault_in_force_is_named_once(case):
    known = FITTING[case]
    for circumstances in (known, replace(known, faults=known.faults[:1])):
        phrase = phrase_of(circumstances)
        for fault in circumstances.faults:
            assert phrase.count(f"fault {fault.window + 1})") == 1
            assert fault.fault in phrase


def test_a_fault_that_the_headline_omits_is_in_the_list():
    both = "isolate_replication of broker 1 (fault 1) and kill of broker 1 (fault 2)"
    assert f"; meanwhile {both}; " in phrase_of(B3)


@pytest.mark.parametrize(
    ("case", "follows"),
    [
        (Case.B2, " before the next leader fetched them"),
        (Case.B4, ", and a replica that was not in sync was elected"),
        (Case.B6, " and led again with a shorter log"),
        (Case.B31, ", and a replica that had joined it since, without them, was elected"),
    ],
)
def test_a_fault_without_a_past_tense_is_named(case, follows):
    phrase = phrase_of(replace(FITTING[case], faults=B2.faults[:1]))
    cut = "isolate_replication of broker 1 (fault 1)"
    assert f"leader 1 lost leadership during {cut}{follows};" in phrase
    assert "meanwhile" not in phrase


def test_a_sentence_has_the_isr_at_the_ack():
    assert phrase_of(B6).startswith("acks=all: the ISR had shrunk from {1, 3} to the leader alone;")


@pytest.mark.parametrize(
    ("hit", "words"),
    [
        (fault("link", 1, 2, client="broker-3-fetcher"), "link of brokers 1 and 2 (fault 1)"),
        (fault("pause_client", *ALL, client="producer 0"), "pause_client of producer 0 (fault 1)"),
        (fault("upgrade_feature", *ALL, feature="x"), "upgrade_feature (fault 1)"),
        (fault("isolate"), "isolate (fault 1)"),
    ],
)
def test_a_sentence_names_the_target_of_a_fault(hit, words):
    kill = fault("kill", 1, window=1)
    phrase = phrase_of(replace(B2, faults=(hit, kill)))
    assert f"; meanwhile {words}; " in phrase


@pytest.mark.parametrize(
    ("election", "how"),
    [
        (Election.ELIGIBLE, "as an eligible leader replica"),
        (Election.LAST_KNOWN, "as the last known leader"),
        (Election.UNCLEAN, "uncleanly"),
    ],
)
def test_a_cause_says_how_the_next_leader_was_elected(election, how):
    phrase = phrase_of(replace(B2, next=term(1, 2, 100, election)))
    assert f"; broker 2 was elected {how} in epoch 1 at " in phrase


@pytest.mark.parametrize("case", FITTING)
def test_the_page_of_cases_has_the_title(case):
    page = Path(__file__).parents[4] / "docs" / "explanation" / "forensics.md"
    assert f"| {case} | {TITLES[case]} | " in page.read_text()
