"""Schedules for comparisons of predictions: single faults, drawn ones, those of stored runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from predictions_draw import VERSIONS, draw, scenario_of_one, single_faults
from predictions_page import stored

from ackproof.kafka_versions import has_idempotence
from ackproof.prediction import worst_case
from ackproof.prediction.exact import schedules
from ackproof.prediction.predict import partitions_of, predict
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_model import Configuration, Injection, Likelihood
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.predict import as_read
from ackproof_model.prediction.search import explore

Document = dict[str, Any]
PRODUCERS = (
    {"acks": 0, "enable.idempotence": False},
    {"acks": 1, "enable.idempotence": False},
    {"acks": "all", "enable.idempotence": False},
    {"acks": "all", "enable.idempotence": True},
)
#: Shorter than every timer of the cluster, and longer.
DURATIONS = ("2s", "40s")


def single() -> Iterator[tuple[Document, Document]]:
    """Yield every fault alone, and the same fault in a random block."""
    for kafka in VERSIONS:
        for step in single_faults(kafka):
            for lasts in DURATIONS:
                for settings in PRODUCERS:
                    if settings["enable.idempotence"] and not has_idempotence(kafka):
                        continue
                    begins = step | {"when": "300 acked"}
                    alone = begins | {"heal_after": lasts}
                    times = {"for": "60s", "lasting": ["1s", lasts], "stable": ["1s", "2s"]}
                    block = {"random": [begins], **times}
                    yield (
                        scenario_of_one(alone, kafka, settings),
                        scenario_of_one(block, kafka, settings),
                    )


def drawn(seed: int, folder: Path) -> Scenario:
    return load(draw(seed, VERSIONS, folder))[0].scenario


def of_stored_runs() -> list[Document]:
    return [one["scenario"] for one in stored().values()]


class Searches:
    """Searches of schedules; those alike are searched once. most: the most states of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.ended = 0
        self._found: dict[object, frozenset[str]] = {}

    @property
    def number(self) -> int:
        return len(self._found)

    def anomalies(
        self, configuration: Configuration, schedule: tuple[Injection, ...]
    ) -> frozenset[str]:
        """Return the anomalies of which the search finds a way; all, if it ends."""
        key = as_read(configuration), schedule
        if key not in self._found:
            explored = explore(Model(configuration, schedule), max_states=self.most)
            self.ended += explored.complete
            self._found[key] = frozenset(name for name, n in explored.having.items() if n)
        return self._found[key]


def unexpected(scenario: Scenario, searches: Searches) -> Iterator[str]:
    """Yield what the exact search finds and the worst case of the same schedule excludes."""
    for partition in partitions_of(scenario):
        worst = worst_case.total(scenario, partition)
        answer = worst_case.predict(partition.configuration, worst, "it")
        for schedule in dict.fromkeys(schedules(scenario, partition)):
            for anomaly in sorted(searches.anomalies(partition.configuration, schedule)):
                if answer.likelihood[anomaly] is Likelihood.IMPOSSIBLE:
                    yield f"{anomaly}: {answer.reasons[anomaly]}"


def excluded_in_a_block(alone: Scenario, block: Scenario) -> Iterator[str]:
    """Yield the anomalies that a fault may cause alone, and not as one of a random block.

    Both answers are those of their worst cases, and of what the model leaves out.
    """
    of_one, of_block = (predict(one, max_states=1) for one in (alone, block))
    for anomaly, word in of_one.predicted.items():
        if word != "impossible" and of_block.predicted[anomaly] == "impossible":
            yield f"{anomaly}: {of_block.prediction.reasons[anomaly]}"
