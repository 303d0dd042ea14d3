"""Files of a node that the engine gives as archives."""

from __future__ import annotations

import io
import tarfile
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.node import KafkaNode
from ackproof.errors import ClusterError


def given(content: bytes, *, cut: int = 0) -> bytes:
    """Return the engine's answer; for a file that shrank meanwhile without its last bytes."""
    answer = io.BytesIO()
    with tarfile.open(fileobj=answer, mode="w") as archive:
        member = tarfile.TarInfo("checkpoint")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    whole = answer.getvalue()
    return whole[: tarfile.BLOCKSIZE + len(content) - cut] if cut else whole


def node(*answers: bytes) -> KafkaNode:
    left = list(answers)
    one = object.__new__(KafkaNode)
    container: Any = SimpleNamespace(get_archive=lambda path: ([left.pop(0)], {}))
    one._container = container
    one.spec = SimpleNamespace(name="broker-1")
    return one


def test_a_file_that_a_broker_replaced_meanwhile_is_read_again() -> None:
    whole = given(b"0\n2\n")
    assert node(given(b"0\n1\n", cut=2), whole).read_file("/data/checkpoint") == b"0\n2\n"


def test_a_file_that_is_replaced_again_and_again_is_an_error() -> None:
    with pytest.raises(ClusterError, match="broker-1 was replaced while it was read, 5 times"):
        node(*[given(b"0\n1\n", cut=2)] * 5).read_file("/data/checkpoint")
