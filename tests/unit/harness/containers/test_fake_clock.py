"""The preload of adjustable clocks, compiled here and loaded into a Python program."""

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
from support.fake_engine import FakeEngine
from waiting import until

PRINT_CLOCKS = (
    "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
)


def engine(arch: str | None) -> Any:
    return FakeEngine(version={"Arch": arch})


HERE = engine(fake_clock._ENGINES.get(fake_clock.platform.machine()))


@pytest.fixture
def offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the offset, in place of the one in a node's volume."""
    path = tmp_path / "clock"
    path.write_bytes(bytes(24))
    monkeypatch.setattr(fake_clock, "_OFFSET", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


@pytest.fixture
def library(offset: Path, tmp_path: Path) -> Path:
    if reason := fake_clock.problem(HERE):
        pytest.skip(reason)
    path = tmp_path / fake_clock.LIBRARY
    path.write_bytes(fake_clock.library(HERE))
    return path


@pytest.fixture
def program(library: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that prints its clocks for each line of its standard input."""
    with subprocess.Popen(
        [sys.executable, "-c", PRINT_CLOCKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"LD_PRELOAD": str(library)},
    ) as process:
        yield process
        process.stdin.close()


def ahead(process: subprocess.Popen[str]) -> tuple[float, float, float]:
    """Return bounds of how far the program's clock is ahead, and its monotonic clock."""
    assert process.stdin is not None
    assert process.stdout is not None
    before = time.time()
    process.stdin.write("\n")
    process.stdin.flush()
    printed, monotonic = map(float, process.stdout.readline().split())
    return printed - time.time(), printed - before, monotonic


def test_a_running_program_sees_the_offset_and_the_machine_does_not(
    program: subprocess.Popen[str], offset: Path
) -> None:
    for seconds in (0, 5400, -5400, 1.25, -1.25, 0):
        subprocess.run(["bash", "-c", fake_clock.offset_script(seconds)], check=True)
        assert offset.stat().st_size == 24
        least, most, monotonic = ahead(program)
        assert least - 1e-3 <= seconds <= most + 1e-3
        assert monotonic <= time.monotonic()


def test_a_running_program_sees_a_drift(program: subprocess.Popen[str], offset: Path) -> None:
    drift, began = -100.0, time.time()
    subprocess.run(["bash", "-c", fake_clock.offset_script(7, drift)], check=True)
    begun = time.time()
    until(lambda: ahead(program)[1] < 0)
    asked = time.time()
    least, most, _ = ahead(program)
    assert most >= 7 + drift * (time.time() - began)
    assert least <= 7 + drift * (asked - begun)
    subprocess.run(["bash", "-c", fake_clock.offset_script(0)], check=True)
    least, most, _ = ahead(program)
    assert least - 1e-3 <= 0 <= most + 1e-3


def test_without_the_file_a_program_has_the_machines_clock(library: Path, offset: Path) -> None:
    offset.unlink()
    before = time.time()
    printed = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert before <= float(printed.stdout) <= time.time()


def test_the_offset_cannot_be_set_without_the_file(offset: Path) -> None:
    offset.unlink()
    assert subprocess.run(["bash", "-c", fake_clock.offset_script(1)], check=False).returncode != 0
    assert not offset.exists()


def test_the_library_is_compiled_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_clock, "_compile", lambda *_: pytest.fail("compiled again"))
    assert fake_clock.library(HERE) == library.read_bytes()


def test_an_engine_of_another_architecture_is_refused() -> None:
    with pytest.raises(EngineError, match="containers run Linux on riscv64"):
        fake_clock.library(engine("riscv64"))


def test_a_machine_without_a_compiler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no C compiler is on the PATH"):
        fake_clock.library(HERE)


def test_the_error_has_the_output_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: Path
) -> None:
    broken = tmp_path / "cc"
    broken.write_text(f"#!{shutil.which('sh')}\necho 'no assembler' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no assembler"):
        fake_clock.library(HERE)
    assert not list((tmp_path / "cache").rglob("*.so"))
