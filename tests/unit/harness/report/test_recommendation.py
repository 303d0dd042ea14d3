"""The line of advice: a configuration and its cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof.audit import request
from ackproof.audit.outputs.summary import summaries
from ackproof.comparison.summary import summary_of
from ackproof.report import formatting as fmt
from ackproof.report import recommendation
from ackproof.runs.overview import Safer, SaferStep
from ackproof.runs.verdict import PartAvailability, Word
from support.trial_summaries import summary

PART = PartAvailability(
    part="after fault 1 (kill) begins", begun=1, healed=[], readable="can", writable="cannot"
)


def step(likelihood: str = "impossible", reason: str = "", **changes: str) -> SaferStep:
    return SaferStep(
        changes=changes or {"acks": "all"},
        predicted=likelihood,
        reason=reason,
        availability=[PART],
    )


def settings(*steps: SaferStep, **changes: Any) -> Safer:
    return Safer(**{"replicas": 3, "steps": list(steps), **changes})


def advised(*made: Any) -> list[str]:
    """Return the advice for a comparison of these runs."""
    return recommendation.of_comparison(
        summary_of([one.verdict for one in made], [one.directory for one in made])
    )


def altered(made: Any, unavailable: float, p99: float, **changes: object) -> Any:
    verdict = made.verdict
    latency = verdict.metrics.ack_latency_ms.model_copy(update={"p99": p99})
    metrics = verdict.metrics.model_copy(
        update={"unavailability_s": unavailable, "ack_latency_ms": latency}
    )
    return made._replace(verdict=verdict.model_copy(update={"metrics": metrics, **changes}))


def test_the_advice_is_the_configuration_without_loss_and_its_price(acks_1, acks_all, snapshot):
    losing, keeping = altered(acks_1, 2.0, 10.0), altered(acks_all, 5.5, 80.0)
    unproven = altered(acks_all, 5.5, 80.0, predicted={"lost": "possible"})
    for made in (keeping, unproven):
        assert advised(losing, made)[0].startswith(f"Use '{acks_all.verdict.name}': ")
        assert "\n".join(advised(losing, made)) == snapshot


@pytest.mark.parametrize(
    ("acks", "kafka"), [("all", "4.4.0"), ("1", "4.4.0"), ("all", "3.9.1"), ("all", "2.6.2")]
)
def test_what_an_audit_says_beyond_the_faults_is_what_it_says_of_the_files(
    acks_1, acks_all, tmp_path: Path, acks: str, kafka: str
) -> None:
    kept = {"all": acks_all, "1": acks_1}[acks]
    observed = {**kept.verdict.observed, "lost": 0}
    kept = altered(kept, 1.0, 1.0, observed=observed)
    compared = summary_of([kept.verdict], [kept.directory])
    compared.shared["Kafka"] = kafka
    lines = recommendation.of_comparison(compared)
    (line,) = [one for one in lines if one.startswith("This is about these faults")]
    idempotence = str(kept.verdict.configuration["enable.idempotence"]).lower()
    roles = "" if kafka == "2.6.2" else "process.roles=broker,controller\n"
    files = {
        "server.properties": "default.replication.factor=3\nmin.insync.replicas=2\n"
        f"unclean.leader.election.enable=false\n{roles}",
        "producer.properties": f"acks={acks}\nenable.idempotence={idempotence}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    audit = request.audit(request.Request(files=(tmp_path,), kafka=kafka))
    assert line.endswith(f"`ackproof audit` says: {summaries(audit)[0].headline}.")
    assert "kafka.mode" not in line


def test_a_cluster_that_is_not_modelled_has_no_audit(acks_all) -> None:
    other = altered(acks_all, 1.0, 1.0, predicted={"lost": None})
    assert not any("`ackproof audit` says:" in line for line in advised(other))


def test_a_proven_configuration_is_preferred_to_a_cheaper_lucky_one(acks_1, acks_all):
    lucky = altered(acks_1, 0.1, 1.0, observed={**acks_1.verdict.observed, "lost": 0})
    assert advised(lucky, acks_all)[0].startswith("Use 'acks=all")


def test_no_configuration_is_recommended_if_all_lost(acks_0, acks_1, snapshot):
    assert "\n".join(advised(acks_0, acks_1)) == snapshot
    unclear = acks_1.verdict.model_copy(
        update={"verdict": Word.INCONCLUSIVE, "observed": {**acks_1.verdict.observed, "lost": 0}}
    )
    assert advised(acks_1._replace(verdict=unclear)) == []


def test_a_configuration_that_ran_alone_is_not_recommended_over_others(acks_1, acks_all) -> None:
    for made, says in ((acks_all, " lost nothing in 1 run, "), (acks_1, " lost acked records ")):
        assert advised(made)[0].startswith(f"{fmt.quoted(made.verdict.name)}{says}")


def test_the_advice_for_trials_says_how_often_such_runs_may_lose(snapshot):
    line, price, beyond = recommendation.of_comparison(summary())
    assert "51 %" in line
    assert f"{line}\n{price}" == snapshot
    assert beyond.startswith("This is about these faults: `ackproof audit` says")


def test_the_advice_goes_to_the_end_with_a_prediction_for_each_step(acks_1, snapshot):
    half = step("possible", "the last replica loses power", **{"min.insync.replicas": "2"})
    safer = settings(half, step(Kafka="4.1 or later"))
    made = summary()
    cells = [cell.model_copy(update={"safer": safer}) for cell in made.cells]
    line = recommendation.of_comparison(made.model_copy(update={"cells": cells}))[-1]
    assert line.index("min.insync.replicas=2") < line.index("4.1 or later")
    assert line == snapshot
    assert recommendation.of_run(acks_1.verdict, safer) == snapshot


@pytest.mark.parametrize(
    "safer",
    [
        pytest.param(settings(step()), id="impossible"),
        pytest.param(settings(step("possible", "all power is lost")), id="still possible"),
        pytest.param(settings(replicas=1), id="one replica"),
        pytest.param(settings(reason="all power is lost"), id="safest already"),
    ],
)
def test_after_a_loss_safer_settings_are_advised(acks_1, safer, snapshot):
    assert recommendation.of_run(acks_1.verdict, safer) == snapshot


@pytest.mark.parametrize(
    ("changes", "excluded", "what", "other"),
    [
        ({"acks": "all"}, ["aborted-read"], "read an aborted record", "Set acks=all: "),
        ({}, ["aborted-read"], "read an aborted record", "only other measures help"),
        ({}, ["lost", "aborted-read"], "lose an acked record or read an aborted record", ""),
    ],
)
def test_a_client_with_protocol_2_is_advised_if_it_excludes_an_anomaly(
    acks_1, acks_all, *, changes, excluded, what, other
):
    safer = settings(*[step("possible", **changes)] if changes else [], protocol_2=excluded)
    said = (
        "Use a client with transaction protocol 2 (KIP-890), such as Java's from 4.0 on, with "
        f"transaction.version=2: with that, the model finds no way to {what} under these faults."
    )
    line = recommendation.of_run(acks_1.verdict, safer)
    beyond = (
        "This is about these faults: `ackproof audit` says after which other failures a "
        "configuration loses records."
    )
    assert line.endswith(f"{said} {beyond}")
    assert other in line.removesuffix(said) if other else line == f"{said} {beyond}"
    assert recommendation.of_run(acks_all.verdict, safer).startswith(
        f"{said} Keep this configuration"
    )


def test_a_proven_configuration_is_recommended_with_its_cost(acks_all, snapshot):
    line = recommendation.of_run(acks_all.verdict, None)
    assert "10.8 s" in line
    assert line == snapshot
    metrics = acks_all.verdict.metrics.model_copy(update={"ack_latency_ms": None})
    slow_client = acks_all.verdict.model_copy(update={"metrics": metrics})
    assert recommendation.of_run(slow_client, None) == snapshot


def test_without_an_answer_there_is_no_advice(acks_1, acks_all, unverified):
    assert recommendation.of_run(acks_1.verdict, settings(step("not modelled"))) == ""
    assert recommendation.of_run(acks_1.verdict, None) == ""
    assert recommendation.of_run(unverified.verdict, settings(step())) == ""
    other_make = acks_all.verdict.model_copy(update={"predicted": {"lost": "not modelled"}})
    assert recommendation.of_run(other_make, None) == ""
