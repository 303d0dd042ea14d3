"""The preload that sets a program's clock off, compiled here, and seen by a Python program."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.containers import fake_clock
from ackproof.errors import EngineError

TELL = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


class Engine:
    """An engine on this machine, or on one of another kind."""

    def __init__(self, arch: str | None = None) -> None:
        self.arch = arch

    def version(self) -> dict[str, str | None]:
        return {"Arch": self.arch or fake_clock._ENGINES.get(fake_clock.platform.machine())}


HERE: Any = Engine()


@pytest.fixture
def offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library looks for the offset, in place of a node's disk."""
    path = tmp_path / "clock"
    path.write_bytes(bytes(8))
    monkeypatch.setattr(fake_clock, "_OFFSET", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


@pytest.fixture
def library(offset: Path, tmp_path: Path) -> Path:
    if lack := fake_clock.problem(HERE):
        pytest.skip(lack)
    path = tmp_path / fake_clock.LIBRARY
    path.write_bytes(fake_clock.library(HERE))
    return path


@pytest.fixture
def program(library: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that tells its time for each line it is given."""
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"LD_PRELOAD": str(library)},
    ) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]


def ahead(process: subprocess.Popen[str]) -> tuple[float, float, float]:
    """Return by how much the program's clock is ahead, at least and at most, and its monotonic."""
    assert process.stdin is not None
    assert process.stdout is not None
    before = time.time()
    process.stdin.write("\n")
    process.stdin.flush()
    told, monotonic = map(float, process.stdout.readline().split())
    return told - time.time(), told - before, monotonic


def test_a_program_that_runs_sees_its_clock_jump_and_no_other(
    program: subprocess.Popen[str], offset: Path
) -> None:
    for seconds in (0, 5400, -5400, 1.25, -1.25, 0):
        subprocess.run(["bash", "-c", fake_clock.offset_script(seconds)], check=True)
        assert offset.stat().st_size == 8
        least, most, monotonic = ahead(program)
        assert least - 1e-3 <= seconds <= most + 1e-3
        assert monotonic <= time.monotonic()


def test_without_the_file_a_program_goes_by_the_machines_clock(library: Path, offset: Path) -> None:
    offset.unlink()
    before = time.time()
    told = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert before <= float(told.stdout) <= time.time()


def test_a_clock_that_is_not_there_cannot_be_set(offset: Path) -> None:
    offset.unlink()
    assert subprocess.run(["bash", "-c", fake_clock.offset_script(1)], check=False).returncode != 0
    assert not offset.exists()


def test_it_is_compiled_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_clock, "_compile", lambda *_: pytest.fail("compiled again"))
    assert fake_clock.library(HERE) == library.read_bytes()


def test_an_engine_of_another_kind_is_refused() -> None:
    other: Any = Engine("riscv64")
    with pytest.raises(EngineError, match="containers are Linux on riscv64"):
        fake_clock.library(other)


def test_without_a_compiler_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no C compiler is on the PATH"):
        fake_clock.library(HERE)


def test_what_a_compiler_says_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: Path
) -> None:
    broken = tmp_path / "cc"
    broken.write_text(f"#!{shutil.which('sh')}\necho 'no assembler' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no assembler"):
        fake_clock.library(HERE)
    assert not list((tmp_path / "cache").rglob("*.so"))
