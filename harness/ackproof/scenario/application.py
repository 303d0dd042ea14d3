"""The key `workload.application`: a program that sends instead of ackproof's producers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field

from ackproof.scenario.types import Problem, StrictModel
from ackproof_faults import Fault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.kinds import ProgressIs
from ackproof_model.effects import Client

#: Keys of `workload` that describe ackproof's own producers.
OF_OUR_PRODUCERS = frozenset(
    {
        *("producers", "rate", "window", "size", "partition", "keys", "records", "may_stop_for"),
        *("transactions", "probe", "beside"),
    }
)


class Application(StrictModel):
    """An application that sends and keeps an acked log (docs/reference/acked-log.md).

    It finds in its environment `ACKPROOF_BOOTSTRAP_SERVERS`, `ACKPROOF_TOPIC`, `ACKPROOF_ACKED`
    (the file that it writes its acked log to) and `ACKPROOF_SETTINGS` (JSON: `workload.settings`
    and the security settings of clients). SIGTERM asks it to end.
    """

    command: list[str] = Field(
        default_factory=list,
        description="program and arguments, started in the current folder; unless a virtual "
        "environment is active, `python` is the one that runs ackproof; empty in a run of "
        "`ackproof check --acked`, where the application has run already",
        examples=[["python", "shop.py"]],
    )
    environment: dict[str, str] = Field(
        default_factory=dict, description="more variables of its environment"
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
    ends_within: Duration = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="how long it may take to end after SIGTERM; then it is killed",
    )

    @property
    def producers(self) -> int:
        """The number of acked logs."""
        return len(self.logs) + bool(self.command)


def application_problems(
    application: Application | None, changed: Iterable[str], faults: Iterable[Fault]
) -> Iterator[Problem]:
    """Yield settings that conflict with an application.

    `changed` are the keys of `workload` that differ from their defaults.
    """
    if application is None:
        return
    for key in sorted(OF_OUR_PRODUCERS & set(changed)):
        yield (
            ("workload", key),
            f"{key} describes ackproof's own producers, and workload.application sends instead: "
            "remove one of them",
        )
    for fault in faults:
        if any(isinstance(one, Client) and one.role == "producer" for one in fault.effects):
            yield (
                ("faults",),
                f"{fault.name!r} acts on ackproof's own producers, and workload.application sends "
                "instead: remove one of them",
            )
        for condition in fault.when.simple:
            if isinstance(condition, ProgressIs) and condition.outcome == "sent":
                yield (
                    ("faults",),
                    f"'{condition}': an acked log counts acks, not sends: use 'acked'",
                )
