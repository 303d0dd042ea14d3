"""Adjustable clocks: an offset between the time of day in a node's JVM and the machine's.

A small preload (`dockerfiles/clock/clock.c`) replaces `clock_gettime`, `gettimeofday` and `time`,
and adds an offset, which may grow, that it reads from a file on the node's volume. Monotonic clocks
are unchanged. This machine's C compiler compiles it once. It is not linked with a library, so it
works with glibc and musl. It is loaded only with `cluster.clock: adjustable`. libfaketime supports
more, but the start of a broker's JVM takes thirty times as much CPU with it.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.containers.image_build import template
from ackproof.containers.images import CONFIG_DIR, VOLUME_DIR
from ackproof.errors import EngineError
from ackproof.machine import cache_dir

if TYPE_CHECKING:
    from docker import DockerClient

LIBRARY = "clock.so"
"""The preload's name in a node's `CONFIG_DIR`."""

_OFFSET = f"{VOLUME_DIR}/clock"

PRELOAD = f"""
[ -f {_OFFSET} ] || head -c 24 /dev/zero > {_OFFSET}
export LD_PRELOAD={CONFIG_DIR}/{LIBRARY}
"""
"""The end of a node's start script before its JVM is executed."""

_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_S = 60

#: The engine's architecture names by Python's.
_ENGINES = {"x86_64": "amd64", "aarch64": "arm64"}


def problem(client: DockerClient) -> str:
    """Return why nodes on this engine cannot have adjustable clocks; '' if they can."""
    engine = client.version()["Arch"]
    if platform.system() != "Linux" or _ENGINES.get(platform.machine()) != engine:
        return (
            f"this machine compiles for {platform.system()} on {platform.machine()}, and the "
            f"engine's containers run Linux on {engine}"
        )
    if _compiler() is None:
        return f"no C compiler is on the PATH ({', '.join(_COMPILERS)})"
    return ""


def library(client: DockerClient) -> bytes:
    """Return the preload from the cache, or compile it.

    Raises EngineError with the reason if it cannot be compiled for this engine.
    """
    if reason := problem(client):
        raise EngineError(
            f"cluster.clock: adjustable needs a library that is compiled here: {reason}",
            hint="Install a C compiler (Debian: apt-get install gcc), or remove cluster.clock and "
            "its faults; `ackproof doctor` lists what this machine supports.",
        )
    source = template("clock/clock.c")
    name = hashlib.sha256(f"{_OFFSET}\n{source}".encode()).hexdigest()[:16]
    cached = cache_dir() / f"clock-{platform.machine()}-{name}.so"
    if not cached.exists():
        with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
            compiled = Path(folder) / LIBRARY
            _compile(source, compiled)
            compiled.rename(cached)  # atomic, so that two processes may compile it
    return cached.read_bytes()


def offset_script(seconds: float, drift: float = 0.0) -> str:
    """Return a script that sets a node's offset; run it where the node's volume is mounted.

    The clock gains `drift` seconds in each second from now on.
    """
    numbers = struct.pack("=qd", round(seconds * 1e9), drift)
    # The JVM has the file mapped, so it is overwritten in place and not truncated. Its numbers are
    # written one by one; a drift keeps its beginning until it has ended.
    since, skipped = (struct.pack("=q", time.time_ns()), 0) if drift else (b"", 1)
    content = "".join(f"\\x{byte:02x}" for byte in since + numbers)
    dd = f"dd of={_OFFSET} bs=8 seek={skipped} conv=notrunc status=none"
    return f"[ -f {_OFFSET} ] && printf '{content}' | {dd}"


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


def _compile(source: str, target: Path) -> None:
    compiler = _compiler()
    assert compiler is not None  # `problem`
    flags = ["-O2", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-fno-stack-protector"]
    offset_file = f'-DCLOCK_FILE="{_OFFSET}"'
    done = subprocess.run(
        [compiler, *flags, offset_file, "-x", "c", "-", "-o", str(target)],
        input=source,
        capture_output=True,
        text=True,
        timeout=_COMPILE_S,
        check=False,
    )
    if done.returncode != 0:
        raise EngineError(
            f"{compiler} cannot compile the library of adjustable clocks: "
            f"{' / '.join(done.stderr.strip().splitlines()[-4:])}",
            hint="Try another C compiler, or remove cluster.clock.",
        )
