"""Damage of a recorded run: the bytes of one file change, the manifest does not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from bite.mutant import Mutant, copy, recorded_manifest, replace


def _cut(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    content = path.read_bytes()
    replace(path, content[: draw.randrange(len(content))])


def _flip(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    replace(path, bytes(content))


def _lengthen(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    replace(path, path.read_bytes() + draw.randbytes(draw.randint(1, 100)))


def _overwrite(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    content = bytearray(path.read_bytes())
    start = draw.randrange(len(content))
    length = draw.randint(1, 512)
    content[start : start + length] = draw.randbytes(length)
    replace(path, bytes(content))


def _remove(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    path.unlink()


def _double(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    shutil.copy(path, path.with_name(f"copy-{path.name}"))


def _exchange(draw: random.Random, path: Path, others: Sequence[Path]) -> None:
    content = path.read_bytes()
    other = next(one for one in others if one.read_bytes() != content)
    replace(path, other.read_bytes())
    replace(other, content)


#: A copy of a file (`_double`) counts only in the folder of a table.
_DAMAGES = (_cut, _flip, _lengthen, _overwrite, _remove, _exchange)


def damage(run_dir: Path, to: Path, seed: int) -> Mutant:
    """Change the bytes of one recorded file at random."""
    draw = random.Random(seed)
    copy(run_dir, to)
    files = [to / file.path for file in recorded_manifest(run_dir).files if file.bytes]
    path = draw.choice(files)
    kinds = [*_DAMAGES, _double] if path.suffix == ".parquet" and path.parent != to else _DAMAGES
    kind = draw.choice(kinds)
    kind(draw, path, draw.sample(files, len(files)))
    return Mutant(run_dir=to, what=f"{kind.__name__} {path.relative_to(to)} (seed {seed})")
