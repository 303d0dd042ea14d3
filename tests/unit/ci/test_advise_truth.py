"""The draws and the table of `ci/advise-truth`."""

from __future__ import annotations

import advise_truth
from advise_truth import draw, table


def test_draws_are_repeated_and_stop_only_what_runs() -> None:
    drawn = [draw(seed) for seed in range(60)]
    assert drawn == [draw(seed) for seed in range(60)]
    assert {one.kafka for one in drawn} == set(advise_truth.VERSIONS)
    for one in drawn:
        up = {1, 2, 3}
        for what, broker in one.events:
            assert (broker in up) == (what != "start")
            up ^= {broker}
            if broker == one.without_power:
                last = what
        assert up
        if one.without_power in {broker for _, broker in one.events}:
            assert last != "stop"


def test_the_table_counts_right_and_exact_answers_by_verdict() -> None:
    kept = {"verdict": "keeps everything", "right": True, "exact": True, "missing": 0}
    wrong = {"verdict": "keeps everything", "right": False, "exact": False, "missing": 3}
    lines = table([{"alternatives": [kept, wrong]}, {"alternatives": [kept]}]).splitlines()
    assert lines[-1] == "| keeps everything | 3 | 2 | 2 | 1 |"
