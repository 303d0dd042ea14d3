"""What retention and compaction may remove of a scenario's records, by their settings and times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ackproof.scenario.model import Scenario
from ackproof.scenario.types import Problem, YamlPath
from ackproof.scenario.workload import Sends, Workload
from ackproof_model.effects import Client, Configures, Skews
from ackproof_model.kafka_settings import CLEANUP_POLICY
from ackproof_model.removal import (
    DAY_S,
    FOR_EVER,
    KEEP_EVERYTHING,
    Records,
    Removal,
    in_force,
    removals,
)

#: The longest time from the last send to the reading of the final log, seconds.
_FINAL_PHASE_S = 3600

#: Bytes that a record takes besides its value: a batch of its own, headers, the longest key.
_OVERHEAD = 200


def removed_by(scenario: Scenario, topic: str) -> list[Removal]:
    """Return the settings by which acked records of a topic may be removed, each once.

    Settings that faults change count with and without the others.
    """
    records = records_of(scenario, topic)
    by_setting = {
        (removal.key, removal.value): removal
        for settings in _settings(scenario, topic)
        for removal in removals(settings, records)
    }
    return list(by_setting.values())


def removes(scenario: Scenario) -> bool:
    """Whether Kafka may remove acked records of a topic that is written to."""
    return any(removed_by(scenario, topic) for topic in scenario.sends)


def counted(scenario: Scenario) -> bool:
    """Whether removed records are predicted and counted.

    They are if a setting limits how long records remain, or if the scenario expects anything.
    """
    return scenario.expect.removed != "any" or any(
        any(removals(settings, FOR_EVER))
        for topic in scenario.sends
        for settings in _settings(scenario, topic)
    )


def _settings(scenario: Scenario, topic: str) -> Iterator[Mapping[str, object]]:
    """Yield the topic's settings: at first, and with what faults change.

    ackproof creates topics that keep everything unless they have settings of their own.
    """
    own = {**KEEP_EVERYTHING, **scenario.topics[topic].settings}
    settings = in_force(scenario.cluster.settings, own)
    yield settings
    changed = [
        {effect.key: effect.value}
        for fault in scenario.every_fault
        for effect in fault.effects
        if isinstance(effect, Configures) and effect.topic == topic
    ]
    for change in changed:
        yield {**settings, **change}
    if len(changed) > 1:
        yield {**settings, **{key: value for change in changed for key, value in change.items()}}


def records_of(scenario: Scenario, topic: str) -> Records:
    """Return how old and how large the records of one partition of a topic can be."""
    sends, workload = scenario.sends[topic], scenario.workload
    limited = scenario.senders.records_are_limited
    misdated: dict[str, float] = {}
    clocks: dict[str, list[float]] = {}
    for fault in scenario.every_fault:
        for effect in fault.effects:
            if isinstance(effect, Client) and effect.action == "misdates":
                misdated[fault.name] = max(-effect.by, misdated.get(fault.name, 0))
            elif isinstance(effect, Skews):
                clocks.setdefault(fault.name, []).append(effect.by)
    most = min(sends.records, sends.rate * workload.seconds) * (sends.size.max + _OVERHEAD)
    steady = limited and not (scenario.every_fault or _compressed(scenario, topic))
    even = scenario.topics[topic].partitions == 1 or sends.partition is not None
    return Records(
        lasts_s=max(DAY_S, workload.seconds + _FINAL_PHASE_S),
        # Without idempotence records may be written again; a probe writes others.
        most_bytes=2 * most if limited and not workload.probe else math.inf,
        misdated_s=max(misdated.values(), default=0) if limited else math.inf,
        misdated_by=f"{', '.join(misdated)} sends old ones"
        if limited
        else f"the {scenario.senders.noun} sets them",
        ahead_s=max((by for each in clocks.values() for by in each if by > 0), default=0),
        behind_s=max((-by for each in clocks.values() for by in each if by < 0), default=0),
        clock_by=f"{', '.join(clocks)} sets clocks wrong",
        steady_s=min(workload.tail / sends.rate, workload.seconds, sends.records / sends.rate)
        if steady and topic == workload.topic
        else 0,
        steady_bytes=sends.rate * sends.size.min if steady and even else 0,
    )


def _compressed(scenario: Scenario, topic: str) -> bool:
    by_topic = str(scenario.topics[topic].settings.get("compression.type", "producer"))
    by_client = {
        str(value)
        for key, value in scenario.sends[topic].client_settings.items()
        if key in ("compression.type", "compression.codec")
    }
    return by_topic not in ("producer", "uncompressed") or bool(by_client - {"none"})


def removal_problems(scenario: Scenario) -> Iterator[Problem]:
    """Yield settings of a workload's topic that remove acked records which must not be lost."""
    loss = scenario.expect.loss
    for name, sends in scenario.sends.items():
        if name not in scenario.topics:
            continue
        path: YamlPath = ("topics", name, "settings")
        if scenario.topics[name].compacted:
            for lack in _unjudgeable_compaction(sends, scenario.workload):
                yield (
                    (*path, CLEANUP_POLICY),
                    "compaction removes acked records, and a topic of the workload cannot be "
                    f"compacted {lack}, or set it to delete",
                )
        for removal in removed_by(scenario, name) if loss != "any" else ():
            own = removal.key in scenario.topics[name].settings
            if own and removal.of_head and not removal.of_time:
                yield (
                    (*path, removal.key),
                    f"{removal.reason}, and expect.loss is {loss}: remove the setting, or write "
                    "expect: {loss: any}",
                )


def removal_warnings(scenario: Scenario) -> Iterator[Problem]:
    """Yield settings that remove acked records because of wrong timestamps or clocks."""
    for name in scenario.sends:
        for removal in removed_by(scenario, name):
            if removal.of_time:
                yield ("topics", name, "settings", removal.key), removal.reason


def _unjudgeable_compaction(sends: Sends, workload: Workload) -> Iterator[str]:
    """Yield why compacted records cannot be distinguished from lost ones, and what to do."""
    if sends.keys is None:
        yield "unless each record has a key that is known: set workload.keys"
    if sends.settings.acks == "0":
        yield "with acks: 0, because the producer then gets no offsets: use another value"
    if workload.consumers or workload.probe:
        yield "under consumers or a probe, which may come too late for a record: remove them"
    if workload.transactions is not None:
        yield "under transactions, whose markers are records without a key: remove them"
