"""When offsets are committed, and what a group then misses or repeats: claim 44, B26, B27.

The claim is in docs/claims.md, the cases in docs/catalogue.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof_model.consumer_groups import (
    ANOMALIES,
    OffsetBudgets,
    OffsetModel,
    search,
)

CRASH, REMOVED, DELAY, GONE = (
    {"crashes": 1},
    {"rebalances": 1},
    {"delays": 1},
    {"offset_losses": 1},
)
GAP, TWICE = {"unprocessed": 5}, {"reprocessed": 7}
NEVER: dict[str, int] = {}


def model(commit, budgets, version="4.3.1", **settings):
    return OffsetModel(
        kafka_version=version, commit=commit, budgets=OffsetBudgets(**budgets), **settings
    )


def ways(commit, budgets, version="4.3.1", **settings):
    found = search(model(commit, budgets, version, **settings))
    assert found.complete
    assert set(found.traces) <= set(ANOMALIES)
    return {anomaly: len(way) for anomaly, way in found.traces.items()}


@pytest.mark.parametrize("version", ["2.6.2", "3.9.1", "4.3.1"])
@pytest.mark.parametrize(
    ("commit", "budgets", "expected"),
    [
        # 44: commit, then process: at most once.
        ("before", CRASH, GAP),
        ("before", REMOVED, NEVER),
        # 44: process, then commit: at least once.
        ("after", CRASH, TWICE),
        ("after", REMOVED, {"reprocessed": 6}),
        # 44, B26: librdkafka's timer commits what was handed over: neither.
        ("auto", CRASH, GAP | TWICE),
        ("auto", REMOVED, {"reprocessed": 6}),
        # B26: the Java client commits what was polled before.
        ("auto-on-poll", CRASH, TWICE),
        ("auto-on-poll", REMOVED, {"reprocessed": 6}),
        ("never", CRASH, TWICE),
        # 57: offsets in the transaction: exactly once.
        ("transaction", CRASH, NEVER),
        ("transaction", REMOVED, NEVER),
        ("transaction", CRASH | REMOVED, NEVER),
    ],
)
def test_what_is_missed_and_what_is_done_twice(version, commit, budgets, expected):
    assert ways(commit, budgets, version) == expected


@pytest.mark.parametrize(
    "commit", ["before", "after", "auto", "auto-on-poll", "transaction", "never"]
)
def test_without_perturbations_everything_is_processed_once(commit):
    assert ways(commit, {"records": 3}) == NEVER
    assert ways(commit, DELAY) == NEVER


def test_b26_only_processing_elsewhere_loses_with_the_java_client():
    assert ways("auto-on-poll", CRASH, asynchronous=True) == GAP | TWICE


@pytest.mark.parametrize(
    ("commit", "reset", "expected"),
    [
        # The group begins again at the start, and does twice what it had done.
        ("before", "earliest", {"unprocessed": 5, "reprocessed": 10}),
        ("transaction", "earliest", {"reprocessed": 12}),
        # It begins again at the end, and misses what it had not done; or it begins again at an
        # older commit, if that one is left.
        ("before", "latest", {"unprocessed": 3, "reprocessed": 13}),
        ("after", "latest", {"unprocessed": 3, "reprocessed": 10}),
        ("transaction", "latest", {"unprocessed": 3, "reprocessed": 16}),
    ],
)
def test_b27_offsets_that_are_lost(commit, reset, expected):
    assert ways(commit, CRASH | GONE, reset=reset) == expected


@pytest.mark.parametrize("commit", ["before", "after", "auto", "transaction", "never"])
@pytest.mark.parametrize("departure", [CRASH, REMOVED])
def test_b27_a_failover_that_loses_nothing_changes_nothing(commit, departure):
    # The negative of B27: with three replicas the next coordinator loads every commit.
    assert ways(commit, departure | {"failovers": 1}) == ways(commit, departure)
    if commit in ("before", "transaction"):  # the others repeat records in any case
        assert ways(commit, departure | GONE) != ways(commit, departure)


def test_lost_offsets_alone_do_no_harm():
    # Who goes on knows its position; only the next owner asks for the committed offset.
    for commit in ("before", "after", "auto", "transaction", "never"):
        assert ways(commit, GONE) == NEVER


def test_a_deposed_coordinator_sends_the_next_owner_back():
    assert ways("transaction", CRASH | {"stale_fetches": 1}) == {"reprocessed": 11}
    assert ways("transaction", CRASH | {"stale_fetches": 1}, reset="latest")["unprocessed"] == 3
    assert ways("before", {"stale_fetches": 1}) == NEVER


def test_a_commit_that_fails_repeats_records_unless_the_member_stops():
    budgets = CRASH | {"failed_commits": 1}
    assert ways("before", budgets, continues_after_refused_commit=True) == GAP | {"reprocessed": 9}
    assert ways("before", budgets) == GAP
    assert ways("transaction", budgets, continues_after_refused_commit=True) == NEVER


def test_an_effect_without_an_ack_is_repeated_outside_of_transactions():
    assert ways("after", {"failed_effects": 1}) == {"reprocessed": 3}
    assert ways("transaction", {"failed_effects": 1}) == NEVER


@pytest.mark.parametrize("commit", ["before", "after", "auto", "transaction"])
def test_a_committed_offset_above_the_end_of_a_shorter_log_skips_what_is_written_there(commit):
    # Who runs compares leader epochs; a committed offset has none.
    assert ways(commit, {"log_losses": 1}) == NEVER
    assert "unprocessed" in ways(commit, REMOVED | {"log_losses": 1})
    assert "unprocessed" not in ways(commit, REMOVED)


@pytest.mark.parametrize("commit", ["before", "after", "auto"])
def test_before_2_4_a_member_that_runs_skips_what_takes_the_offsets_of_lost_records(commit):
    found = ways(commit, {"log_losses": 1}, "2.3.1")
    assert set(found) == {"unprocessed", "reprocessed"}, "in time it is out of range, and resets"
    assert "reprocessed" not in ways(commit, {"log_losses": 1}, "2.3.1", reset="latest")
    assert ways(commit, {"log_losses": 1}, "2.4.1") == NEVER


@pytest.mark.parametrize(
    ("commit", "budgets", "expected"),
    [
        ("before", {}, {"unprocessed"}),
        ("before", {"failed_commits": 1}, set()),
        ("after", {}, {"reprocessed"}),
        ("after", REMOVED | GONE, {"reprocessed"}),
        ("after", {"log_losses": 1}, set()),  # what was processed may be gone
        ("auto", {}, set()),  # the timer may be late
        ("never", {}, {"reprocessed"}),
        ("transaction", REMOVED | GONE, set()),
    ],
)
def test_a_member_that_is_killed_in_the_middle_of_a_poll(commit, budgets, expected):
    asked = model(commit, budgets, continues_after_refused_commit=True, killed_in_poll=True)
    found = search(asked, certain=True)
    assert found.certain == expected
    assert expected <= set(found.traces)


def test_nothing_is_certain_without_a_certain_kill():
    for commit in ("before", "after", "auto", "never", "transaction"):
        assert not search(model(commit, CRASH | REMOVED), certain=True).certain


def test_a_group_that_has_not_committed_yet_begins_at_the_end_again():
    assert ways("after", CRASH, reset="latest")["unprocessed"] == 3
    assert "unprocessed" not in ways("after", CRASH)


def test_a_late_commit_takes_the_group_back():
    # At most once needs commits to arrive in order: a late one is older than the last.
    assert "reprocessed" not in ways("before", CRASH)
    assert "reprocessed" in ways("before", CRASH | DELAY)
    assert "unprocessed" not in ways("after", CRASH | DELAY)


def test_before_kip_447_only_a_transactional_id_for_each_partition_fences():
    assert ways("transaction", CRASH, "2.4.1") == NEVER
    assert ways("transaction", REMOVED, "2.4.1") == {"reprocessed": 10}
    assert ways("transaction", REMOVED, "2.4.1", same_id=True) == NEVER
    assert ways("transaction", REMOVED, "2.5.1") == NEVER


def test_who_goes_on_after_a_refused_commit_does_twice_what_another_does():
    assert ways("before", REMOVED) == NEVER
    assert ways("before", REMOVED, continues_after_refused_commit=True) == {"reprocessed": 8}
    assert "unprocessed" not in ways("after", CRASH | REMOVED, continues_after_refused_commit=True)
    assert ways("transaction", CRASH | REMOVED, continues_after_refused_commit=True) == NEVER


def test_a_trace_tells_the_gap():
    found = search(model("before", CRASH), until=["unprocessed"])
    assert [label for label, _ in found.traces["unprocessed"]] == [
        "member 0 polls up to 1",
        "member 0 commits 1",
        "member 0 is killed",
        "the group notices",
        "member 1 begins at 1",
    ]


@pytest.mark.slow
def test_offsets_in_transactions_hold_within_larger_budgets():
    budgets = {"crashes": 1, "rebalances": 2}
    assert ways("transaction", budgets) == NEVER
    assert ways("transaction", budgets, "2.4.1", same_id=True) == NEVER


def test_a_search_without_room_decides_nothing():
    found = search(model("after", CRASH), max_states=10)
    assert not found.complete


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: model("sometimes", {}), "commit 'sometimes' is not one of before, after"),
        (lambda: model("after", {}, reset="none"), "reset 'none'"),
        (lambda: model("transaction", {}, "0.10.2"), "no transactions"),
        (lambda: replace(OffsetBudgets(), crashes=8), "crashes is 8"),
    ],
)
def test_bad_questions_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()
