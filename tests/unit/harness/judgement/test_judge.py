from __future__ import annotations

from ackproof.judgement.judge import (
    claimable,
    conclude,
    find,
    weigh,
)
from ackproof.runs.verdict import (
    Latency,
    Metrics,
    Outlook,
    Word,
)
from ackproof.scenario.model import Expect

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


def judged(expect: Expect, doubts: list[str] | None = None, **observed: int) -> Word:
    return conclude(weigh(expect, {**CLEAN, **observed}, METRICS), doubts or [])[0]


def test_nothing_lost_where_nothing_may_be_lost_holds() -> None:
    assert judged(Expect(loss="none")) is Word.HOLDS


def test_a_loss_where_none_may_be_violates() -> None:
    assert judged(Expect(loss="none"), lost=1) is Word.VIOLATED


def test_a_loss_that_was_seen_is_definite_whatever_else_went_wrong() -> None:
    assert judged(Expect(loss="none"), ["interrupted"], lost=1) is Word.VIOLATED


def test_a_loss_that_was_not_seen_proves_nothing_if_something_went_wrong() -> None:
    assert judged(Expect(loss="none"), ["interrupted"]) is Word.INCONCLUSIVE
    assert judged(Expect(loss="some"), ["interrupted"]) is Word.INCONCLUSIVE


def test_a_loss_that_should_be_and_is_not_violates() -> None:
    assert judged(Expect(loss="some")) is Word.VIOLATED
    assert judged(Expect(loss="some"), lost=1) is Word.HOLDS


def test_a_loss_that_should_be_does_not_hold_if_something_went_wrong() -> None:
    assert judged(Expect(loss="some"), ["interrupted"], lost=1) is Word.INCONCLUSIVE


def test_any_number_meets_any() -> None:
    assert judged(Expect(duplicates="any"), duplicated=7) is Word.HOLDS


def test_every_other_anomaly_can_be_forbidden() -> None:
    assert judged(Expect(duplicates="none"), duplicated=1) is Word.VIOLATED
    assert judged(Expect(reordered="none"), reordered=1) is Word.VIOLATED
    assert judged(Expect(), phantom=1) is Word.VIOLATED
    assert judged(Expect(), corrupt=1) is Word.VIOLATED


def test_availability_is_a_share_of_the_run() -> None:
    assert judged(Expect(availability=">= 98%")) is Word.HOLDS
    assert judged(Expect(availability="> 98%")) is Word.VIOLATED
    assert judged(Expect(availability=">= 98.1%")) is Word.VIOLATED


def predicted(**outlooks: Outlook) -> dict[str, Outlook]:
    names = ("lost", "duplicated", "reordered", "phantom", "corrupt")
    return {name: outlooks.get(name, "possible") for name in names}


def test_what_is_impossible_and_was_seen_is_a_finding() -> None:
    (finding,) = find(predicted(lost="impossible"), {**CLEAN, "lost": 3}, conclusive=False)
    assert (finding.anomaly, finding.observed) == ("lost", 3)


def test_what_is_certain_and_was_not_seen_is_a_finding_if_the_run_is_conclusive() -> None:
    assert find(predicted(lost="certain"), CLEAN, conclusive=True)
    assert not find(predicted(lost="certain"), CLEAN, conclusive=False)


def test_agreement_is_no_finding() -> None:
    seen = {**CLEAN, "lost": 3, "duplicated": 1}
    assert not find(predicted(lost="certain"), seen, conclusive=True)
    assert not find(predicted(), seen, conclusive=True)
    assert not find(predicted(lost="impossible"), CLEAN, conclusive=True)


def test_where_clients_set_the_pace_no_latency_is_claimed() -> None:
    latency = Latency(p50=1, p95=1, p99=1, p999=1, max=1)
    measured = Metrics(
        duration_s=1,
        acked_per_s=1,
        unavailability_s=0,
        unavailability_gap_s=1,
        ack_latency_ms=latency,
    )
    assert claimable(measured, []).ack_latency_ms == latency
    assert claimable(measured, ["producer 0 was busy 99% of the time"]).ack_latency_ms is None
