"""Turns errors of the container engine, of Kafka and of ackproof into FaultError for faults."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from confluent_kafka import KafkaException
from docker.errors import DockerException
from requests import RequestException

from ackproof.errors import AckproofError
from ackproof_faults.evidence import FaultError

T = TypeVar("T")


@contextlib.contextmanager
def refusals(action: str = "") -> Iterator[None]:
    """Raise FaultError if a request inside is refused; its message names the action, if given."""
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
            setattr(kind, name, refusals()(member))
    return kind
