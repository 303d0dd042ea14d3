"""Judges a stored run: from its run directory to its verdict, without a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from ackproof.judgement import availability, expectations, findings, invariants, trace_validation
from ackproof.judgement.client_checks import (
    client_counts,
    expected_errors,
    sends_without_times,
    stopped_producers,
)
from ackproof.judgement.cluster_checks import ended_nodes, reported_errors
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.invariants import Audit, Consequence
from ackproof.judgement.overview import collect as overview
from ackproof.judgement.overview.safer import durability_of
from ackproof.prediction.predict import settling_s
from ackproof.runs import directory as runs
from ackproof.runs.addresses import OpenedRun
from ackproof.runs.verdict import (
    CauseReport,
    Expectation,
    Finding,
    Likelihood,
    Metrics,
    StoppedProducer,
    Verdict,
    Word,
)
from ackproof.scenario import removal
from ackproof.scenario.kafka_clients import acks_refused_batches
from ackproof.scenario.model import Scenario
from ackproof.spark_session import spark_session
from ackproof_faults import NoFault, registered
from ackproof_spark.anomaly import OF_REPLICAS, Anomaly
from ackproof_spark.forensics.cases import TITLES, FaultKind, Settings
from ackproof_spark.tables import CAUSES, LOCATION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackproof_spark.analysis import Analysis
    from ackproof_spark.forensics.causes import Cause

_T = TypeVar("_T")


def judge_run(run_dir: Path | OpenedRun) -> Verdict:
    """Judge a stored run; write its `verdict.json`, `trace.json`, `causes`, `overview.json`.

    Raises RunDirectoryError if this is no run directory, or a damaged one; SparkError if Spark
    cannot be started or fails.
    """
    run = OpenedRun.here(run_dir) if isinstance(run_dir, Path) else run_dir
    admit(run.folder)
    with spark_session() as spark:
        evidence = Evidence(run_dir=run.folder)
        compared = _analyse(spark, evidence, run.address)
        run.fetch("anomalies", "lost_stories")
        verdict = conclude(evidence, compared)
        overview.write(evidence, verdict, spark, run.address)
        run.store()
    return verdict


def admit(run_dir: Path) -> None:
    """Check a run's files before Spark reads them; close the record of an interrupted run.

    Raises RunDirectoryError if this is no run directory, or a damaged one.
    """
    for admission in invariants.ADMISSIONS:
        admission.check(run_dir)


def _analyse(spark: SparkSession, evidence: Evidence, address: Path | str) -> Analysis:
    from ackproof_spark.analysis import analyse

    scenario, faults = evidence.scenario, evidence.faults
    ends = [
        moment for fault in faults for moment in (fault.healed_at, fault.recovered_at) if moment
    ]
    return analyse(
        spark,
        address,
        settings=durability_settings(scenario),
        faults=fault_kinds(),
        omitted=expectations.inapplicable(scenario),
        keys=scenario.compacted_keys,
        count_removed=removal.counted(scenario),
        compacted=scenario.compacts(scenario.workload.topic),
        stopped=[each.producer for each in stopped_producers(evidence)],
        faults_ended_at=max(ends, default=None),
    )


def conclude(evidence: Evidence, compared: Analysis) -> Verdict:
    """Judge a run by the counts of Spark and the rest of its directory; write all results."""
    evidence = _observe(evidence, compared)
    run_dir, scenario, record = evidence.run_dir, evidence.scenario, evidence.record
    audit = invariants.audit(evidence)
    inconclusive = audit.inconclusive(with_times=expectations.of_times(scenario.expect))
    causes = _causes(run_dir, record.run_id, compared.causes)
    metrics, unobserved = reported(evidence, audit)
    lines, undisputed = _expect(evidence, metrics, causes)
    word, reason = expectations.conclude(
        lines, inconclusive, unless_lost=audit.unless_lost, undisputed=undisputed
    )
    ended, stopped = ended_nodes(evidence), stopped_producers(evidence)
    conclusive = not (inconclusive or audit.unless_lost or ended)
    further = without_troubles(stopped, expected_errors(scenario), word)
    reason += "".join(f"; {each}" for each in (*ended, *further))
    if unobserved:
        reason += f"; not observed: {', '.join(unobserved)}"
    prediction = evidence.prediction
    predicted = _investigated(prediction.predicted, compared.replicas)
    for anomaly in expectations.inapplicable(scenario):
        predicted.pop(anomaly, None)
    trace = trace_validation.validate(evidence)
    runs.write_model(run_dir / "trace.json", trace)
    verdict = Verdict(
        run_id=record.run_id,
        scenario=scenario.name,
        configuration_name=record.configuration_name,
        seed=scenario.seed,
        kafka_version=prediction.kafka_version or scenario.kafka,
        image=record.image,
        started_at=record.started_at,
        finished_at=record.finished_at,
        verdict=word,
        reason=reason,
        unobserved=unobserved,
        observed=dict(evidence.observed),
        by_topic=compared.by_topic,
        predicted=predicted,
        prediction=prediction.prediction,
        findings=[
            *_contradictions(evidence, predicted, conclusive=conclusive),
            *findings.disagreements(evidence).findings,
            *findings.of_high_watermarks(evidence),
            *findings.of_listed_ends(evidence),
            *trace_validation.findings(trace),
        ],
        not_checked=trace.not_checked,
        causes=causes,
        reported_errors=reported_errors(evidence),
        expectations=lines,
        faults=evidence.faults,
        ended=ended,
        stopped=stopped,
        metrics=metrics,
        steps=list(evidence.steps),
        readers=record.readers,
        compared=compared.comparison.path,
        configuration=record.configuration or durability_of(scenario),
    )
    runs.write_model(run_dir / "verdict.json", verdict)
    return verdict


def without_troubles(
    stopped: Iterable[StoppedProducer], expected: Collection[str], word: Word
) -> list[StoppedProducer]:
    """Return the producers whose end is no reason yet.

    A fatal error that is not expected is a trouble of the run, which makes it inconclusive.
    """
    return [each for each in stopped if word is not Word.INCONCLUSIVE or each.error in expected]


def _observe(evidence: Evidence, compared: Analysis) -> Evidence:
    """Return the evidence with what Spark counted and measured."""
    scenario = evidence.scenario
    result = compared.comparison
    observed = {
        "sent": result.sent,
        "acked": result.acked,
        "failed": result.failed,
        "unknown": result.unknown,
        **({"aborted": result.aborted} if scenario.workload.transactions else {}),
        **{str(anomaly): count for anomaly, count in result.counts.items()},
    }
    observed = _investigated(observed, compared.replicas)
    for anomaly in expectations.inapplicable(scenario):
        observed.pop(anomaly, None)
    observed |= {str(anomaly): count for anomaly, count in compared.replicas.items()}
    if result.removed is not None:
        observed["removed"] = result.removed
    observed |= client_counts(evidence)
    probe = availability.probe_metrics(evidence.probed, writes=compared.probe_writes)
    metrics = Metrics(**compared.metrics, probe=probe)
    return replace(evidence, observed=observed, metrics=metrics)


def reported(evidence: Evidence, audit: Audit) -> tuple[Metrics, list[str]]:
    """Return the reliable metrics, and the metrics and counts that cannot be reported."""
    metrics, record = evidence.metrics, evidence.record
    doubts = [*record.bottlenecks, *audit.of(Consequence.UNTIMED)]
    untimed = sends_without_times(evidence)
    if untimed and metrics.duration_s <= 0:
        doubts.append("the acked log has no times (sent_at and resolved_at)")
    unanswered = all(sends.settings.acks == "0" for sends in evidence.scenario.sends.values())
    metrics = with_times(
        metrics,
        "unknown" if doubts else "at most" if record.late else "measured",
        answered=not unanswered,
    )
    unobserved = [*record.unobserved, *invariants.unreported(doubts, record.late)]
    if untimed and metrics.duration_s > 0:
        unobserved.append(
            f"latency and availability of {untimed:,} acked sends without sent_at and resolved_at"
        )
    if removed := evidence.observed.get("removed", 0):
        unobserved.append(
            f"whether {removed:,} acked sends had been lost before retention or compaction "
            "removed them"
        )
    return metrics, unobserved


def with_times(
    metrics: Metrics, times: Literal["measured", "at most", "unknown"], *, answered: bool
) -> Metrics:
    """Return the metrics with the latency where `times` allows it.

    Unless brokers have `answered`, it is the time until the client wrote to its socket, and is left
    out.
    """
    latency = metrics.ack_latency_ms if answered else None
    exact, bound = times == "measured", times == "at most"
    return metrics.model_copy(
        update={
            "times": times,
            "ack_latency_ms": latency if exact else None,
            "ack_latency_at_most_ms": latency if bound else None,
        }
    )


def _expect(
    evidence: Evidence, metrics: Metrics, causes: Sequence[CauseReport]
) -> tuple[list[Expectation], list[Expectation]]:
    """Return all expectations, and those for the records on which all readers agree."""
    expect, observed = evidence.scenario.expect, evidence.observed
    lines = expectations.check_expectations(expect, observed, metrics, causes)
    undisputed = lines
    disputed = findings.disagreements(evidence)
    if disputed.rows:
        agreed = disputed.undisputed(observed, runs.table_rows(evidence.run_dir, "anomalies"))
        undisputed = expectations.check_expectations(expect, agreed, metrics, causes)
    steps = expectations.check_steps(expect.steps, evidence.faults, evidence.steps)
    return lines + steps, undisputed


def _contradictions(
    evidence: Evidence, predicted: Mapping[str, Likelihood], *, conclusive: bool
) -> list[Finding]:
    return [
        *findings.contradictions(predicted, evidence.observed, conclusive=conclusive),
        *findings.of_availability(
            evidence.prediction.prediction.availability,
            evidence.steps,
            settling_s=settling_s(evidence.scenario),
            conclusive=conclusive,
        ),
    ]


def durability_settings(scenario: Scenario) -> dict[str, Settings]:
    """Return the settings that determine a record's durability, by topic."""
    return {
        topic: Settings(
            acks=sends.settings.acks,
            kafka_version=scenario.kafka,
            acks_refused=sends.client.java is None
            and acks_refused_batches(
                scenario.kafka,
                idempotence=sends.settings.idempotence,
                max_in_flight=sends.settings.max_in_flight,
            ),
        )
        for topic, sends in scenario.sends.items()
    }


def _investigated(by_anomaly: Mapping[str, _T], replicas: Collection[Anomaly]) -> dict[str, _T]:
    """Return the entries without the anomalies of replicas that were not investigated."""
    unchecked = {str(anomaly) for anomaly in OF_REPLICAS} - set(map(str, replicas))
    return {key: value for key, value in by_anomaly.items() if key not in unchecked}


def fault_kinds() -> dict[str, FaultKind]:
    """Return the properties of each registered fault that explain losses, by name."""
    return {
        name: FaultKind(
            hit_by=kind.hit_by_stored,
            past_tense=kind.past_tense,
            takes_bytes=kind.takes_bytes,
            control=kind is NoFault,
        )
        for name, kind in registered().items()
    }


def _causes(run_dir: Path, run_id: str, causes: Sequence[Cause]) -> list[CauseReport]:
    """Write the table `causes` and return its rows."""
    rows = [asdict(cause) for cause in causes]
    runs.write_table(run_dir / LOCATION["causes"], CAUSES, run_id, rows)
    return [CauseReport(title=TITLES[cause.case], **asdict(cause)) for cause in causes]
