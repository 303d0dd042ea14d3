"""Predictions for several scenarios, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from ackproof.prediction import replication
from ackproof.runs.directory import PredictionRecord
from ackproof.scenario.model import Scenario


def predict_each(scenarios: Sequence[Scenario]) -> list[PredictionRecord]:
    """Return the prediction for each scenario. Without fork, one process makes all of them."""
    workers = min(len(scenarios), os.cpu_count() or 1)
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [replication.predict(scenario) for scenario in scenarios]
    with ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("fork"),
        initializer=signal.signal,  # Ctrl-C ends the processes without a traceback of each
        initargs=(signal.SIGINT, signal.SIG_DFL),
    ) as pool:
        return list(pool.map(replication.predict, scenarios))
