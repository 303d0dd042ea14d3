"""What keeps a run from being conclusive, and from claiming metrics of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ackproof.judgement.evidence import missing_evidence
from ackproof.runs.directory import RunRecord, table_rows
from ackproof.runs.verdict import FaultReport, Metrics
from ackproof.scenario.model import Expect, Scenario
from ackproof_model.effects import expiring
from ackproof_spark.tables import LOCATION


def claimable(metrics: Metrics, doubts: Sequence[str]) -> Metrics:
    """Return the metrics of the cluster; its latency is unknown if there are doubts.

    That is if a client was the bottleneck, or if the times of the ledger contradict each other.
    """
    return metrics.model_copy(update={"ack_latency_ms": None}) if doubts else metrics


def unclaimed(doubts: Sequence[str]) -> list[str]:
    """Return what doubts about the times keep from being measured."""
    return [f"the cluster's latency and availability, as {', '.join(doubts)}"] if doubts else []


def unknown_fates(observed: Mapping[str, int]) -> list[str]:
    """Return what nobody can tell of sends whose records Kafka has removed on purpose."""
    count = observed.get("removed", 0)
    if not count:
        return []
    return [
        f"whether {count:,} acked sends had been lost before retention or compaction removed them"
    ]


def inconclusive_reasons(
    run_dir: Path,
    scenario: Scenario,
    record: RunRecord,
    *,
    faults: Sequence[FaultReport],
    observed: Mapping[str, int],
    unacked_partitions: Sequence[str],
) -> list[str]:
    """Return everything because of which an anomaly may exist without being observed."""
    application = scenario.workload.application
    # Where they begin was compared with the acked offsets before they were read.
    existing_topics = application is not None and not application.command
    reasons = list(record.troubles)
    reasons += [f"{fault}: {fault.evidence}" for fault in faults if not fault.verified]
    if unseen := observed["unseen"]:
        reasons.append(f"{unseen} acked sends could not be looked up")
    for row in table_rows(run_dir, "partition_ends"):
        name = f"{row['topic']}-{row['partition']}"
        if not row["complete"]:
            reasons.append(f"{name} was not read to its end: {row['reason']}")
        if row["begin_offset"] != 0 and not (existing_topics or _expires(scenario, row["topic"])):
            reasons.append(
                f"{name} begins at offset {row['begin_offset']}: retention or a fault removed the "
                "records before it, which cannot be looked up"
            )
    ledgers = len(list((run_dir / LOCATION["ledger"]).glob("producer-*.parquet")))
    producers = max(
        scenario.producers,
        # Successors of interrupted producers have a specification here, too.
        len(list((run_dir / "clients").glob("producer-*.json"))),
    )
    if scenario.workload.probe:
        producers += len(scenario.written)
        probed = {(row["topic"], row["partition"]) for row in table_rows(run_dir, "probe")}
        reasons += [
            f"the probe recorded nothing of {topic}-{partition}"
            for topic, partition in scenario.written
            if (topic, partition) not in probed
        ]
    if ledgers != producers:
        reasons.append(f"{producers} producers left {ledgers} ledgers")
    reasons += missing_evidence(
        run_dir,
        scenario,
        record,
        faults=faults,
        observed=observed,
        unacked_partitions=unacked_partitions,
    )
    if scenario.expect.availability is not None:
        reasons += unclaimed(record.bottlenecks)
    return reasons


def without_times(expect: Expect, metrics: Metrics, misdated: Sequence[str]) -> list[str]:
    """Return why nothing is known of an availability that is expected, or of a step.

    `misdated`: what is wrong with the times of the ledger.
    """
    reasons = [*misdated] if _expects_times(expect) else []
    if expect.availability is not None and metrics.duration_s <= 0:
        reasons.append(
            "the cluster's availability is unknown: the ledger tells of no time that passed"
        )
    return reasons


def _expects_times(expect: Expect) -> bool:
    shares = (expect.availability, expect.read_availability, expect.write_availability)
    return bool(expect.steps) or any(share is not None for share in shares)


def _expires(scenario: Scenario, topic: str) -> bool:
    """Whether the author has retention remove records of the topic, and expects it."""
    spec = scenario.topics.get(topic)
    return scenario.expect.removed == "some" and spec is not None and any(expiring(spec.settings))
