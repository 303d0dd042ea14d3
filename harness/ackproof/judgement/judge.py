"""From what was recorded to a verdict; needs the run directory, Spark, and no cluster.

Observed against `expect` gives the verdict. Observed against the prediction gives findings. A
violation that was seen is definite, whatever else went wrong; that something was *not* seen
counts only if nothing kept us from seeing it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ackproof.errors import RunDirectoryError
from ackproof.judgement import reader_disagreement, trace_validation
from ackproof.runs import directory as runs
from ackproof.runs.verdict import (
    CauseReport,
    Expectation,
    FaultReport,
    Finding,
    Metrics,
    Outlook,
    Verdict,
    Word,
)
from ackproof.scenario.loader import load
from ackproof.scenario.model import Expect, Scenario
from ackproof_spark.forensics.cases import TITLES, Settings
from ackproof_spark.tables import (
    ANOMALIES,
    CAUSES,
    LEDGER,
    LOCATION,
    OF_CLIENTS,
    OF_CONSUMERS,
    OF_REPLICAS,
    OF_TRANSACTIONS,
    PREDICTED,
    Anomaly,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ackproof_spark.forensics.causes import Cause
    from ackproof_spark.forensics.investigation import Investigation

_T = TypeVar("_T")

#: Which anomaly each line of `expect` speaks of.
_WISHES = {
    "loss": "lost",
    "duplicates": "duplicated",
    "reordered": "reordered",
    "phantom": "phantom",
    "corrupt": "corrupt",
    "aborted_read": "aborted-read",
    "zombie_commit": "zombie-commit",
    "unprocessed": "unprocessed",
    "reprocessed": "reprocessed",
}


def judge(spark: SparkSession, run_dir: Path) -> Verdict:
    """Compare the ledger with the final log, weigh the result; write `verdict.json`, `trace.json`.

    Raises RunDirectoryError if the directory is not one, or is damaged.
    """
    from ackproof_spark.checks.comparison import compare
    from ackproof_spark.forensics.investigation import investigate
    from ackproof_spark.metrics import metrics

    record = runs.read_record(run_dir)
    prediction = runs.read_prediction(run_dir)
    scenario = load(run_dir / "scenario.yaml")[0].scenario
    faults = _faults(run_dir)
    result = compare(spark, run_dir)
    observed = {
        "sent": result.sent,
        "acked": result.acked,
        "failed": result.failed,
        "unknown": result.unknown,
        **({"aborted": result.aborted} if scenario.workload.transactions else {}),
        **{str(anomaly): count for anomaly, count in result.counts.items()},
    }
    investigation = investigate(
        spark,
        run_dir,
        lost=observed["lost"],
        settings=_promises(scenario),
        compacted=scenario.topic.compacted,
    )
    predicted = _looked_for(prediction.predicted, investigation)
    observed = _looked_for(observed, investigation)
    for anomaly in _not_looked_for(scenario):
        observed.pop(anomaly, None)
    observed |= {str(anomaly): count for anomaly, count in investigation.counts.items()}
    causes = _causes(run_dir, record.run_id, investigation.causes)
    measured = claimable(Metrics.model_validate(metrics(spark, run_dir)), record.bottlenecks)
    unobserved = [*record.unobserved, *_unclaimed(record.bottlenecks)]
    disputed = reader_disagreement.read(run_dir)
    producers = sum(sends.producers for sends in scenario.sends.values())
    doubts = _doubts(record.troubles, observed, faults, run_dir, producers)
    doubts += disputed.doubts
    if scenario.expect.availability is not None:
        doubts += _unclaimed(record.bottlenecks)
    expectations = weigh(scenario.expect, observed, measured)
    undisputed = weigh(scenario.expect, disputed.undisputed(run_dir, observed), measured)
    word, reason = conclude(expectations, doubts, undisputed=undisputed)
    traced = trace_validation.validate(run_dir, scenario, record)
    runs.write_model(run_dir / "trace.json", traced)
    verdict = Verdict(
        run_id=record.run_id,
        scenario=scenario.name,
        configuration_name=record.configuration_name,
        seed=scenario.seed,
        kafka_version=scenario.kafka,
        image=record.image,
        started_at=record.started_at,
        finished_at=record.finished_at,
        verdict=word,
        reason=_with_unobserved(reason, unobserved),
        unobserved=unobserved,
        observed=observed,
        by_topic=_by_topic(spark, run_dir, scenario),
        predicted=predicted,
        prediction=prediction.prediction,
        findings=[
            *find(predicted, observed, conclusive=not doubts),
            *disputed.findings,
            *trace_validation.findings(traced),
        ],
        not_checked=traced.not_checked,
        causes=causes,
        expectations=expectations,
        faults=faults,
        metrics=measured,
        readers=record.readers,
        configuration=record.configuration or _settings(scenario),
    )
    runs.write_model(run_dir / "verdict.json", verdict)
    return verdict


def _with_unobserved(reason: str, unobserved: Sequence[str]) -> str:
    return f"{reason}; not observed: {', '.join(unobserved)}" if unobserved else reason


def claimable(measured: Metrics, bottlenecks: Sequence[str]) -> Metrics:
    """Return what may be said of the cluster's speed: no latency if clients set the pace."""
    return measured.model_copy(update={"ack_latency_ms": None}) if bottlenecks else measured


def _unclaimed(bottlenecks: Sequence[str]) -> list[str]:
    if not bottlenecks:
        return []
    return [f"the cluster's latency and availability, as {', '.join(bottlenecks)}"]


def wished(scenario: Scenario) -> dict[str, str]:
    """Return what a scenario's author wants, by the key of `expect`; no wish that cannot fail."""
    missing = _not_looked_for(scenario)
    wishes = {
        what: getattr(scenario.expect, what)
        for what, anomaly in _WISHES.items()
        if anomaly not in missing
    }
    return {what: wanted for what, wanted in wishes.items() if wanted != "any"} | (
        {"availability": scenario.expect.availability} if scenario.expect.availability else {}
    )


def weigh(expect: Expect, observed: Mapping[str, int], metrics: Metrics) -> list[Expectation]:
    """Return every wish of the scenario's author with what was observed."""
    lines = []
    for what, anomaly in _WISHES.items():
        if anomaly in OF_CLIENTS and anomaly not in observed:
            continue  # a scenario without such clients
        wanted = getattr(expect, what)
        count = observed.get(anomaly, 0)
        met = wanted == "any" or (count == 0) == (wanted == "none")
        lines.append(Expectation(what=what, wanted=wanted, observed=str(count), met=met))
    if expect.availability is not None:
        lines.append(_availability(expect.availability, metrics))
    return lines


def conclude(
    expectations: Sequence[Expectation],
    doubts: Sequence[str],
    *,
    undisputed: Sequence[Expectation] | None = None,
) -> tuple[Word, str]:
    """Return the verdict and its reason in words.

    `undisputed` are the same wishes, held against what all readers agree about: only that counts
    as seen.
    """
    broken = [line for line in expectations if not line.met]
    agreed = expectations if undisputed is None else undisputed
    seen = [line for line in agreed if not line.met and line.wanted == "none"]
    if seen:
        return Word.VIOLATED, "; ".join(
            f"{line.observed} {_WISHES[line.what]}, none expected" for line in seen
        )
    if doubts:
        return Word.INCONCLUSIVE, "; ".join(doubts)
    if broken:
        return Word.VIOLATED, "; ".join(
            f"{line.what}: {line.observed} observed, {line.wanted} expected" for line in broken
        )
    wishes = [
        f"{line.what} {line.wanted} (observed {line.observed})"
        for line in expectations
        if line.wanted != "any"
    ]
    return Word.HOLDS, "as expected: " + ", ".join(wishes)


def find(
    predicted: Mapping[str, Outlook], observed: Mapping[str, int], *, conclusive: bool
) -> list[Finding]:
    """Return where model and observation disagree.

    An anomaly that was seen although impossible is always a finding. That one was not seen
    although certain is a finding only if the run is conclusive: the prediction assumes that the
    schedule took place.
    """
    findings = []
    for anomaly in map(str, (*PREDICTED, *OF_CLIENTS)):
        if anomaly not in predicted:  # not looked for, or unknown to the ackproof that predicted
            continue
        outlook, count = predicted[anomaly], observed.get(anomaly, 0)
        if outlook == "impossible" and count > 0:
            explanation = f"the model has no path to this, yet {count} were observed"
        elif outlook == "certain" and count == 0 and conclusive:
            explanation = "every path of the model leads to this, yet none was observed"
        else:
            continue
        findings.append(
            Finding(anomaly=anomaly, predicted=outlook, observed=count, explanation=explanation)
        )
    return findings


def _doubts(
    troubles: Sequence[str],
    observed: Mapping[str, int],
    faults: Sequence[FaultReport],
    run_dir: Path,
    producers: int,
) -> list[str]:
    """Return everything that keeps "not seen" from meaning "not there"."""
    doubts = list(troubles)
    doubts += [f"{f.fault} of {f.target}: {f.evidence}" for f in faults if not f.verified]
    if observed["unseen"]:
        doubts.append(f"{observed['unseen']} acked sends could not be looked up")
    for row in _rows(run_dir, "partition_ends"):
        place = f"{row['topic']}-{row['partition']}"
        if not row["complete"]:
            doubts.append(f"{place} was not read to its end: {row['reason']}")
        if row["begin_offset"] != 0:
            doubts.append(
                f"{place} begins at offset {row['begin_offset']}: what stood before it was "
                "removed, by retention or by a fault, and cannot be looked up"
            )
    ledgers = len(list((run_dir / LOCATION["ledger"]).glob("producer-*.parquet")))
    # Successors of producers that were interrupted are among those that were started.
    producers = max(producers, len(list((run_dir / "clients").glob("producer-*.json"))))
    if ledgers != producers:
        doubts.append(f"{producers} producers left {ledgers} ledgers")
    if observed["acked"] == 0:
        doubts.append("nothing was acked, so nothing could be lost")
    return doubts


def _promises(scenario: Scenario) -> dict[str, Settings]:
    """Return by topic what its records were promised."""
    return {
        topic: Settings(
            acks=sends.settings.acks,
            min_insync_replicas=scenario.topics[topic].min_insync_replicas,
            kafka_version=scenario.kafka,
        )
        for topic, sends in scenario.sends.items()
    }


def _by_topic(spark: SparkSession, run_dir: Path, scenario: Scenario) -> dict[str, dict[str, int]]:
    """Return what was observed of each topic; nothing if there is only one.

    Anomalies are those that are named by topic, and occurred.
    """
    from ackproof_spark.reading.run_tables import read_table

    if len(scenario.sends) == 1:
        return {}
    outcomes = read_table(spark, run_dir, "ledger", LEDGER).groupBy("topic", "outcome").count()
    anomalies = (
        read_table(spark, run_dir, "anomalies", ANOMALIES).groupBy("topic", "anomaly").count()
    )
    found = {topic: {"sent": 0} for topic in scenario.sends}
    for topic, outcome, count in outcomes.collect():
        found[topic]["sent"] += count
        found[topic][outcome] = count
    for topic, anomaly, count in anomalies.collect():
        if topic in found:
            found[topic][anomaly] = count
    return found


def _looked_for(table: Mapping[str, _T], investigation: Investigation) -> dict[str, _T]:
    """Return the entries of a table of anomalies without those that could not be looked for."""
    missing = {str(anomaly) for anomaly in OF_REPLICAS} - set(map(str, investigation.counts))
    return {key: value for key, value in table.items() if key not in missing}


def _not_looked_for(scenario: Scenario) -> list[str]:
    """Return the anomalies of clients that this scenario does not have."""
    missing: list[Anomaly] = []
    if scenario.workload.transactions is None:
        missing += OF_TRANSACTIONS
    if not scenario.workload.consumers:
        missing += OF_CONSUMERS
    return [str(anomaly) for anomaly in missing]


def _causes(run_dir: Path, run_id: str, causes: Sequence[Cause]) -> list[CauseReport]:
    """Write the run's `causes` and return them."""
    rows = [asdict(cause) for cause in causes]
    runs.write_table(run_dir / LOCATION["causes"], CAUSES, run_id, rows)
    return [CauseReport(title=TITLES[cause.case], **asdict(cause)) for cause in causes]


def _faults(run_dir: Path) -> list[FaultReport]:
    names = set(FaultReport.model_fields)
    return [
        FaultReport.model_validate({key: row[key] for key in row if key in names})
        for row in _rows(run_dir, "fault_windows")
    ]


def _rows(run_dir: Path, table: str) -> list[dict[str, object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run_dir / LOCATION[table]
    try:
        return pq.read_table(path).to_pylist() if path.exists() else []
    except pa.ArrowException as error:
        raise RunDirectoryError(f"{path} is damaged or cut short: {error}") from None


def _availability(wanted: str, metrics: Metrics) -> Expectation:
    match = re.fullmatch(r"(>=?) ?([0-9.]+) ?%", wanted)
    assert match is not None  # the scenario's schema says so
    share = 100.0
    if metrics.duration_s > 0:
        share = 100 * (1 - metrics.unavailability_s / metrics.duration_s)
    bound = float(match[2])
    met = share >= bound if match[1] == ">=" else share > bound
    return Expectation(what="availability", wanted=wanted, observed=f"{share:.2f} %", met=met)


def _settings(scenario: Scenario) -> dict[str, str | int | float | bool]:
    """Return the settings that durability hangs on, for a run that is no comparison."""
    return {
        "acks": scenario.workload.settings.acks,
        "enable.idempotence": scenario.workload.settings.idempotence,
        "replication_factor": scenario.topic.replication_factor,
        "min.insync.replicas": scenario.topic.min_insync_replicas,
        "unclean.leader.election.enable": scenario.topic.unclean_leader_election,
    }
