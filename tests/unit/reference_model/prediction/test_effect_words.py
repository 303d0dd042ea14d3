"""Verbs of sentences about faults agree with the number of replicas."""

from __future__ import annotations

import pytest

from ackproof_model import Cuts, Ends, Stalls
from ackproof_model.prediction.narrative import Who, action, undone

ONE, TWO = Who(text="A", several=False), Who(text="B and C", several=True)
CLIENTS_LOST = Cuts(channels=("clients",), direction="to_peers")
OTHERS = Cuts(channels=("clients",), nodes="others")


@pytest.mark.parametrize(
    ("effect", "one", "two"),
    [
        (
            Ends(log="prefix"),
            "A loses power, and the end of the log that was not fsynced.",
            "B and C lose power, and the ends of the logs that were not fsynced.",
        ),
        (
            Ends(log="kept"),
            "A is killed (SIGKILL): what it appended stays in its log.",
            "B and C are killed (SIGKILL): what they appended stays in their logs.",
        ),
        (
            Ends(log="empty"),
            "A is killed (SIGKILL), and loses its log.",
            "B and C are killed (SIGKILL), and lose their logs.",
        ),
        (Ends(clean=True), "A shuts down (SIGTERM).", "B and C shut down (SIGTERM)."),
        (
            Stalls(),
            "A stands still; its connections stay open.",
            "B and C stand still; their connections stay open.",
        ),
        (
            Cuts(channels=("replication",)),
            "replication between A and the other brokers is cut.",
            "replication between B and C and the other brokers is cut.",
        ),
        (
            CLIENTS_LOST,
            "A receives requests of clients, but its responses are lost.",
            "B and C receive requests of clients, but their responses are lost.",
        ),
        (
            Cuts(channels=("controllers",)),
            "A is cut off from the controllers.",
            "B and C are cut off from the controllers.",
        ),
        (
            OTHERS,
            "every broker but A is cut off from clients.",
            "every broker but B and C is cut off from clients.",
        ),
    ],
)
def test_what_a_fault_does(effect: object, one: str, two: str) -> None:
    assert (action(effect, ONE), action(effect, TWO)) == (one, two)


@pytest.mark.parametrize(
    ("effect", "one", "two"),
    [
        (Ends(), "A is started again.", "B and C are started again."),
        (Stalls(), "A continues.", "B and C continue."),
        (CLIENTS_LOST, "A reaches clients again.", "B and C reach clients again."),
        (
            OTHERS,
            "every broker but A reaches clients again.",
            "every broker but B and C reaches clients again.",
        ),
    ],
)
def test_what_healing_does(effect: object, one: str, two: str) -> None:
    assert (undone(effect, ONE), undone(effect, TWO)) == (one, two)
