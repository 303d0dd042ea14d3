"""What one side writes into the page, the other reads."""

from __future__ import annotations

import pytest

from ackproof.clients.shared_page import Progress, ProgressPage, State, recorded, total


@pytest.fixture
def sides(tmp_path):
    """The harness's side and the process's."""
    path = tmp_path / "page"
    harness = ProgressPage(path, create=True)
    process = ProgressPage(path)
    yield harness, process
    process.close()
    harness.close()


def test_a_new_page_has_the_state_loading(sides):
    harness, _ = sides
    assert harness.state is State.LOADING
    assert harness.read() == Progress()
    assert not harness.stop
    assert (harness.error, harness.started_at, harness.updated_at) == ("", 0, 0)


def test_counts_and_times_are_shared_and_stored(sides, tmp_path):
    harness, process = sides
    harness.stop = True
    assert process.stop
    process.started_at = 1
    process.state = State.PRODUCING
    process.count(sent=10, acked=4, failed=2, unknown=1, at=5)
    assert harness.read() == Progress(sent=10, acked=4, failed=2, unknown=1)
    assert harness.read().in_flight == 3
    assert (harness.state, harness.started_at, harness.updated_at) == (State.PRODUCING, 1, 5)
    stored = recorded(tmp_path / "page")
    assert (stored.state, stored.counted) == (State.PRODUCING, harness.read())


@pytest.mark.parametrize("text", ["disk full", "ü" * 10_000])
def test_an_error_is_shared_and_truncated(sides, text):
    harness, process = sides
    process.count(sent=1, acked=0, failed=0, unknown=0, at=1)
    process.fail(text)
    assert harness.state is State.BROKEN
    assert harness.error
    assert text.startswith(harness.error.rstrip("\ufffd"))
    assert harness.read().sent == 1


def test_total_is_the_sum():
    parts = [Progress(sent=10, acked=4, failed=2, unknown=1), Progress(sent=1, acked=1)]
    assert total(iter(parts)) == Progress(sent=11, acked=5, failed=2, unknown=1)
    assert total([]) == Progress()
