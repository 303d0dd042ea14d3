from __future__ import annotations

import pytest

from ackproof.judgement.expectations import (
    ANOMALY_OF,
    check_expectations,
    check_steps,
    conclude,
    unknown_steps,
)
from ackproof.runs.verdict import (
    CauseReport,
    FaultReport,
    Metrics,
    PartitionState,
    ProbeMetrics,
    Share,
    Step,
    Word,
)
from ackproof.scenario.model import Expect, ExpectedStep
from ackproof_spark.anomaly import Anomaly
from spark_histories import defaults
from support.run_directories import at

CLEAN = {
    "sent": 100,
    "acked": 100,
    "failed": 0,
    "unknown": 0,
    "lost": 0,
    "duplicated": 0,
    "reordered": 0,
    "phantom": 0,
    "corrupt": 0,
    "unseen": 0,
}
METRICS = Metrics(
    duration_s=100,
    acked_per_s=1,
    unavailability_s=2,
    unavailability_gap_s=0.5,
    ack_latency_ms=None,
)


def judged(expect: Expect, reasons: list[str] | None = None, **observed: int) -> Word:
    return conclude(check_expectations(expect, {**CLEAN, **observed}, METRICS), reasons or [])[0]


@pytest.mark.parametrize(
    ("expect", "observed", "reasons", "word"),
    [
        ({"loss": "none"}, {}, [], Word.HOLDS),
        ({"loss": "none"}, {"lost": 1}, [], Word.VIOLATED),
        ({"loss": "none"}, {"lost": 1}, ["interrupted"], Word.VIOLATED),
        ({"loss": "none"}, {}, ["interrupted"], Word.INCONCLUSIVE),
        ({"loss": "some"}, {}, [], Word.VIOLATED),
        ({"loss": "some"}, {"lost": 1}, [], Word.HOLDS),
        ({"loss": "some"}, {}, ["interrupted"], Word.INCONCLUSIVE),
        ({"loss": "some"}, {"lost": 1}, ["interrupted"], Word.INCONCLUSIVE),
        ({"duplicates": "any"}, {"duplicated": 7}, [], Word.HOLDS),
        ({"duplicates": "none"}, {"duplicated": 1}, [], Word.VIOLATED),
        ({"reordered": "none"}, {"reordered": 1}, [], Word.VIOLATED),
        ({}, {"phantom": 1}, [], Word.VIOLATED),
        ({}, {"corrupt": 1}, [], Word.VIOLATED),
        ({}, {"read-then-gone": 1}, [], Word.VIOLATED),
        ({"read_then_gone": "some"}, {"read-then-gone": 1}, [], Word.HOLDS),
        ({"read_then_gone": "some"}, {"read-then-gone": 0}, [], Word.VIOLATED),
        ({}, {"misplaced-read": 1}, [], Word.HOLDS),
        ({"misplaced_read": "none"}, {"misplaced-read": 1}, [], Word.VIOLATED),
        ({"unprocessed": "none"}, {"unprocessed": 9}, [], Word.VIOLATED),
        ({"unprocessed": "none"}, {"unprocessed": 9}, ["consumer 0 died"], Word.INCONCLUSIVE),
    ],
)
def test_counts_are_compared_with_the_expectation(
    expect: dict[str, str], observed: dict[str, int], reasons: list[str], word: Word
) -> None:
    assert judged(Expect.model_validate(expect), reasons, **observed) is word


@pytest.mark.parametrize(
    "key", ["diverged", "removed", "stopped", "follower_fetch", "failed", "unknown"]
)
def test_other_counts_are_compared_with_the_expectation(key: str) -> None:
    count = key.replace("_", "-")
    for value, of_none, of_some in (
        ("some", Word.VIOLATED, Word.HOLDS),
        ("none", Word.HOLDS, Word.VIOLATED),
        ("any", Word.HOLDS, Word.HOLDS),
    ):
        expect = Expect(**{key: value})
        assert (judged(expect, **{count: 0}), judged(expect, **{count: 1})) == (of_none, of_some)


def test_counts_that_were_not_observed_have_no_line() -> None:
    lines = {line.what for line in check_expectations(Expect(), CLEAN, METRICS)}
    assert not {"removed", "stopped", "follower_fetch", "read_then_gone", "diverged"} & lines


UNVERIFIED = ["link of broker 4: not verified"]


@pytest.mark.parametrize(
    ("expect", "observed", "doubts", "word"),
    [
        ({"loss": "some"}, {"lost": 7}, [], Word.HOLDS),
        ({"loss": "any"}, {"lost": 7}, [], Word.HOLDS),
        ({"loss": "none"}, {"lost": 7}, [], Word.VIOLATED),
        ({"loss": "some", "cause": "B6"}, {"lost": 7}, [], Word.VIOLATED),
        ({"loss": "some", "duplicates": "some"}, {"lost": 7}, [], Word.VIOLATED),
        # Nothing is known if nothing was lost, or if the ledger or the final log is doubted.
        ({"loss": "some"}, {}, [], Word.INCONCLUSIVE),
        ({"loss": "none"}, {}, [], Word.INCONCLUSIVE),
        ({"loss": "some"}, {"lost": 7}, ["orders-0 was not read to its end"], Word.INCONCLUSIVE),
        # Consumers may have been interrupted.
        ({"loss": "some", "unprocessed": "none"}, {"lost": 7, "unprocessed": 9}, [], Word.HOLDS),
    ],
)
def test_a_certain_loss_decides_although_faults_or_producers_did_not_do_as_planned(
    expect: dict[str, str], observed: dict[str, int], doubts: list[str], word: Word
) -> None:
    lines = check_expectations(Expect.model_validate(expect), {**CLEAN, **observed}, METRICS)
    found, reason = conclude(lines, doubts, unless_lost=UNVERIFIED)
    assert found is word
    assert (UNVERIFIED[0] in reason) == (expect["loss"] != "none" or word is Word.INCONCLUSIVE)


def test_a_loss_about_which_readers_disagree_is_not_certain() -> None:
    observed = check_expectations(Expect(loss="some"), {**CLEAN, "lost": 7}, METRICS)
    undisputed = check_expectations(Expect(loss="some"), CLEAN, METRICS)
    found, _ = conclude(observed, [], unless_lost=UNVERIFIED, undisputed=undisputed)
    assert found is Word.INCONCLUSIVE


def test_a_repeated_reason_is_reported_once() -> None:
    expectations = check_expectations(Expect(loss="none"), CLEAN, METRICS)
    _, reason = conclude(expectations, ["cut off", "interrupted", "cut off"])
    assert reason == "cut off (2 times); interrupted"


def test_availability_is_a_share_of_the_duration() -> None:
    assert judged(Expect(availability=">= 98%")) is Word.HOLDS
    assert judged(Expect(availability="> 98%")) is Word.VIOLATED
    assert judged(Expect(availability=">= 98.1%")) is Word.VIOLATED


def share(value: float) -> Share:
    return Share(share=value, outages=1, longest_s=1.0)


@pytest.mark.parametrize(
    ("expect", "word"),
    [
        (Expect(read_availability=">= 99%", write_availability=">= 50%"), Word.HOLDS),
        (Expect(read_availability="> 99%"), Word.VIOLATED),
        (Expect(write_availability=">= 99%"), Word.VIOLATED),
    ],
)
def test_reading_and_writing_are_compared_with_the_probe(expect: Expect, word: Word) -> None:
    probe = ProbeMetrics(read=share(0.99), write=share(0.5), partitions=[], writes={})
    measured = METRICS.model_copy(update={"probe": probe})
    assert conclude(check_expectations(expect, CLEAN, measured), [])[0] is word


def test_writes_of_the_probe_that_failed_are_not_the_workloads() -> None:
    probe = ProbeMetrics(read=share(1), write=share(1), partitions=[], writes={"failed": 3})
    measured = METRICS.model_copy(update={"probe": probe})
    for failed, word in ((3, Word.HOLDS), (4, Word.VIOLATED)):
        counts = {**CLEAN, "failed": failed}
        lines = check_expectations(Expect(failed="none"), counts, measured)
        assert conclude(lines, [])[0] is word


def cause(case: str, count: int) -> CauseReport:
    return CauseReport(
        case=case,
        title=case,
        count=count,
        topic="orders",
        partition=0,
        first_offset=None,
        last_offset=None,
        first_acked_at=None,
        last_acked_at=None,
        window=None,
        sentence="",
    )


@pytest.mark.parametrize(
    ("causes", "word"),
    [
        ([cause("B6", 5), cause("B2", 3)], Word.HOLDS),
        ([cause("B6", 5), cause("B2", 3), cause("B2", 3)], Word.VIOLATED),
        ([cause("unexplained", 9)], Word.VIOLATED),
        ([], Word.VIOLATED),
    ],
)
def test_the_cause_of_most_lost_records_is_compared(causes: list[CauseReport], word: Word) -> None:
    expect = Expect(loss="some", cause="B6")
    lines = check_expectations(expect, {**CLEAN, "lost": 11}, METRICS, causes)
    assert conclude(lines, [])[0] is word


def test_counts_are_reported_with_separated_thousands() -> None:
    lines = check_expectations(Expect(loss="none"), {**CLEAN, "lost": 5626}, METRICS)
    assert lines[0].observed == "5626"
    assert lines[0].text == "5,626"
    assert conclude(lines, [])[1] == "5,626 lost, none expected"


# Steps of a schedule.

TIMES = {"injected_at": at(0), "verified_at": at(0), "healed_at": at(8), "recovered_at": None}
ALONE = FaultReport.of_window(
    {
        **defaults("fault_windows"),
        **TIMES,
        "window": 1,
        "fault": "none",
        "parameters": '{"id":"alone"}',
        "verified": True,
    }
)


def step(second: int, in_force: list[int], *answers: tuple[str, str]) -> Step:
    common = {"topic": "orders", "readable_s": 0, "writable_s": 0}
    states = [
        {**common, "partition": number, "readable": readable, "writable": writable}
        for number, (readable, writable) in enumerate(answers)
    ]
    return Step(
        in_force=in_force,
        begun=len(in_force),
        healed=[],
        begin=at(second),
        end=at(second + 4),
        partitions=[PartitionState.model_validate(state) for state in states],
    )


#: Only the last step in which the fault is in force counts.
BEFORE, AFTER = step(0, [0, 1], ("no", "no")), step(8, [0], ("no", "yes"))


@pytest.mark.parametrize(
    ("answers", "observed", "word"),
    [
        ([("yes", "no")], "readable, not writable", Word.HOLDS),
        ([("yes", "yes")], "readable, writable", Word.VIOLATED),
        ([("no", "no")], "not readable, not writable", Word.VIOLATED),
        ([("yes", "no"), ("yes", "no")], "readable, not writable", Word.HOLDS),
        ([("yes", "no"), ("no", "no")], "partly readable, not writable", Word.VIOLATED),
        ([("yes", "unknown")], "readable, perhaps writable", Word.INCONCLUSIVE),
        ([("no", "no"), ("unknown", "no")], "perhaps readable, not writable", Word.INCONCLUSIVE),
        ([], "perhaps readable, perhaps writable", Word.INCONCLUSIVE),
    ],
)
def test_every_partition_answers_at_the_end_of_a_step(answers, observed, word):
    expected = {"alone": ExpectedStep(readable=True, writable=False)}
    lines = check_steps(expected, [ALONE], [BEFORE, step(4, [0, 1], *answers), AFTER])
    assert [(line.what, line.observed) for line in lines] == [("step alone", observed)]
    assert conclude(lines, unknown_steps(lines))[0] is word


def test_an_ability_that_is_not_expected_may_be_unknown():
    expected = {"alone": ExpectedStep(readable=True)}
    lines = check_steps(expected, [ALONE], [step(0, [1], ("yes", "unknown"))])
    assert [line.observed for line in lines] == ["readable"]
    assert conclude(lines, unknown_steps(lines)) == (
        Word.HOLDS,
        "as expected: step alone readable (observed readable)",
    )


def test_an_unknown_step_is_not_compared():
    assert check_steps({"dark": ExpectedStep(readable=True)}, [ALONE], [BEFORE]) == []


def test_every_anomaly_can_be_expected_but_those_that_no_setting_allows() -> None:
    unexpected = {str(anomaly) for anomaly in Anomaly} - set(ANOMALY_OF.values())
    assert unexpected == {"inconsistent", "gap", "unseen", "poll-skip", "nonmonotonic-poll"}
