"""The line of advice: what to configure, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.prediction.predict import predict
from ackproof.report import advice
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import PartAvailability, PredictionReport, Verdict, Word
from ackproof.scenario import loader
from ackproof.scenario.model import Scenario
from unit.harness.report.test_report_comparison import summary

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks.yaml"


def predicting(likelihood: str, writable: str = "can") -> advice.Predict:
    part = "after fault 1 (kill) begins"
    report = PredictionReport(
        trace=[],
        reasons={},
        availability=[
            PartAvailability(part=part, begun=1, healed=[], readable="can", writable=writable)
        ],
        bounds="",
    )
    return lambda _: PredictionRecord(predicted={"lost": likelihood}, prediction=report)


def with_metrics(verdict: Verdict, unavailable: float, p99: float, **changes: object) -> Verdict:
    latency = verdict.metrics.ack_latency_ms.model_copy(update={"p99": p99})
    metrics = verdict.metrics.model_copy(
        update={"unavailability_s": unavailable, "ack_latency_ms": latency}
    )
    return verdict.model_copy(update={"metrics": metrics, **changes})


def test_of_several_configurations_it_names_the_one_that_kept_all_and_its_price(acks_1, acks_all):
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


def test_where_every_configuration_lost_none_is_advised(acks_0, acks_1):
    assert advice.of_runs([acks_0.verdict, acks_1.verdict]).startswith("None of these")
    unclear = acks_1.verdict.model_copy(update={"verdict": Word.INCONCLUSIVE})
    assert advice.of_runs([unclear]) == ""


def test_of_trials_it_is_the_first_recommendation_with_its_cost():
    assert advice.of_trials(summary()) == (
        "Use acks=all where acked records must survive these faults: it lost none, but 12 trials "
        "cannot rule out that 50.8 % lose. Against acks=1, the worst partition acked nothing for "
        "3.1 s instead of 1.1 s and ack latency at p99 was 206 ms instead of 16.5 ms."
    )


def test_after_a_loss_the_model_is_asked_about_safer_settings(acks_1):
    line = advice.of_run(
        acks_1.verdict, acks_1.directory, predict=predicting("impossible", "cannot")
    )
    assert line == (
        "Set acks=all: with that, the model finds no way to lose an acked record under these "
        "faults. It costs: every ack waits for the in-sync replicas, and the partition cannot "
        "take writes after fault 1 (kill) begins."
    )
    still = advice.of_run(acks_1.verdict, acks_1.directory, predict=predicting("possible"))
    assert "not enough: the model calls a loss possible" in still
    assert advice.of_run(acks_1.verdict, acks_1.directory, predict=predicting("not modelled")) == ""


def test_a_topic_with_one_replica_needs_more(acks_1, tmp_path):
    text = (acks_1.directory / "scenario.yaml").read_text()
    alone = text.replace("replication_factor: 3", "replication_factor: 1")
    (tmp_path / "scenario.yaml").write_text(alone.replace("replicas: 2", "replicas: 1"))
    assert advice.of_run(acks_1.verdict, tmp_path).startswith("Give the topic more replicas")


def test_nothing_is_asked_where_the_model_knows_or_cannot_know(acks_all, unverified, tmp_path):
    def refuses(_: Scenario) -> PredictionRecord:
        raise AssertionError("the model was asked")

    line = advice.of_run(acks_all.verdict, tmp_path, predict=refuses)
    assert line.startswith("Keep this configuration")
    assert "acked nothing for 10.8 s" in line
    metrics = acks_all.verdict.metrics.model_copy(update={"ack_latency_ms": None})
    slow_client = acks_all.verdict.model_copy(update={"metrics": metrics})
    line = advice.of_run(slow_client, tmp_path, predict=refuses)
    assert line.endswith("What it costs in availability and latency was not observed.")
    assert advice.of_run(unverified.verdict, unverified.directory, predict=refuses) == ""
    assert advice.of_run(unverified.verdict, tmp_path, predict=refuses) == ""
    other_make = acks_all.verdict.model_copy(update={"predicted": {"lost": "not modelled"}})
    assert advice.of_run(other_make, acks_all.directory, predict=refuses) == ""


def test_the_safest_settings_and_only_what_they_change():
    zero, one, everyone = (one.scenario for one in loader.load(SCENARIO))
    assert advice.safest(one)[1] == {"acks": "all"}
    assert advice.safest(everyone)[1] == {}
    weak = one.topics["orders"].model_copy(
        update={"settings": {"unclean.leader.election.enable": True}}
    )
    safer, changes = advice.safest(zero.model_copy(update={"topics": {"orders": weak}}))
    assert changes == {
        "acks": "all",
        "min.insync.replicas": 2,
        "unclean.leader.election.enable": False,
    }
    assert safer.topic.min_insync_replicas == 2
    assert safer.topic.unclean_leader_election is False
    assert safer.workload.settings.acks == "all"
    old = one.model_copy(update={"kafka": "0.10.2.2", "topics": {"orders": weak}})
    defaults = old.topics["orders"].model_copy(update={"settings": {"min.insync.replicas": 2}})
    old = old.model_copy(update={"topics": {"orders": defaults}})
    assert "unclean.leader.election.enable" in advice.safest(old)[1]


@pytest.mark.parametrize("acks", [0, 1])
def test_the_advice_for_the_shipped_comparison_is_its_safe_configuration(acks):
    """The real model, asked about the safer settings, excludes the loss that it predicts."""
    losing = loader.load(SCENARIO)[acks].scenario
    assert predict(losing).predicted["lost"] == "certain"
    safer, _ = advice.safest(losing)
    assert predict(safer).predicted["lost"] == "impossible"
