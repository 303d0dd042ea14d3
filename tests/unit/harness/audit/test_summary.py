"""The summary and the screen of an audit, from answers built by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof.audit.answer import Answer, Audit, Effect, Proof
from ackproof.audit.assumption import Versions
from ackproof.audit.failure import Failure, milder
from ackproof.audit.outputs.cells import ShownRow
from ackproof.audit.outputs.summary import Summary, summaries
from ackproof.audit.outputs.terminal import print_audit
from ackproof.audit.words import phrase, phrase_of
from ackproof.console import Console
from ackproof.own_config.configuration import Given
from support.audits import CRASH, LAG, POWER, assumed, audit, orders, risk
from support.origins import at
from support.snapshots import plain


def screen(of: Audit, *, width: int = 100, verbose: bool = False) -> str:
    console = Console(width=width, record=True, force_terminal=False, color_system=None)
    with console.capture() as captured:
        print_audit(console, of, verbose=verbose)
    return plain(captured.get())


def only(answer: Answer) -> Summary:
    [summary] = summaries(audit(answer))
    return summary


def cells(answer: Answer, label: str) -> tuple[str, ...]:
    return next(texts(row) for row in only(answer).table.rows if row.label == label)


def lines(answer: Answer) -> str:
    """Return the rows of an answer's table, each in a line."""
    return "\n".join(f"{row.label}: {' | '.join(texts(row))}" for row in only(answer).table.rows)


def texts(row: ShownRow) -> tuple[str, ...]:
    return tuple(cell.text for cell in row.cells)


def test_no_risk_is_answered_no(snapshot) -> None:
    safe = orders(risks=(), alternatives=())
    assert only(safe).verdict == "NO"
    assert screen(audit(safe)) == snapshot


def test_loss_for_some_unstated_values_depends_on_them(snapshot) -> None:
    with_acks = risk(failures=(CRASH,), when={"acks": "1"})
    values = assumed(({"acks": "1"}, (with_acks,), ()), ({"acks": "all"}, (), ((CRASH,),)))
    answer = orders(risks=(with_acks,), unstated=("acks",), assumed=values, alternatives=())
    summary = only(answer)
    assert summary.verdict == "DEPENDS"
    assert summary.table.columns == ("acks=1", "acks=all")
    assert cells(answer, "a broker crashes") == ("CAN LOSE", "safe")
    assert screen(audit(answer)) == snapshot


def test_undecided_is_not_answered_no_and_the_worst_verdict_is_first() -> None:
    certain = risk(failures=(CRASH,), when={"acks": "1"}, likelihood="certain")
    values = assumed(({"acks": "1"}, (certain,), ()), ({"acks": "all"}, (), ((CRASH,),)))
    answers = (
        orders(topic="safe", risks=()),
        orders(topic="open", risks=(), undecided=((LAG, POWER, POWER),)),
        orders(topic="either", risks=(certain,), unstated=("acks",), assumed=values),
        orders(),
    )
    verdicts = [one.verdict for one in summaries(audit(*answers))]
    assert verdicts == ["YES", "DEPENDS", "NOT DECIDED", "NO"]


def test_columns_are_today_and_each_change_and_rows_what_was_searched(snapshot) -> None:
    """A crash of one broker is part of two; the loss of a rack was not searched."""
    assert only(orders()).table.columns == ("today", "+ min.isr=2", "+ Kafka 4.1.0")
    assert cells(orders(), "writes stop after") == ("3 down", "2 down", "2 down")
    assert lines(orders()) == snapshot


def test_certain_loss_has_its_own_word() -> None:
    answer = orders(risks=(risk(failures=(CRASH,), likelihood="certain"),), alternatives=())
    assert cells(answer, "a broker crashes") == ("LOSES",)


def test_accepted_loss_is_said_and_does_not_count(snapshot) -> None:
    answer = orders(risks=(risk(accepted="can be sent again (x.yml:3)"),), alternatives=())
    assert only(answer).verdict == "NO"
    assert screen(audit(answer)) == snapshot


def test_risks_of_one_acceptance_are_one_sentence(snapshot) -> None:
    sets = [(LAG, POWER), (CRASH, POWER), (POWER, POWER)]
    answer = orders(risks=tuple(risk(failures=one, accepted="fine (x:3)") for one in sets))
    [sentence] = only(answer).accepted
    assert sentence == snapshot


def test_way_to_the_loss_and_changes_with_places(snapshot) -> None:
    text = screen(audit())
    assert "--prove B5" in text
    assert text == snapshot


def test_what_a_proof_lost_is_said_with_its_run() -> None:
    proved = risk(here=Proof(acked=16_594, lost=2_560, run="runs/20261129T180314Z-b05-1"))
    text = screen(audit(orders(risks=(proved,))))
    assert (
        "On brokers: lost 2,560 of 16,594 acked records after followers fall behind, then a broker "
        "loses power (B5): runs/20261129T180314Z-b05-1"
    ) in " ".join(text.split())
    assert "See it happen" not in text


@pytest.mark.parametrize("width", [40, 52])
def test_columns_that_are_wider_than_the_screen_stand_below_the_others(width: int) -> None:
    wide, narrow = screen(audit(), width=200), screen(audit(), width=width)
    assert "…" not in narrow
    assert narrow.count("CAN LOSE") == wide.count("CAN LOSE")
    assert narrow.count(" after ") > wide.count(" after ")


@pytest.mark.parametrize("width", [80, 120])
def test_screen_fits_and_has_no_colours_without_a_terminal(width: int) -> None:
    text = screen(audit(), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert len(text.splitlines()) < 45


def test_refused_configuration_is_no_loss(snapshot) -> None:
    refused = risk(Effect.REFUSED, (), likelihood="certain", text="no producer starts with it")
    answer = orders(risks=(refused,), alternatives=())
    assert only(answer).verdict == "NO"
    assert only(answer).verdict_text == snapshot


def test_a_refused_configuration_has_its_own_change_only() -> None:
    answer = orders(risks=(risk(Effect.REFUSED, (), decided_by=()),))
    assert orders().alternatives
    assert only(answer).changes == ()


def test_topics_with_other_settings_are_another_group() -> None:
    other = replace(orders(topic="other"), settings={"acks": Given("1", at("x:1"))})
    assert len(summaries(audit(orders(), orders(topic="alike"), other))) == 2


def test_verbose_prints_every_group() -> None:
    both = audit(orders(), orders(topic="clicks", risks=()))
    assert "records of clicks?" not in screen(both)
    assert "records of clicks?" in screen(both, verbose=True)


def test_each_failure_has_words(snapshot) -> None:
    each = {(failure,): phrase((failure,)) for failure in Failure}
    assert len(set(each.values())) == len(Failure)
    several = {failures: phrase(failures) for failures in ((), (POWER, LAG, CRASH))}
    named = [f"{'+'.join(failures)}: {words}" for failures, words in (each | several).items()]
    assert "\n".join(named) == snapshot


def test_worse_ends_of_the_same_brokers_are_no_milder():
    clean, power = Failure.CLEAN_RESTART, Failure.POWER_LOSS
    lag, session = Failure.LAG, Failure.LOST_SESSION
    assert milder((clean, power), (power, power))
    assert not milder((power, power), (clean, power))
    assert not milder((clean, power), (power,))
    assert not milder((lag, clean), (session, power))


CLEAN, FENCED, DISK = Failure.CLEAN_RESTART, Failure.LOST_SESSION, Failure.DISK_REPLACED


@pytest.mark.parametrize(
    "alike",
    [
        ((CRASH,), (POWER,)),
        ((LAG, CRASH), (LAG, CLEAN)),
        ((CLEAN, POWER), (FENCED, POWER), (CLEAN, DISK), (FENCED, DISK)),
        ((CRASH, CRASH), (CRASH, CLEAN), (CLEAN, CLEAN)),
        ((CRASH, CRASH), (CLEAN, CLEAN)),
    ],
    ids=lambda alike: " or ".join(map("+".join, alike)),
)
def test_sets_in_which_brokers_end_in_other_ways_share_a_phrase(alike, snapshot) -> None:
    assert phrase_of(alike) == snapshot


def test_variants_share_a_row_and_another_effect_on_a_column_does_not(snapshot) -> None:
    losing = [risk(failures=(LAG, one), case="") for one in (CRASH, CLEAN, POWER)]
    answer = orders(risks=losing, survives=(), alternatives=())
    assert lines(answer).count("CAN LOSE") == 2
    assert lines(answer) == snapshot


def test_conditions_of_cells_are_footnotes(snapshot) -> None:
    old, new = Versions((("2.1", "3.9"),)), Versions((("4.0", ""),))
    with_old = risk(failures=(CRASH,), when={"kafka.version": old})
    values = assumed(
        ({"kafka.version": old}, (with_old,), ()), ({"kafka.version": new}, (), ((CRASH,),))
    )
    answer = orders(risks=(with_old,), assumed=values, alternatives=())
    assert cells(answer, "a broker crashes") == ("CAN LOSE (a)",)
    assert screen(audit(answer)) == snapshot


def test_the_way_to_a_loss_is_that_of_the_newest_version_and_no_rare_defect() -> None:
    rare = risk(failures=(CRASH,), case="B13", when={}, rare=True)
    old = risk(
        failures=(CRASH,), case="B10", when={"kafka.version": Versions((("0.10.2", "0.10.2"),))}
    )
    new = risk(failures=(LAG, POWER), case="B6", when={"kafka.version": Versions((("2.1", ""),))})
    assert only(orders(risks=(old, new))).how_case == "B6"
    assert only(orders(risks=(risk(), rare))).how_case == "B5"


def test_row_of_losses_has_its_cause_and_says_that_it_is_rare() -> None:
    unclean = risk(failures=(LAG, CRASH), case="B4", cause="unclean election", likelihood="certain")
    rare = risk(failures=(LAG, Failure.LEADER_MOVE), case="B12", rare=True)
    labels = [row.label for row in only(orders(risks=(unclean, rare, risk()))).table.rows]
    assert "followers fall behind, then a broker crashes (unclean election)" in labels
    assert "followers fall behind, then the leader is moved (rare)" in labels
    assert "followers fall behind, then a broker loses power" in labels
    assert only(orders(risks=(rare,))).verdict_text.startswith(
        "after followers fall behind, then the leader is moved (rare)"
    )


def test_cell_has_the_values_that_its_risk_assumes_beyond_those_of_the_setups() -> None:
    """`a send times out: CAN LOSE` held only with Java clients before 4.0."""
    before = risk(failures=(Failure.CLIENT_TIMEOUT,), when={"producer.version": "before 4.0"})
    always = risk(failures=(CRASH,), when={})
    summary = only(orders(risks=(before, always), alternatives=()))
    assert [row.cells[0].text for row in summary.table.rows if "CAN" in row.cells[0].text] == [
        "CAN LOSE",
        "CAN LOSE (a)",
    ]
    assert summary.table.footnotes == ("(a) with producer.version before 4.0",)


def test_warnings_come_after_the_answer_and_many_are_cut_short(snapshot) -> None:
    warned = replace(audit(), warnings=tuple(f"warning {number}" for number in range(20)))
    assert screen(warned).removeprefix(screen(audit())) == snapshot
    assert "warning 19" not in screen(warned)
    assert "warning 19" in screen(warned, verbose=True)
