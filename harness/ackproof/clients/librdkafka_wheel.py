"""Installs other versions of librdkafka, each with its wheel of confluent-kafka in its own folder.

A client process has this folder on its path before the installed packages.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from ackproof.errors import WorkloadError
from ackproof.machine import Say, cache_dir, exclusive, silent

#: Timeout of pip, seconds.
_INSTALL_S = 600

#: A folder is used if our programs can be imported with it, and if this prints its version.
_ASK_VERSION = (
    "from ackproof.clients import connection, consumer, producer; "
    "print(connection.librdkafka_version())"
)


def environment(version: str | None) -> dict[str, str]:
    """Return the environment of a client process; None means the installed librdkafka.

    Raises `WorkloadError` as `folder` does.
    """
    if version is None:
        return dict(os.environ)
    return _before_others(folder(version))


@cache
def folder(version: str, say: Say = silent) -> Path:
    """Return the folder with this version of librdkafka; install it if it is absent.

    Raises `WorkloadError` if pip cannot install it, or the wheel has another librdkafka.
    """
    with exclusive("librdkafka", say):
        # A wheel is built for one version of Python.
        finished = cache_dir() / "librdkafka" / f"{version}-{sys.implementation.cache_tag}"
        if not finished.is_dir():
            _install(version, finished, say)
    return finished


def _before_others(first: Path) -> dict[str, str]:
    others = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(first), *([others] if others else [])])
    return {**os.environ, "PYTHONPATH": path}


def _install(version: str, finished: Path, say: Say) -> None:
    if importlib.util.find_spec("pip") is None:
        raise WorkloadError(
            f"librdkafka {version} is not in the cache, and {sys.executable} has no pip to install "
            "it with",
            hint=f"Install pip: {sys.executable} -m ensurepip",
        )
    say(f"installing librdkafka {version} (confluent-kafka {version}) with pip")
    partial = finished.with_name(f"{finished.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _run_pip(version, partial)
        _require_version(version, partial)
        partial.rename(finished)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run_pip(version: str, to: Path) -> None:
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--target", str(to), f"confluent-kafka=={version}"),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_S,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkloadError(
            f"librdkafka {version}: pip did not finish within {_INSTALL_S} s",
            hint="Check the network and pip's configuration: pip config list",
        ) from error
    if done.returncode:
        raise pip_error(version, done.stderr)


def pip_error(version: str, output: str) -> WorkloadError:
    """Return the error in pip's output: a missing version, or its last error."""
    listed = re.search(r"\(from versions: ([^)]*)\)", output)
    versions = listed[1].split(", ") if listed else []
    released = [one for one in versions if re.fullmatch(r"[0-9.]+", one)]
    python = f"Python {sys.version_info.major}.{sys.version_info.minor} on this machine"
    if released:
        return WorkloadError(
            f"librdkafka {version} cannot be installed: confluent-kafka {version} has no wheel for "
            f"{python} (versions that have one: {', '.join(released)})",
            hint="Use one of these versions in `client: {librdkafka: …}`.",
        )
    if listed:
        return WorkloadError(
            f"librdkafka {version} cannot be installed: pip finds no wheel of confluent-kafka for "
            f"{python}",
            hint="Check the network and the index that pip uses: pip index versions "
            "confluent-kafka",
        )
    errors = [line for line in output.splitlines() if "ERROR" in line] or [output.strip()]
    return WorkloadError(
        f"librdkafka {version} cannot be installed: {errors[-1].removeprefix('ERROR: ')}",
        hint="Check the network and pip's configuration: pip config list",
    )


def _require_version(version: str, at: Path) -> None:
    """Raise `WorkloadError` if the installed wheel does not work, or has another librdkafka."""
    asked = subprocess.run(
        [sys.executable, "-c", _ASK_VERSION],
        env=_before_others(at),
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise WorkloadError(
            f"confluent-kafka {version} is installed and does not work: "
            f"{asked.stderr.strip().splitlines()[-1]}",
            hint="Use another version in `client: {librdkafka: …}`.",
        )
    if (actual := asked.stdout.strip()) != version:
        raise WorkloadError(
            f"confluent-kafka {version} has librdkafka {actual}, not {version}",
            hint=f"Write the version of librdkafka, such as {{librdkafka: {actual}}}.",
        )
