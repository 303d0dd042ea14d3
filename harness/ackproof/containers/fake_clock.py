"""A clock of its own for a node: what its JVM takes for the time of day, off from the machine's.

A preload of a few lines (`dockerfiles/clock/clock.c`) answers the JVM's `clock_gettime`,
`gettimeofday` and `time`, and adds an offset that it reads from a file on the node's disk;
monotonic clocks stay as they are. This machine's C compiler compiles it once. It links with no
library, so that images stay what they are, glibc or musl, and it is there only where a scenario
asks for it (`cluster.clock: adjustable`). libfaketime does more, and takes a JVM thirty times as
much CPU until a broker is up.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cache import cache_dir
from ackproof.containers.image_build import template
from ackproof.containers.paths import CONFIG_DIR, VOLUME_DIR
from ackproof.errors import EngineError

if TYPE_CHECKING:
    from docker import DockerClient

LIBRARY = "clock.so"
"""The preload's name in a node's `CONFIG_DIR`."""

_OFFSET = f"{VOLUME_DIR}/clock"

PRELOAD = f"""
[ -f {_OFFSET} ] || head -c 8 /dev/zero > {_OFFSET}
export LD_PRELOAD={CONFIG_DIR}/{LIBRARY}
"""
"""What a node's script does last before it turns into the JVM."""

_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_S = 60

#: The engine's words for what Python calls these machines.
_ENGINES = {"x86_64": "amd64", "aarch64": "arm64"}


def problem(client: DockerClient) -> str:
    """Say why nodes on this engine cannot have clocks of their own; '' if they can."""
    engine = client.version()["Arch"]
    if platform.system() != "Linux" or _ENGINES.get(platform.machine()) != engine:
        return (
            f"it is compiled for {platform.system()} on {platform.machine()} here, and the "
            f"engine's containers are Linux on {engine}"
        )
    if _compiler() is None:
        return f"no C compiler is on the PATH ({', '.join(_COMPILERS)})"
    return ""


def library(client: DockerClient) -> bytes:
    """Return the preload, compiled now or earlier.

    Raises EngineError, with the reason, where it cannot be had.
    """
    if lack := problem(client):
        raise EngineError(
            f"cluster.clock: adjustable needs a small library that is preloaded: {lack}",
            hint="Install a C compiler (Debian: apt-get install gcc), or leave out the clock and "
            "its faults; `ackproof doctor` says what this machine can do.",
        )
    source = template("clock/clock.c")
    name = hashlib.sha256(f"{_OFFSET}\n{source}".encode()).hexdigest()[:16]
    kept = cache_dir() / f"clock-{platform.machine()}-{name}.so"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
            compiled = Path(folder) / LIBRARY
            _compile(source, compiled)
            compiled.rename(kept)  # whole or not at all, whoever else compiles it
    return kept.read_bytes()


def offset_script(seconds: float) -> str:
    """Return the script that sets a node's clock off by so much, run where its disk is."""
    content = "".join(f"\\x{byte:02x}" for byte in struct.pack("=q", round(seconds * 1e9)))
    # In place, and never shorter: the JVM has the file mapped.
    return f"[ -f {_OFFSET} ] && printf '{content}' | dd of={_OFFSET} conv=notrunc status=none"


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)


def _compile(source: str, target: Path) -> None:
    compiler = _compiler()
    assert compiler is not None  # `problem`
    flags = ["-O2", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-fno-stack-protector"]
    place = f'-DCLOCK_FILE="{_OFFSET}"'
    done = subprocess.run(
        [compiler, *flags, place, "-x", "c", "-", "-o", str(target)],
        input=source,
        capture_output=True,
        text=True,
        timeout=_COMPILE_S,
        check=False,
    )
    if done.returncode != 0:
        raise EngineError(
            f"{compiler} cannot compile the library that nodes' clocks need: "
            f"{' / '.join(done.stderr.strip().splitlines()[-4:])}",
            hint="Another C compiler may; or leave out cluster.clock.",
        )
