"""Verbs of sentences about faults agree with the number of replicas."""

from __future__ import annotations

import pytest

from ackproof_model.prediction.effect_words import Who, action, undone
from ackproof_model.replication.fault_effects import (
    ChannelCut,
    LogRemoved,
    ProcessEnds,
    ProcessStalls,
    ProcessStarts,
)

ONE, TWO = Who(text="A", several=False), Who(text="B and C", several=True)
CLIENTS_LOST = ChannelCut(channel="clients", packets="from")
OTHERS = ChannelCut(channel="clients", at="others")


@pytest.mark.parametrize(
    ("effect", "one", "two"),
    [
        (
            ProcessEnds(log="prefix"),
            "A loses power, and the end of the log that was not fsynced.",
            "B and C lose power, and the ends of the logs that were not fsynced.",
        ),
        (
            ProcessEnds(log="all"),
            "A is killed (SIGKILL): what it appended stays in its log.",
            "B and C are killed (SIGKILL): what they appended stays in their logs.",
        ),
        (
            ProcessEnds(log="nothing"),
            "A is killed (SIGKILL), and loses its log.",
            "B and C are killed (SIGKILL), and lose their logs.",
        ),
        (ProcessEnds(controlled=True), "A shuts down (SIGTERM).", "B and C shut down (SIGTERM)."),
        (ProcessStarts(), "A is started again.", "B and C are started again."),
        (
            ProcessStalls(),
            "A stands still; its connections stay open.",
            "B and C stand still; their connections stay open.",
        ),
        (LogRemoved(), "the log of A is deleted.", "the logs of B and C are deleted."),
        (
            ChannelCut(channel="replication", fetches="by"),
            "replication to A is cut: it cannot fetch from the other brokers.",
            "replication to B and C is cut: they cannot fetch from the other brokers.",
        ),
        (
            CLIENTS_LOST,
            "A receives requests of clients, but its responses are lost.",
            "B and C receive requests of clients, but their responses are lost.",
        ),
        (
            ChannelCut(channel="controllers"),
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
        (ProcessEnds(), "A is started again.", "B and C are started again."),
        (ProcessStalls(), "A continues.", "B and C continue."),
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
