"""Turns refusals of the container engine, Kafka and ackproof into FaultError for faults."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from confluent_kafka import KafkaException
from docker.errors import DockerException
from requests import RequestException

from ackproof.errors import AckproofError
from ackproof_faults.evidence import FaultError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@contextlib.contextmanager
def refusals_are_fault_errors(action: str = "") -> Iterator[None]:
    """Raise FaultError for what was refused inside; its message names the action, if given."""
    try:
        yield
    except KafkaException as error:
        raise FaultError(
            f"Kafka refuses {action or 'the request'}: {error.args[0].str()}"
        ) from error
    except (AckproofError, DockerException, RequestException, TimeoutError) as error:
        reason = str(error) or "no answer"
        raise FaultError(f"{action}: {reason}" if action else reason) from error


def raises_fault_errors(kind: type[T]) -> type[T]:
    """Make every public method of a class raise FaultError for refusals."""
    for name, member in list(vars(kind).items()):
        if callable(member) and not name.startswith("_"):
            setattr(kind, name, _with_fault_errors(member))
    return kind


def _with_fault_errors(method: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(method)
    def translated(*args: P.args, **kwargs: P.kwargs) -> R:
        with refusals_are_fault_errors():
            return method(*args, **kwargs)

    return translated
