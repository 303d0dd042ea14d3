"""Checkpoints: the finished levels of a search in files, so that an interrupted search can resume.

Each combination of `AdversaryModel`, number of processes and source digest has a folder with one
file for each level of each process. The first line has the broker values that were numbered since
the previous level; each other line has a head and its tails.
"""

from __future__ import annotations

import base64
import hashlib
import json
from array import array
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ackproof_model import source_digest
from ackproof_model.adversary.state import AdversaryModel
from ackproof_model.replication.state import Broker

#: One level of one process: the tails of its states by their heads.
Level = Mapping[int, Collection[int]]


class Checkpoint:
    """One process's share of a search; several processes share a folder, each under its number."""

    def __init__(self, folder: Path, model: AdversaryModel, *, workers: int, me: int) -> None:
        key = f"{source_digest.digest()} {workers} {model}"
        self._folder = folder / hashlib.sha256(key.encode()).hexdigest()[:32]
        self._me = me

    def __len__(self) -> int:
        """Return the number of stored levels, from the first on."""
        count = 0
        while self._path(count).exists():
            count += 1
        return count

    def _path(self, number: int) -> Path:
        return self._folder / f"level-{number}-{self._me}.jsonl"

    def store(self, number: int, values: Sequence[Broker], level: Level) -> None:
        """Write a level atomically; raise OSError if that fails."""
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._path(number).with_suffix(".partial")
        with partial.open("w", encoding="ascii") as file:
            file.write(f"{json.dumps(values)}\n")
            for head, tails in level.items():
                file.write(f"{json.dumps([head, _encoded(tails)])}\n")
        partial.replace(self._path(number))

    def load(self, number: int) -> tuple[list[Broker], dict[int, Collection[int]]]:
        """Read a level; raise OSError or ValueError if it is missing or damaged."""
        with self._path(number).open(encoding="ascii") as file:
            values = map(Broker._make, json.loads(file.readline()))
            brokers = [
                value._replace(log=tuple(value.log), remote=tuple(value.remote)) for value in values
            ]
            return brokers, {head: _decoded(tails) for head, tails in map(json.loads, file)}


def _encoded(tails: Collection[int]) -> str | list[int]:
    return base64.b64encode(tails).decode() if isinstance(tails, array) else list(tails)


def _decoded(tails: str | list[int]) -> Collection[int]:
    if isinstance(tails, str):
        packed = array("Q")
        packed.frombytes(base64.b64decode(tails))
        return packed
    return tails
