"""libfaketime: what lets a node's JVM have another time than the machine.

The library is preloaded into the JVM of each node. Once a second it reads an offset from a file, by
which it moves the time of day; monotonic time stays true, so that timeouts last as long as ever. It
is built for glibc: images on musl (Alpine) cannot have it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.harness.cluster.cache import cache_dir, exclusive
from ackproof.harness.cluster.engine import labels
from ackproof.harness.errors import ClusterError

if TYPE_CHECKING:
    from docker import DockerClient

_NAME = "libfaketimeMT.so.1"
_LIBRARIES = Path("/usr/lib")
_GLIBC = "ls /lib*/ld-linux*.so.* /lib/*/libc.so.6"


def preloaded(folder: str) -> str:
    """Return the command in front of a JVM that runs with the library and offset in `folder`."""
    settings = {
        "LD_PRELOAD": f"{folder}/{_NAME}",
        "FAKETIME_TIMESTAMP_FILE": f"{folder}/clock",
        # Read again each second: reading it each time makes a JVM several times slower.
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return "env " + " ".join(f"{key}={value}" for key, value in settings.items())


def files(library: bytes) -> dict[str, bytes]:
    """Return what must lie in the folder: the library, and a clock that is right."""
    return {_NAME: library, "clock": offset(0).encode()}


def offset(ahead_s: float) -> str:
    """Return the content of the file for a clock that is so far ahead (behind, if negative)."""
    return f"{ahead_s:+.3f}\n"


def library(client: DockerClient, image: str, *, run_id: str) -> bytes:
    """Return the library for nodes of this image.

    It is this host's own, or is taken from Debian's package by apt once and kept.
    Raises ClusterError if the image cannot load it, or it cannot be had.
    """
    from docker.errors import ContainerError

    try:
        client.containers.run(
            image,
            entrypoint=["/bin/sh", "-c", _GLIBC],
            network_mode="none",
            labels=labels(run_id),
            remove=True,
        )
    except ContainerError as error:
        raise ClusterError(
            f"cluster.fake_clock: {image} has no glibc, which libfaketime needs",
            hint="Use an image on Debian (`ackproof image` builds one), or leave fake_clock out.",
        ) from error
    kept = cache_dir() / _NAME
    with exclusive(_NAME):
        if not kept.exists():
            found = next(iter(sorted(_LIBRARIES.glob(f"*/faketime/{_NAME}"))), None)
            content = found.read_bytes() if found else _from_package()
            part = kept.with_suffix(".part")
            part.write_bytes(content)
            part.rename(kept)
    return kept.read_bytes()


def _from_package() -> bytes:
    advice = "Install it (Debian: apt-get install libfaketime), or leave cluster.fake_clock out."
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise ClusterError("libfaketime is not installed on this host", hint=advice)
    with tempfile.TemporaryDirectory(prefix="ackproof-faketime-") as folder:
        for command in (
            "apt-get download libfaketime",
            "dpkg-deb -x libfaketime_*.deb unpacked",
        ):
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                said = (done.stderr or done.stdout).strip().splitlines()
                raise ClusterError(
                    f"libfaketime cannot be had ({command}): {said[-1] if said else 'no reason'}",
                    hint=advice,
                )
        (found,) = Path(folder).glob(f"unpacked/usr/lib/*/faketime/{_NAME}")
        return found.read_bytes()
