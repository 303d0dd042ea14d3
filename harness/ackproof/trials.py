"""Trials: the runs of one `compare` or `shrink`, and the store from which it resumes.

``runs/<utc>-<scenario>-<kind>/`` has ``plan.json`` (the options of the command) and
``trials.jsonl`` (one line for each finished trial). An interrupted trial has no line; the resumed
command runs it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ackproof.errors import AckproofError, DiskError
from ackproof.progress import Reporter
from ackproof.runs.directory import TRIALS, append_line, read_lines
from ackproof.runs.verdict import Record, Verdict
from ackproof.scenario.loader import Configured

if TYPE_CHECKING:
    from docker import DockerClient

    from ackproof.cluster.pool import ClusterPool


class RunTrial(Protocol):
    """Runs one configuration and returns its run directory and verdict; `then` runs next."""

    def __call__(
        self, configured: Configured, /, *, then: Configured | None = None
    ) -> tuple[Path, Verdict]: ...


#: After this many consecutive failures a configuration or candidate is given up.
GIVE_UP_AFTER = 2


class Trial(Record):
    """A finished trial: the id of its run, or the error."""

    run_id: str | None = None
    error: str = ""
    seconds: float


PlanT = TypeVar("PlanT", bound=Record)
TrialT = TypeVar("TrialT", bound=Trial)


@dataclass(kw_only=True)
class TrialStore(Generic[PlanT, TrialT]):
    """The plan and the finished trials of one command, in memory and in its directory."""

    directory: Path
    plan: PlanT
    trials: list[TrialT] = field(default_factory=list)

    def add(self, trial: TrialT) -> None:
        self.trials.append(trial)
        append_line(self.directory / TRIALS, trial)


def read_trials(directory: Path, kind: type[TrialT]) -> list[TrialT]:
    """Raise RunDirectoryError if a line is damaged; remove an incomplete last line."""
    return read_lines(directory / TRIALS, kind)


def attempt(
    run_trial: Callable[[Configured], tuple[Path, Verdict]], configured: Configured
) -> tuple[tuple[Path, Verdict] | AckproofError, float]:
    """Run a trial; return its run directory and verdict, or its error, and the seconds it took.

    Raises DiskError, because later trials could not be stored.
    """
    began = time.monotonic()
    try:
        result: tuple[Path, Verdict] | AckproofError = run_trial(configured)
    except DiskError:
        raise
    except AckproofError as error:
        result = error
    return result, time.monotonic() - began


def on_clusters(
    *,
    out: Path,
    client: DockerClient | None,
    reporter: Reporter,
    pool: ClusterPool | None = None,
) -> RunTrial:
    """Return a function that runs trials; without `pool` each trial boots its own cluster."""
    from ackproof.execution.runner import run

    return partial(run, out=out, client=client, reporter=reporter, pool=pool)
