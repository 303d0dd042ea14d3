"""Which steps of the model have been seen on real brokers, by Kafka version, over stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ackproof.kafka_versions import numbers
from ackproof.runs.trace import TraceRecord, summed
from ackproof_model.validation.controller_events import EVENTS
from ackproof_model.validation.partition_replay import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The steps that were seen in the `runs` of one version, or of all: how often each.

    `controller`: its event and what became of the leader; `replicas`: steps of replicas, and acks.
    """

    runs: int
    controller: dict[str, int]
    replicas: dict[str, int]

    @property
    def unseen_of_controller(self) -> list[str]:
        """The events of a controller that never changed a partition."""
        seen = {step.partition(": ")[0] for step in self.controller}
        return [event for event in EVENTS if event not in seen]

    @property
    def unseen_of_replicas(self) -> list[str]:
        """The kinds of steps that no replica took."""
        return [kind for kind in KINDS if kind not in self.replicas]


def by_version(records: Iterable[TraceRecord]) -> dict[str, Coverage]:
    """Return what was seen of each version, the oldest first."""
    of_version: dict[str, list[TraceRecord]] = {}
    for record in records:
        of_version.setdefault(record.kafka_version, []).append(record)
    return {version: _of(of_version[version]) for version in sorted(of_version, key=numbers)}


def of_all(found: Iterable[Coverage]) -> Coverage:
    """Return what was seen of any of several."""
    every = list(found)
    return Coverage(
        runs=sum(one.runs for one in every),
        controller=summed(one.controller for one in every),
        replicas=summed(one.replicas for one in every),
    )


def lines(coverage: Coverage) -> Iterator[str]:
    """Yield a line for each step, how often it was taken before it; then those never seen."""
    for name, seen, unseen in (
        ("controller", coverage.controller, coverage.unseen_of_controller),
        ("replicas", coverage.replicas, coverage.unseen_of_replicas),
    ):
        yield f"{name}:"
        for step, count in seen.items():
            yield f"{count:9,}  {step}"
        if unseen:
            yield f"    never  {', '.join(unseen)}"


def _of(records: list[TraceRecord]) -> Coverage:
    return Coverage(
        runs=len(records),
        controller=summed(record.controller_steps for record in records),
        replicas=summed(record.local_steps for record in records),
    )
