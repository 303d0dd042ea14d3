"""Cached predictions: the model searches each configuration and schedule only once.

The name of a file is a hash of what the search reads of the configuration, the schedule, and the
model's source, so a changed model does not use old predictions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

import ackproof_model
from ackproof.machine import cache_dir, exclusive
from ackproof_model import (
    Configuration,
    Injection,
    Prediction,
    source_digest,
)
from ackproof_model.prediction.predict import MAX_STATES, as_read

_PREDICTION = TypeAdapter(Prediction)


def predict(
    configuration: Configuration, schedule: Sequence[Injection], *, max_states: int = MAX_STATES
) -> Prediction:
    """Return what `ackproof_model.predict` returns, from the cache if possible.

    Processes that need the same prediction wait for the first. A cache that cannot be read or
    written is ignored.
    """
    name = f"{_key(configuration, schedule, max_states)}.json"
    if (known := _stored(name)) is not None:
        return known
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(exclusive(f"predictions-{name[:2]}"))
        if (known := _stored(name)) is not None:
            return known
        prediction = ackproof_model.predict(configuration, schedule, max_states=max_states)
        with contextlib.suppress(OSError):
            partial = _folder() / f"{name}.{os.getpid()}"
            partial.write_bytes(_PREDICTION.dump_json(prediction))
            partial.replace(_folder() / name)
        return prediction


def _stored(name: str) -> Prediction | None:
    with contextlib.suppress(OSError, ValidationError):
        return _PREDICTION.validate_json((_folder() / name).read_bytes())
    return None


def _folder() -> Path:
    folder = cache_dir() / "predictions"
    folder.mkdir(exist_ok=True)
    return folder


def _key(configuration: Configuration, schedule: Sequence[Injection], max_states: int) -> str:
    text = json.dumps(_plain([max_states, as_read(configuration), *schedule]))
    return hashlib.sha256(f"{source_digest.digest()} {text}".encode()).hexdigest()[:32]


def _plain(value: object) -> object:
    """Return a value as JSON, with type names: some conditions differ only by their type."""
    if is_dataclass(value):
        return [
            type(value).__name__,
            *(_plain(getattr(value, field.name)) for field in fields(value)),
        ]
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
