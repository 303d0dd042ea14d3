"""The draws and the table of `ci/lab/advise-truth`."""

from __future__ import annotations

from typing import Any

import advise_truth
import pytest
from advise_truth import End, compared, draw, table

from ackproof.advise.alternatives import Alternative
from ackproof_model.advice import Ability, Offsets, Outcome, Start


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


SAID: dict[str, Any] = {
    "may_lose": (Offsets(5, 9),),
    "loses": (Offsets(8, 9),),
    "loses_new": False,
    "disks": (),
    "leaders": (2,),
    "reads": Ability.YES,
    "writes": Ability.YES,
    "complete": True,
}


@pytest.mark.parametrize(
    ("missing", "leader", "returned", "right", "exact"),
    [
        ({5, 6, 7, 8, 9}, 2, (1, 8.0), True, True),
        ({8, 9}, 2, (1, 8.0), True, False),
        ({4, 8, 9}, 2, (1, 8.0), False, False),  # lost, and not named
        ({9}, 2, (1, 8.0), False, False),  # named as lost for certain, and kept
        ({8, 9}, 3, (1, 8.0), False, False),  # another leader
        ({8, 9}, 2, None, False, False),  # writes did not return
    ],
)
def test_an_outcome_is_compared_with_what_happened(missing, leader, returned, right, exact) -> None:
    place = ("orders", 0)
    one = Alternative(steps=(Start((2,)),), outcomes={place: Outcome(**SAID)})
    end = End(leader=leader, missing=frozenset(missing), returned=returned)
    found = compared(one, place, end, range(10))
    assert (found["right"], found["exact"]) == (right, exact)
    assert (found["verdict"], found["at_risk"]) == ("may lose", 5)


def test_the_topics_of_a_cluster_differ_in_their_settings() -> None:
    topics = set(draw(1).topics.values())
    assert len({(one.replicas, one.minimum, one.acks) for one in topics}) > 15
    assert {one.unclean for one in topics} == {True, False}
    assert all(set(one.replicas) <= {1, 2, 3} for one in topics)
