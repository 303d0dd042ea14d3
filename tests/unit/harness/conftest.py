from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from ackproof.runs.verdict import EndedNode, Verdict
from support import synthetic_run as synthetic


class Made(NamedTuple):
    """A synthetic run directory and its verdict."""

    directory: Path
    verdict: Verdict


def _make(tmp_path_factory, name: str, *, title: str | None = None, **options) -> Made:
    directory = tmp_path_factory.mktemp("runs") / name
    made = synthetic.make(directory, synthetic.Options(**{"rate": 300, **options}), name=title)
    return Made(directory, made)


@pytest.fixture(scope="session")
def acks_0(tmp_path_factory) -> Made:
    return _make(tmp_path_factory, "acks-0", acks="0")


@pytest.fixture(scope="session")
def acks_1(tmp_path_factory) -> Made:
    return _make(tmp_path_factory, "acks-1", acks="1")


@pytest.fixture(scope="session")
def explained(tmp_path_factory) -> Made:
    """A run that lost records, with causes, their story and the model's drawing."""
    made = _make(tmp_path_factory, "explained", acks="1")
    return Made(made.directory, synthetic.explain(made.directory))


@pytest.fixture(scope="session")
def acks_all(tmp_path_factory) -> Made:
    name = "acks=all, min.insync.replicas=2"
    return _make(tmp_path_factory, "acks-all", acks="all", title=name)


@pytest.fixture(scope="session")
def finding(tmp_path_factory) -> Made:
    return _make(tmp_path_factory, "finding", acks="all", unexplained=3)


@pytest.fixture(scope="session")
def ended(acks_1) -> Made:
    """A run in which a broker ended by itself."""
    at = datetime(2026, 11, 26, 6, 23, 15, tzinfo=UTC)
    node = EndedNode(name="broker 1", at=at, why="Halting broker because dir /data is offline")
    return Made(acks_1.directory, acks_1.verdict.model_copy(update={"ended": [node]}))


@pytest.fixture(scope="session")
def unverified(tmp_path_factory) -> Made:
    return _make(tmp_path_factory, "unverified", acks="1", verified=False)


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "interrupted"
    synthetic.make_interrupted(directory)
    return directory


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """Copies a run directory, for a test that changes it."""
    return lambda directory: Path(shutil.copytree(directory, tmp_path / "run"))
