"""The folder of an exploration: several processes add to it, each with a seed of its own.

::

    exploration.json    the scenario, its model and its budgets: one folder has one denominator
    ways.json           the planner's schedules, searched again if the model has changed
    ways-N.json         those of earlier models, which earlier proposals came from
    results/            one file for each run; none is ever changed
    findings/           for each kind of finding the smallest scenario that shows it
    runs/               run directories of what was found, of what was new, and of what failed
    seeds/              locks, so that no two processes use the same seed

Every file is written beside its name and renamed, so that another process reads it whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, RootModel, ValidationError

from ackproof import safe_files
from ackproof.errors import RunDirectoryError, ScenarioError
from ackproof.exploration.guarantee import survivable
from ackproof.exploration.next_schedule import Ways
from ackproof.exploration.results import Result, counts
from ackproof.runs.directory import MOST_BYTES, disk_errors, write_model
from ackproof.runs.verdict import Record
from ackproof.scenario.loader import dump
from ackproof.scenario.model import Scenario
from ackproof_model import source_digest
from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.coverage import Reached
from ackproof_model.planning import (
    OperationKind,
    Operations,
    plans_to,
    realized,
    shortest_divergence,
)

_M = TypeVar("_M", bound=BaseModel)

#: The file that says what a folder explores.
EXPLORATION = "exploration.json"


class Exploration(Record):
    """`exploration.json`: what the folder explores.

    model: the fields of `AdversaryModel` without its budgets. limits: these, with `in_all`; a limit
    above `in_all` is the same as `in_all`. transactions, log_dirs: what no pair depends on, and
    what is lost may.
    """

    version: Literal[1] = 1
    scenario: str
    model: dict[str, Any]
    limits: dict[str, int]
    transactions: bool = False
    log_dirs: int = 1

    @classmethod
    def of(cls, scenario: Scenario, model: AdversaryModel) -> Exploration:
        budgets = model.budgets
        fields = json.loads(json.dumps(asdict(model)))
        del fields["budgets"]
        limits = {
            kind: min(number, budgets.perturbations)
            for kind, number in zip(budgets.KINDS, budgets.of_kinds, strict=True)
        }
        limits["in_all"] = budgets.perturbations
        return cls(
            scenario=scenario.name,
            model=fields,
            limits=limits,
            transactions=scenario.workload.transactions is not None,
            log_dirs=scenario.cluster.log_dirs,
        )

    def asked(self) -> AdversaryModel:
        """Return the model with its budgets. Raises TypeError for one of another version."""
        targets = tuple(map(tuple, self.model.get("targets", ())))
        limits: dict[str, Any] = {**self.limits}
        return AdversaryModel(**{**self.model, "targets": targets, "budgets": Budgets(**limits)})

    def other_than(self, asked: Exploration) -> list[str]:
        """Return each difference to what is asked, with both values."""
        own, theirs = (
            {**one.model_dump(exclude={"model", "limits"}), **one.model, **one.limits}
            for one in (self, asked)
        )
        return [
            f"{key} is {own.get(key)}, not {theirs.get(key)}"
            for key in own | theirs
            if own.get(key) != theirs.get(key)
        ]


class _Searched(Record):
    """`ways.json`: the planner's schedules.

    by: the digest of the model that found them (`_digest`). known: how many results of each seed
    were stored then; later proposals come from these schedules.
    """

    by: str
    known: dict[int, int]
    schedules: list[Operations]


class _Ways(RootModel[_Searched | list[Operations]]):
    """`ways.json`; at first it had only schedules."""

    @property
    def by(self) -> str:
        return self.root.by if isinstance(self.root, _Searched) else ""

    @property
    def schedules(self) -> list[Operations]:
        return self.root.schedules if isinstance(self.root, _Searched) else self.root


class Folder:
    """An exploration's folder. Raises DiskError wherever it cannot be written."""

    def __init__(self, path: Path, exploration: Exploration) -> None:
        self.path = path
        self.exploration = exploration
        self.runs = path / "runs"
        self._results: dict[str, Result] = {}

    @classmethod
    def stored(cls, path: Path) -> Folder:
        """Return a folder as it is. Raises RunDirectoryError if it is damaged."""
        return cls(path, _read(path / EXPLORATION, Exploration))

    @property
    def begun(self) -> bool:
        return (self.path / EXPLORATION).exists()

    def open(self) -> None:
        """Create the folder, or check that it explores the same.

        Raises ScenarioError if it explores something else, RunDirectoryError if it is damaged.
        """
        if not self.begun:
            with disk_errors(self.path):
                for folder in ("results", "runs", "seeds"):
                    (self.path / folder).mkdir(parents=True, exist_ok=True)
            with self._locked("opening") as _:
                if not self.begun:
                    write_model(self.path / EXPLORATION, self.exploration)
        stored = _read(self.path / EXPLORATION, Exploration)
        if different := stored.other_than(self.exploration):
            raise ScenarioError(
                f"{self.path} explores something else: {'; '.join(different)}",
                hint="Name another folder with --out, or explore the same scenario within the "
                "same limits.",
            )

    def ways(
        self,
        everything: Reached,
        say: Callable[[str], None],
        holds: Sequence[OperationKind] = (),
    ) -> Ways:
        """Return the planner's schedules to the pairs of the model.

        They are searched once, and again if the model has changed. holds: the operations that hold
        requests of transactions, if there are any.
        """
        path, by = self.path / "ways.json", _digest(everything.model)
        if not _found_by(path, by):
            say(f"planning schedules{' again, by this model' if path.exists() else ''}")
            schedules = _planned(everything)
            with self._locked("opening"):
                if not _found_by(path, by):
                    if path.exists():
                        number = len([*self.path.glob("ways-*.json")])
                        path.rename(self.path / f"ways-{number}.json")
                    found = _Searched(by=by, known=counts(self.results()), schedules=schedules)
                    write_model(path, found, indent=None)
        return Ways.of(everything.model, _read(path, _Ways).schedules, holds)

    def results(self) -> Mapping[str, Result]:
        """Return every result that is stored now, by name.

        Raises RunDirectoryError if one is damaged, or of another version.
        """
        for path in (self.path / "results").glob("*.json"):
            if path.stem not in self._results:
                self._results[path.stem] = _read(path, Result)
        self._results = dict(sorted(self._results.items()))
        return self._results

    def add(self, result: Result) -> None:
        write_model(self.path / "results" / f"{result.name}.json", result, indent=None)

    def write_finding(self, scenario: Scenario) -> None:
        path = self.path / "findings" / f"{scenario.name}.yaml"
        with disk_errors(self.path):
            path.parent.mkdir(exist_ok=True)
            with safe_files.replacing(path) as new:
                dump(scenario, new, defaults=False)

    @contextmanager
    def seed(self, asked: int | None, *, first: int) -> Iterator[int]:
        """Hold a seed while this process uses it; without one asked, the first that is free.

        Raises ScenarioError if another process uses the seed.
        """
        for seed in [asked] if asked is not None else count(first):
            try:
                with self._locked(str(seed), wait=False):
                    yield seed
                    return
            except BlockingIOError:
                if asked is not None:
                    raise ScenarioError(
                        f"another process explores {self.path} with --seed {seed}",
                        hint="Name another seed, or none: then the first is used that is free.",
                    ) from None

    @contextmanager
    def _locked(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold a lock of the folder; the system releases it when the process ends."""
        with disk_errors(self.path):
            file = (self.path / "seeds" / f"{name}.lock").open("a")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield


def _digest(model: AdversaryModel) -> str:
    """Return the digest of what the planner's schedules depend on."""
    asked = f"{source_digest.digest()} {survivable(model)}"
    return hashlib.sha256(asked.encode()).hexdigest()


def _found_by(path: Path, digest: str) -> bool:
    return path.exists() and _read(path, _Ways).by == digest


def _planned(everything: Reached) -> list[Operations]:
    """Return the schedules to all pairs, and those that may break a promise of Kafka."""
    plans = [*plans_to(everything.model, everything.pairs).values()]
    answer = search(survivable(everything.model))
    losses = [realized(answer) if answer.lost else None]
    losses.append(shortest_divergence(everything.model))
    plans += [plan for plan in losses if plan is not None]
    return sorted({plan.operations for plan in plans}, key=str)


def _read(path: Path, model: type[_M]) -> _M:
    try:
        return model.model_validate_json(safe_files.read(path, most=MOST_BYTES))
    except (OSError, ValidationError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise RunDirectoryError(
            f"{path} is damaged, or of another version of ackproof: {problem}",
            hint="Explore with the ackproof that wrote it, or name another folder with --out.",
        ) from None
