"""The keys `application`: programs of the user that run instead of ackproof's own clients."""

from __future__ import annotations

from pydantic import Field

from ackproof.scenario.types import StrictModel
from ackproof_faults.conditions.durations import Duration


class Program(StrictModel):
    """A program that ackproof starts, and asks to end with SIGTERM."""

    command: list[str]
    environment: dict[str, str] = Field(
        default_factory=dict, description="more variables of its environment"
    )
    ends_within: Duration = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="how long it may take to end after SIGTERM; then it is killed",
    )


class Application(Program):
    """An application that sends and keeps an acked log (docs/reference/acked-log.md).

    It finds in its environment `ACKPROOF_BOOTSTRAP_SERVERS`, `ACKPROOF_TOPIC`, `ACKPROOF_ACKED`
    (the file that it writes its acked log to) and `ACKPROOF_SETTINGS` (JSON: `workload.settings`
    and the security settings of clients). SIGTERM asks it to end.
    """

    command: list[str] = Field(
        default_factory=list,
        description="program and arguments, started in the current folder; unless a virtual "
        "environment is active, `python` is the one that runs ackproof; empty in a run of "
        "`ackproof check FILE`, where the application has run already",
        examples=[["python", "shop.py"]],
    )
    logs: list[str] = Field(
        default_factory=list,
        description="more acked logs that it writes; with an empty command, all of them",
    )
    header: str = Field(
        default="ackproof-id",
        min_length=1,
        description="the header that holds a record's id, if acked logs have ids",
    )

    @property
    def producers(self) -> int:
        """The number of acked logs."""
        return len(self.logs) + bool(self.command)


class ShareWorker(Program):
    """The program of a share group's member, which keeps a delivery log.

    docs/reference/delivery-log.md has the log. The program finds in its environment
    `ACKPROOF_BOOTSTRAP_SERVERS`, `ACKPROOF_TOPIC`, `ACKPROOF_GROUP`, `ACKPROOF_DELIVERIES` (the
    file that it writes its log to) and `ACKPROOF_SETTINGS` (JSON: the group's `settings` and the
    security settings of clients). SIGTERM asks it to end.
    """

    command: list[str] = Field(
        min_length=1,
        description="program and arguments, started in the current folder, once for each member; "
        "`python` as in workload.application",
        examples=[["python", "worker.py"]],
    )
