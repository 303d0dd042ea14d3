"""Judges a stored run: from its run directory to its verdict, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ackproof.judgement import (
    availability,
    conclusiveness,
    expectations,
    findings,
    progress_pages,
    reader_disagreement,
    send_times,
    step_expectations,
    trace_validation,
)
from ackproof.judgement.client_counts import client_counts
from ackproof.judgement.overview import collect as overview
from ackproof.prediction.replication import settling_s
from ackproof.runs import directory as runs
from ackproof.runs import manifest
from ackproof.runs.recovery import recover_run
from ackproof.runs.verdict import CauseReport, FaultReport, Metrics, Verdict
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof.spark_session import spark_session
from ackproof_faults import NoFault, registered
from ackproof_model import Profile
from ackproof_spark.anomaly import OF_REPLICAS
from ackproof_spark.forensics.cases import TITLES, FaultKind, Settings
from ackproof_spark.tables import CAUSES, LOCATION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackproof_spark.analysis import Analysis
    from ackproof_spark.forensics.causes import Cause
    from ackproof_spark.forensics.investigation import Investigation

_T = TypeVar("_T")


def judge_run(run_dir: Path) -> Verdict:
    """Judge a stored run; write its `verdict.json`, `trace.json`, `causes`, `overview.json`.

    Raises RunDirectoryError if this is no run directory, or a damaged one; SparkError if Spark
    cannot be started or fails.
    """
    admit(run_dir)
    with spark_session() as spark:
        scenario = load(run_dir / "scenario.yaml")[0].scenario
        verdict = conclude(run_dir, scenario, _analyse(spark, run_dir, scenario))
        overview.write(run_dir, verdict, spark)
    return verdict


def admit(run_dir: Path) -> None:
    """Check a run's files before Spark reads them; close the record of an interrupted run.

    Raises RunDirectoryError if this is no run directory, or a damaged one.
    """
    runs.refuse_special_files(run_dir)
    if not manifest.exists(run_dir) and (run_dir / "scenario.yaml").exists():
        progress_pages.check_streams(run_dir, load(run_dir / "scenario.yaml")[0].scenario)
    recover_run(run_dir)
    manifest.check_tables(run_dir, runs.read_record(run_dir).run_id)


def _analyse(spark: SparkSession, run_dir: Path, scenario: Scenario) -> Analysis:
    from ackproof_spark.analysis import analyse

    return analyse(
        spark,
        run_dir,
        settings=durability_settings(scenario),
        faults=fault_kinds(),
        omitted=expectations.inapplicable(scenario),
        keys=scenario.compacted_keys,
        count_removed=scenario.removes or scenario.expect.removed != "any",
        compacted=scenario.topic.compacted,
    )


def conclude(run_dir: Path, scenario: Scenario, compared: Analysis) -> Verdict:
    """Judge a run by what Spark found and by the rest of its directory; write all results."""
    record = runs.read_record(run_dir)
    prediction = runs.read_prediction(run_dir)
    faults = _faults(run_dir)
    result, investigation = compared.comparison, compared.investigation
    observed = {
        "sent": result.sent,
        "acked": result.acked,
        "failed": result.failed,
        "unknown": result.unknown,
        **({"aborted": result.aborted} if scenario.workload.transactions else {}),
        **{str(anomaly): count for anomaly, count in result.counts.items()},
    }
    predicted = _checked(prediction.predicted, investigation)
    observed = _checked(observed, investigation)
    for anomaly in expectations.inapplicable(scenario):
        observed.pop(anomaly, None)
        predicted.pop(anomaly, None)
    observed |= {str(anomaly): count for anomaly, count in investigation.counts.items()}
    if result.removed is not None:
        observed["removed"] = result.removed
    observed |= client_counts(run_dir, scenario)
    causes = _causes(run_dir, record.run_id, investigation.causes)
    probed = availability.attempts(runs.table_rows(run_dir, "probe"))
    steps = availability.steps(probed, faults)
    misdated = list(send_times.contradictions(run_dir, scenario, record))
    doubts = [*record.bottlenecks, *misdated]
    measured = conclusiveness.claimable(
        Metrics(
            **compared.metrics,
            probe=availability.probe_metrics(probed, writes=compared.probe_writes)
            if probed
            else None,
        ),
        doubts,
    )
    unobserved = [
        *record.unobserved,
        *conclusiveness.unclaimed(doubts),
        *conclusiveness.unknown_fates(observed),
    ]
    disagreements = reader_disagreement.read(run_dir)
    inconclusive_reasons = conclusiveness.inconclusive_reasons(
        run_dir,
        scenario,
        record,
        faults=faults,
        observed=observed,
        unacked_partitions=measured.unacked_partitions,
    )
    inconclusive_reasons += disagreements.inconclusive_reasons
    inconclusive_reasons += conclusiveness.without_times(scenario.expect, measured, misdated)
    in_steps = step_expectations.check_steps(scenario.expect.steps, faults, steps)
    inconclusive_reasons += step_expectations.untold(in_steps)
    checked = expectations.check_expectations(scenario.expect, observed, measured, causes)
    checked += in_steps
    undisputed = disagreements.undisputed(run_dir, observed)
    word, reason = expectations.conclude(
        checked,
        inconclusive_reasons,
        undisputed=expectations.check_expectations(scenario.expect, undisputed, measured, causes),
    )
    if unobserved:
        reason += f"; not observed: {', '.join(unobserved)}"
    trace = trace_validation.validate(run_dir, scenario, record)
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
        observed=observed,
        by_topic=compared.by_topic,
        predicted=predicted,
        prediction=prediction.prediction,
        findings=[
            *findings.contradictions(predicted, observed, conclusive=not inconclusive_reasons),
            *findings.of_availability(
                prediction.prediction.availability,
                steps,
                settling_s=settling_s(scenario),
                conclusive=not inconclusive_reasons,
            ),
            *disagreements.findings,
            *trace_validation.findings(trace),
        ],
        not_checked=trace.not_checked,
        causes=causes,
        expectations=checked,
        faults=faults,
        metrics=measured,
        steps=steps,
        readers=record.readers,
        configuration=record.configuration or _configuration(scenario),
    )
    runs.write_model(run_dir / "verdict.json", verdict)
    return verdict


def durability_settings(scenario: Scenario) -> dict[str, Settings]:
    """Return the settings that determine a record's durability, by topic."""
    return {
        topic: Settings(
            acks=sends.settings.acks,
            min_insync_replicas=scenario.topics[topic].min_insync_replicas,
            kafka_version=scenario.kafka,
        )
        for topic, sends in scenario.sends.items()
    }


def _checked(by_anomaly: Mapping[str, _T], investigation: Investigation) -> dict[str, _T]:
    """Return the entries without those anomalies of replicas that were not investigated."""
    unchecked = {str(anomaly) for anomaly in OF_REPLICAS} - set(map(str, investigation.counts))
    return {key: value for key, value in by_anomaly.items() if key not in unchecked}


def fault_kinds() -> dict[str, FaultKind]:
    """Return what stories need to know of each registered fault, by name."""
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


def _faults(run_dir: Path) -> list[FaultReport]:
    return [FaultReport.of_window(row) for row in runs.table_rows(run_dir, "fault_windows")]


def _unclean_election(scenario: Scenario) -> bool:
    given = scenario.topic.unclean_leader_election
    return Profile.of(scenario.kafka).unclean_by_default if given is None else given


def _configuration(scenario: Scenario) -> dict[str, str | int | float | bool]:
    """Return the settings that determine durability, for a run outside a comparison."""
    return {
        "acks": scenario.workload.settings.acks,
        "enable.idempotence": scenario.workload.settings.idempotence,
        "replication_factor": scenario.topic.replication_factor,
        "min.insync.replicas": scenario.topic.min_insync_replicas,
        "unclean.leader.election.enable": _unclean_election(scenario),
    }
