"""Predictions, remembered: what the model says of a configuration and a schedule is searched once.

They lie in the cache folder, under a name that is made of the configuration, the schedule and the
model's own source: another version of the model has its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

import ackproof_model as reference_model
from ackproof.cache import cache_dir
from ackproof_model import (
    Configuration,
    Injection,
    Prediction,
    source_digest,
)
from ackproof_model.prediction.predict import MAX_STATES


def predict(
    configuration: Configuration, schedule: Sequence[Injection], *, max_states: int = MAX_STATES
) -> Prediction:
    """Return what `reference_model.predict` says, from the cache if it has been asked before.

    A cache that cannot be read or written is none.
    """
    stored = TypeAdapter(Prediction)
    name = f"{_key(configuration, schedule, max_states)}.json"
    with contextlib.suppress(OSError, ValidationError):
        return stored.validate_json((_folder() / name).read_bytes())
    prediction = reference_model.predict(configuration, schedule, max_states=max_states)
    with contextlib.suppress(OSError):
        partial = _folder() / f"{name}.{os.getpid()}"
        partial.write_bytes(stored.dump_json(prediction))
        partial.replace(_folder() / name)
    return prediction


def _folder() -> Path:
    folder = cache_dir() / "predictions"
    folder.mkdir(exist_ok=True)
    return folder


def _key(configuration: Configuration, schedule: Sequence[Injection], max_states: int) -> str:
    asked = [max_states, asdict(configuration), *map(asdict, schedule)]
    text = json.dumps(asked, sort_keys=True, default=sorted)  # targets are sets
    return hashlib.sha256(f"{source_digest.digest()} {text}".encode()).hexdigest()[:32]
