"""Cached predictions: the model searches each configuration and schedule only once.

The name of a file is a hash of what the search reads of the configuration, the schedule, and the
model's source, so a changed model does not use old predictions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TypeVar

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
from ackproof_model.worst_case import in_order

_Answer = TypeVar("_Answer")

_PREDICTION = TypeAdapter(Prediction)
_IN_ORDER = TypeAdapter(in_order.Ordered)


def predict(
    configuration: Configuration, schedule: Sequence[Injection], *, max_states: int = MAX_STATES
) -> Prediction:
    """Return what `ackproof_model.predict` returns, from the cache if possible.

    Processes that need the same prediction wait for the first. A cache that cannot be read or
    written is ignored.
    """
    return _cached(
        _PREDICTION,
        f"{_key([max_states, as_read(configuration), *schedule])}.json",
        lambda: ackproof_model.predict(configuration, schedule, max_states=max_states),
    )


def search_in_order(
    configuration: Configuration, schedule: Sequence[Injection], *, max_states: int
) -> in_order.Ordered:
    """Return what `in_order.search` returns, from the cache if possible."""
    return _cached(
        _IN_ORDER,
        f"{_key(['in order', max_states, configuration, *schedule])}.json",
        lambda: in_order.search(configuration, schedule, max_states=max_states),
    )


def _cached(adapter: TypeAdapter[_Answer], name: str, answer: Callable[[], _Answer]) -> _Answer:
    if (known := _stored(adapter, name)) is not None:
        return known
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(exclusive(f"predictions-{name[:2]}"))
        if (known := _stored(adapter, name)) is not None:
            return known
        answered = answer()
        with contextlib.suppress(OSError):
            partial = _folder() / f"{name}.{os.getpid()}"
            partial.write_bytes(adapter.dump_json(answered))
            partial.replace(_folder() / name)
        return answered


def _stored(adapter: TypeAdapter[_Answer], name: str) -> _Answer | None:
    with contextlib.suppress(OSError, ValidationError):
        return adapter.validate_json((_folder() / name).read_bytes())
    return None


def _folder() -> Path:
    folder = cache_dir() / "predictions"
    folder.mkdir(exist_ok=True)
    return folder


def _key(read: Sequence[object]) -> str:
    text = json.dumps(_plain(list(read)))
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
