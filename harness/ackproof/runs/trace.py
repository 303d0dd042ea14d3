"""`trace.json`: the result of trace validation, the steps of the model, what was not checked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Explained(BaseModel):
    """The first `explained` of `total` steps of a log or a partition obey the model's rules.

    `steps` counts them by kind. `mismatch` describes the first step that breaks the rules, or is
    empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    explained: int
    total: int
    steps: dict[str, int]
    mismatch: str = ""


class PartitionTrace(BaseModel):
    """The steps of a partition's replicas (`local`), or why they were `not_checked`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    partition: int
    local: Explained | None = None
    not_checked: str = ""


class TraceRecord(BaseModel):
    """`trace.json`. `controller` is None without a metadata log."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    run_id: str
    kafka_version: str
    controller: Explained | None
    partitions: list[PartitionTrace]

    @property
    def not_checked(self) -> list[str]:
        """The partitions that were not checked, one line for each reason."""
        reasons: dict[str, list[str]] = {}
        for trace in self.partitions:
            if trace.not_checked:
                reasons.setdefault(trace.not_checked, []).append(f"{trace.topic}-{trace.partition}")
        return [f"{', '.join(partitions)}: {reason}" for reason, partitions in reasons.items()]
