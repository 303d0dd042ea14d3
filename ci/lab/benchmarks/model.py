"""Speed of the reference model's search, and memory for each stored state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ackproof_model.adversary import AdversaryModel, Budgets, search

#: The searched question. ELR replicas survive SIGKILL, so the answer needs the whole space.
QUESTION = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=3, kills=3, shrinks=1))

#: The largest spaces that the docs search to their end; in each, nothing acked can be lost. Beside
#: each a smaller question, whose space can be searched whole, too: without the reductions of
#: `ackproof_model.adversary.successors`.
HARDEST = {
    "3.9.1, three SIGKILLs, two shrinks, one lost session": (
        AdversaryModel(kafka_version="3.9.1", budgets=Budgets(kills=3, shrinks=2, fencings=1)),
        AdversaryModel(kafka_version="3.9.1", budgets=Budgets(kills=1, shrinks=1, fencings=1)),
    ),
    "4.1.0, two SIGKILLs, one shrink, one lost session, two records": (
        AdversaryModel(
            kafka_version="4.1.0", budgets=Budgets(records=2, kills=2, shrinks=1, fencings=1)
        ),
        AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1, shrinks=1, fencings=1)),
    ),
    "4.1.0, three SIGKILLs, one shrink, three records": (
        QUESTION,
        AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=2, kills=2, shrinks=1)),
    ),
    "4.1.0, one power loss, one controlled shutdown, one shrink, two records": (
        AdversaryModel(
            kafka_version="4.1.0",
            budgets=Budgets(records=2, power_losses=1, clean_stops=1, shrinks=1),
        ),
        AdversaryModel(
            kafka_version="4.1.0", budgets=Budgets(power_losses=1, clean_stops=1, shrinks=1)
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionBench:
    """The states of one question with the reductions and without them; the answers are equal."""

    scope: str
    states: int
    whole: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBench:
    """The search by `workers` processes.

    states: number of stored states. seconds: duration with the start of the processes.
    bytes_per_state: peak growth of the processes for each stored state, with caches of the rules
    and messages between processes.
    """

    scope: str
    impossible: bool
    states: int
    seconds: float
    workers: int
    bytes_per_state: float

    @property
    def states_per_s(self) -> float:
        """Stored states per second, of all processes together."""
        return self.states / self.seconds


def bench_model(*, workers: int, question: AdversaryModel = QUESTION) -> ModelBench:
    began = time.perf_counter()
    answer = search(question, workers=workers)
    seconds = time.perf_counter() - began
    return ModelBench(
        scope=answer.scope,
        impossible=answer.impossible,
        states=answer.states,
        seconds=seconds,
        workers=workers,
        bytes_per_state=answer.memory_bytes / answer.states,
    )


def bench_reduction(*, workers: int, question: AdversaryModel) -> ReductionBench:
    """Search a question with the reductions and without them.

    Raises AssertionError if the answers differ.
    """
    answer = search(question, workers=workers)
    whole = search(replace(question, reduction=False), workers=workers)
    same = (answer.lost, answer.complete) == (whole.lost, whole.complete)
    if not same:
        raise AssertionError(f"the reductions change the answer: {answer.scope}")
    return ReductionBench(scope=answer.scope, states=answer.states, whole=whole.states)


def bench_hardest(*, workers: int) -> Iterator[tuple[str, ModelBench, ReductionBench]]:
    """Search the hardest questions, and for each the smaller one."""
    for name, (question, smaller) in HARDEST.items():
        yield (
            name,
            bench_model(workers=workers, question=question),
            bench_reduction(workers=workers, question=smaller),
        )
