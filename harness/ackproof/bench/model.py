"""How fast the reference model's search goes, and how much memory a stored state takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ackproof_model.adversary import AdversaryModel, Budgets, search

#: What is searched: eligible replicas survive SIGKILL, so that all of it has to be.
QUESTION = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=3, kills=3, shrinks=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBench:
    """What was measured.

    states: how many were stored. seconds: how long `workers` processes took, their start included.
    bytes_per_state: by how much the processes grew at most, for each stored state: what the rules
    did is remembered in it, and what was on its way between processes.
    """

    bounds: str
    impossible: bool
    states: int
    seconds: float
    workers: int
    bytes_per_state: float

    @property
    def states_per_s(self) -> float:
        """How many states were stored a second, by all processes together."""
        return self.states / self.seconds


def bench_model(*, workers: int, question: AdversaryModel = QUESTION) -> ModelBench:
    """Search `question` in so many processes of their own."""
    began = time.perf_counter()
    answer = search(question, workers=workers)
    seconds = time.perf_counter() - began
    return ModelBench(
        bounds=answer.bounds,
        impossible=answer.impossible,
        states=answer.states,
        seconds=seconds,
        workers=workers,
        bytes_per_state=answer.memory_bytes / answer.states,
    )
