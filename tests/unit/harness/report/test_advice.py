"""The line of advice: a configuration and its cost."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.report import advice
from ackproof.runs.overview import Safer
from ackproof.runs.verdict import PartAvailability, Verdict, Word
from support.trial_summaries import summary


def settings(likelihood: str | None = "impossible", **changes: Any) -> Safer:
    part = PartAvailability(
        part="after fault 1 (kill) begins",
        begun=1,
        healed=[],
        readable="can",
        writable="cannot",
    )
    fields = {"replicas": 3, "changes": {"acks": "all"}, "predicted": likelihood}
    return Safer(**{**fields, "availability": [part], **changes})


def with_metrics(verdict: Verdict, unavailable: float, p99: float, **changes: object) -> Verdict:
    latency = verdict.metrics.ack_latency_ms.model_copy(update={"p99": p99})
    metrics = verdict.metrics.model_copy(
        update={"unavailability_s": unavailable, "ack_latency_ms": latency}
    )
    return verdict.model_copy(update={"metrics": metrics, **changes})


def test_the_advice_is_the_configuration_without_loss_and_its_cost(acks_1, acks_all):
    losing = with_metrics(acks_1.verdict, 2.0, 10.0)
    keeping = with_metrics(acks_all.verdict, 5.5, 80.0)
    line = advice.of_runs([losing, keeping])
    assert line == (
        "Use 'acks=all, min.insync.replicas=2': it lost nothing here, and the model finds no way "
        "to lose an acked record under these faults. Against acks=1, the worst partition acked "
        "nothing for 5.5 s instead of 2.0 s and ack latency at p99 was 80.0 ms instead of 10.0 ms."
    )
    unproven = keeping.model_copy(update={"predicted": {"lost": "possible"}})
    assert "the model finds no way" not in advice.of_runs([losing, unproven])


def test_a_proven_configuration_is_preferred_to_a_cheaper_lucky_one(acks_1, acks_all):
    lucky = with_metrics(acks_1.verdict, 0.1, 1.0, observed={**acks_1.verdict.observed, "lost": 0})
    assert advice.of_runs([lucky, acks_all.verdict]).startswith("Use 'acks=all")


def test_no_configuration_is_recommended_if_all_lost(acks_0, acks_1):
    assert advice.of_runs([acks_0.verdict, acks_1.verdict]).startswith("None of these")
    unclear = acks_1.verdict.model_copy(update={"verdict": Word.INCONCLUSIVE})
    assert advice.of_runs([unclear]) == ""


def test_the_advice_for_trials_is_the_first_recommendation_and_its_cost():
    assert advice.of_trials(summary()) == (
        "Use acks=all where acked records must survive these faults: it lost none, but 12 trials "
        "cannot rule out that 50.8 % lose. Against acks=1, the worst partition acked nothing for "
        "3.1 s instead of 1.1 s and ack latency at p99 was 206 ms instead of 16.5 ms."
    )


def test_after_a_loss_safer_settings_are_advised(acks_1):
    assert advice.of_run(acks_1.verdict, settings()) == (
        "Set acks=all: with that, the model finds no way to lose an acked record under these "
        "faults. It costs: every ack waits for the in-sync replicas, and the partition cannot "
        "take writes after fault 1 (kill) begins."
    )
    still = advice.of_run(acks_1.verdict, settings("possible", reason="all power is lost"))
    assert "not enough: the model calls a loss possible" in still
    assert still.endswith("under these faults even so (all power is lost).")
    alone = advice.of_run(acks_1.verdict, settings(None, replicas=1, changes={}))
    assert alone.startswith("Give the topic more replicas")
    safest = advice.of_run(acks_1.verdict, settings(None, changes={}, reason="all power is lost"))
    assert "have their safest values already" in safest
    assert safest.endswith("only other measures help (all power is lost).")


@pytest.mark.parametrize(
    ("changes", "excluded", "what", "other"),
    [
        ({"acks": "all"}, ["aborted-read"], "read an aborted record", "Set acks=all."),
        ({}, ["aborted-read"], "read an aborted record", "only other measures help"),
        ({}, ["lost", "aborted-read"], "lose an acked record or read an aborted record", ""),
    ],
)
def test_a_client_with_protocol_2_is_advised_if_it_excludes_an_anomaly(
    acks_1, acks_all, *, changes, excluded, what, other
):
    safer = settings("possible", changes=changes, protocol_2=excluded)
    said = (
        "Use a client with transaction protocol 2 (KIP-890), such as Java's from 4.0 on, with "
        f"transaction.version=2: with that, the model finds no way to {what} under these faults."
    )
    line = advice.of_run(acks_1.verdict, safer)
    assert line.endswith(said)
    assert other in line.removesuffix(said) if other else line == said
    assert advice.of_run(acks_all.verdict, safer).startswith(f"{said} Keep this configuration")


def test_a_proven_configuration_is_recommended_with_its_cost(acks_all):
    line = advice.of_run(acks_all.verdict, None)
    assert line.startswith("Keep this configuration")
    assert "acked nothing for 10.8 s" in line
    metrics = acks_all.verdict.metrics.model_copy(update={"ack_latency_ms": None})
    slow_client = acks_all.verdict.model_copy(update={"metrics": metrics})
    line = advice.of_run(slow_client, None)
    assert line.endswith("Its cost in availability and latency was not observed.")


def test_without_an_answer_there_is_no_advice(acks_1, acks_all, unverified):
    assert advice.of_run(acks_1.verdict, settings("not modelled")) == ""
    assert advice.of_run(acks_1.verdict, None) == ""
    assert advice.of_run(unverified.verdict, settings()) == ""
    other_make = acks_all.verdict.model_copy(update={"predicted": {"lost": "not modelled"}})
    assert advice.of_run(other_make, None) == ""
