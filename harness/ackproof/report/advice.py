"""One line of advice: what to configure, and what it costs in availability and latency.

For a comparison it is drawn from its runs and their predictions. For one run the model is asked
about the same scenario with safer settings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.comparison.summary import Summary
from ackproof.errors import ScenarioError
from ackproof.report import comparison as trials
from ackproof.report import formatting as fmt
from ackproof.report.answer import conclusive, p99_ms, unavailable_ms
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import PredictionReport, Verdict, Word
from ackproof.scenario import loader
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import setting_text
from ackproof_model import Profile

Predict = Callable[[Scenario], PredictionRecord]


def of_runs(verdicts: Sequence[Verdict]) -> str:
    """Return the advice of a comparison with one run, or a few, of each configuration."""
    groups = conclusive(verdicts)
    keeping = {
        name: group
        for name, group in groups.items()
        if not any(verdict.observed.get("lost", 0) for verdict in group)
    }
    losing = {name: group for name, group in groups.items() if name not in keeping}
    if not groups:
        return ""
    if not keeping:
        return "None of these configurations kept every acked record under these faults."

    def preference(name: str) -> tuple[bool, float, float]:
        group = keeping[name]
        return not _proven(group[0]), unavailable_ms(group), p99_ms(group) or math.inf

    best = min(keeping, key=preference)
    why = "it lost nothing here"
    if _proven(keeping[best][0]):
        why += ", and the model finds no way to lose an acked record under these faults"
    others = losing or {name: group for name, group in keeping.items() if name != best}
    if not others:
        return f"Use {best}: {why}."
    other = min(others, key=lambda name: unavailable_ms(others[name]))
    cost = _cost(
        other,
        (unavailable_ms(keeping[best]), unavailable_ms(others[other])),
        (p99_ms(keeping[best]), p99_ms(others[other])),
    )
    return f"Use {best}: {why}. {cost}"


def of_trials(summary: Summary) -> str:
    """Return the advice of a comparison of many trials: its first recommendation, and the cost."""
    recommended = trials.recommendations(summary)
    if not recommended:
        return ""
    best, why = recommended[0]
    if best.losing:
        return "None of these configurations kept every acked record under these faults."
    others = [cell for cell, _ in recommended[1:] if cell.losing] or [
        cell for cell, _ in recommended[1:]
    ]
    line = f"Use {fmt.quoted(best.configuration)} {why.removeprefix('perhaps, ')}."
    if not others:
        return line
    other = min(others, key=trials.unavailable_s)
    latencies = [
        value if math.isfinite(value) else None
        for value in (trials.p99_ms(best), trials.p99_ms(other))
    ]
    cost = _cost(
        fmt.quoted(other.configuration),
        (1000 * trials.unavailable_s(best), 1000 * trials.unavailable_s(other)),
        (latencies[0], latencies[1]),
    )
    return f"{line} {cost}"


def of_run(verdict: Verdict, directory: Path, *, predict: Predict | None = None) -> str:
    """Return the advice of one run.

    It is empty if the run is inconclusive, its cluster not modelled, or its scenario unreadable.
    """
    if verdict.verdict is Word.INCONCLUSIVE or verdict.predicted.get("lost") == "not modelled":
        return ""
    if not verdict.observed.get("lost", 0) and _proven(verdict):
        return (
            "Keep this configuration: the model finds no way to lose an acked record under these "
            f"faults. {_price(verdict)}"
        )
    try:
        scenario = loader.load(directory / "scenario.yaml")[0].scenario
    except ScenarioError:
        return ""
    if scenario.topic.replication_factor == 1:
        return (
            "Give the topic more replicas: with one, no setting keeps a record that its broker "
            "loses. 3 replicas with acks=all and min.insync.replicas=2 are usual."
        )
    safer, changes = safest(scenario)
    if not changes:
        return (
            "acks, min.insync.replicas and unclean.leader.election.enable have their safest values "
            "already: against these faults only other measures help."
        )
    if predict is None:
        from ackproof.prediction import predict as prediction

        predict = prediction.predict

    what = fmt.listing(f"{key}={setting_text(value)}" for key, value in changes.items())
    return _of_model(what, predict(safer))


def _of_model(what: str, record: PredictionRecord) -> str:
    likelihood = record.predicted.get("lost")
    if likelihood == "not modelled":
        return ""
    if likelihood == "impossible":
        return (
            f"Set {what}: with that, the model finds no way to lose an acked record under these "
            f"faults. {_model_price(record.prediction)}"
        )
    return (
        f"Set {what}. That alone is not enough: the model calls a loss {likelihood} under these "
        "faults even so."
    )


def safest(scenario: Scenario) -> tuple[Scenario, Mapping[str, Any]]:
    """Return the scenario with the safest settings of Kafka's for acked records, and the changes.

    That is acks=all, all replicas but one in sync for an ack, and no unclean election.
    """
    changes: dict[str, Any] = {}
    topic, settings = scenario.topic, scenario.workload.settings
    if settings.acks != "all":
        changes["acks"] = "all"
        settings = settings.model_copy(update={"acks": "all"})
    wanted: dict[str, Any] = {}
    if topic.min_insync_replicas < max(topic.replication_factor - 1, 1):
        wanted["min.insync.replicas"] = topic.replication_factor - 1
    unclean = topic.unclean_leader_election
    if Profile.of(scenario.kafka).unclean_by_default if unclean is None else unclean:
        wanted["unclean.leader.election.enable"] = False
    changes |= wanted
    topic = topic.model_copy(update={"settings": {**topic.settings, **wanted}})
    workload = scenario.workload.model_copy(update={"settings": settings})
    topics = {**scenario.topics, scenario.workload.topic: topic}
    return scenario.model_copy(update={"topics": topics, "workload": workload}), changes


def _proven(verdict: Verdict) -> bool:
    return verdict.predicted.get("lost") == "impossible"


def _cost(
    other: str, unavailable: tuple[float, float], p99: tuple[float | None, float | None]
) -> str:
    parts = [
        f"the worst partition acked nothing for {fmt.duration(unavailable[0])} instead of "
        f"{fmt.duration(unavailable[1])}"
    ]
    if p99[0] is not None and p99[1] is not None:
        parts.append(
            f"ack latency at p99 was {fmt.duration(p99[0])} instead of {fmt.duration(p99[1])}"
        )
    return f"Against {other}, {fmt.listing(parts)}."


def _price(verdict: Verdict) -> str:
    latency = verdict.metrics.ack_latency_ms
    if latency is None:  # a producer was slower than the cluster, so neither is the cluster's
        return "What it costs in availability and latency was not observed."
    down = fmt.seconds(verdict.metrics.unavailability_s)
    p99 = fmt.duration(latency.p99)
    return (
        f"It costs: here the worst partition acked nothing for {down}, and ack latency was {p99} "
        "at p99."
    )


def _model_price(record: PredictionReport) -> str:
    parts = record.availability
    price = "It costs: every ack waits for the in-sync replicas"
    for ability, word in (("cannot", "cannot"), ("either", "may not")):
        when = [one.part for one in parts if one.writable == ability]
        if when:
            later = ", and at times after that" if len(when) > 1 else ""
            return f"{price}, and the partition {word} take writes {when[0]}{later}."
    return f"{price}; the partition can be written all the time."
