"""`trace.json`: how far the model explains a run, by which steps, and what was not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class Explained(BaseModel):
    """How many steps of a log or a partition fit, from the beginning on, and which kinds they were.

    `mismatch` is the first that does not fit, in words; empty if all do.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    explained: int
    total: int
    steps: dict[str, int]
    mismatch: str = ""


class PartitionTrace(BaseModel):
    """One partition: how far its replicas' steps are explained, or why that was `not_checked`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    partition: int
    local: Explained | None = None
    not_checked: str = ""


class TraceRecord(BaseModel):
    """`trace.json`. `controller` is None where no metadata log was left."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    run_id: str
    kafka_version: str
    controller: Explained | None
    partitions: list[PartitionTrace]

    @property
    def controller_steps(self) -> dict[str, int]:
        """How often each kind of the controller's steps was seen."""
        return {} if self.controller is None else self.controller.steps

    @property
    def local_steps(self) -> dict[str, int]:
        """How often each kind of the replicas' steps was seen, of all partitions."""
        return summed(one.local.steps for one in self.partitions if one.local is not None)

    @property
    def not_checked(self) -> list[str]:
        """What could not be held against the model, and why: a line for each reason."""
        reasons: dict[str, list[str]] = {}
        for one in self.partitions:
            if one.not_checked:
                reasons.setdefault(one.not_checked, []).append(f"{one.topic}-{one.partition}")
        return [f"{', '.join(places)}: {reason}" for reason, places in reasons.items()]


def summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sums of several counts, by name in order."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))
