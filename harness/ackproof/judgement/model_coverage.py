"""Counts which steps of the model stored runs have shown on real brokers, by Kafka version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ackproof.kafka_versions import numbers
from ackproof.runs.trace import TraceRecord, summed
from ackproof_model.validation.controller_events import EVENTS
from ackproof_model.validation.partition_replay import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The steps of a number of `runs`, counted by kind.

    A key of `controller` is an event and its effect on the leader (``broker fenced: no leader``), a
    key of `replicas` a kind of step or ack.
    """

    runs: int
    controller: dict[str, int]
    replicas: dict[str, int]

    @property
    def unseen_of_controller(self) -> list[str]:
        seen = {step.partition(": ")[0] for step in self.controller}
        return [event for event in EVENTS if event not in seen]

    @property
    def unseen_of_replicas(self) -> list[str]:
        return [kind for kind in KINDS if kind not in self.replicas]


def by_version(records: Iterable[TraceRecord]) -> dict[str, Coverage]:
    """Return the coverage of each version, the oldest first."""
    of_version: dict[str, list[TraceRecord]] = {}
    for record in records:
        of_version.setdefault(record.kafka_version, []).append(record)
    return {version: _of(of_version[version]) for version in sorted(of_version, key=numbers)}


def of_all(coverages: Iterable[Coverage]) -> Coverage:
    """Return the sum of several coverages."""
    coverages = list(coverages)
    return Coverage(
        runs=sum(coverage.runs for coverage in coverages),
        controller=summed(coverage.controller for coverage in coverages),
        replicas=summed(coverage.replicas for coverage in coverages),
    )


def lines(coverage: Coverage) -> Iterator[str]:
    """Yield a line for each step with its count, then a line with the steps that never occurred."""
    for name, counts, unseen in (
        ("controller", coverage.controller, coverage.unseen_of_controller),
        ("replicas", coverage.replicas, coverage.unseen_of_replicas),
    ):
        yield f"{name}:"
        for step, count in counts.items():
            yield f"{count:9,}  {step}"
        if unseen:
            yield f"    never  {', '.join(unseen)}"


def _of(records: list[TraceRecord]) -> Coverage:
    return Coverage(
        runs=len(records),
        controller=summed(record.controller_steps for record in records),
        replicas=summed(record.local_steps for record in records),
    )
