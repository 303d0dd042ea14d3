"""The Debian base image with a JVM, nftables and bash, made without any container registry.

`mmdebstrap` unpacks Debian packages from this machine's own apt sources into a tarball, and the
engine imports it. It serves as the base of the Kafka images built here and as the sidecar that
changes a broker's network.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cache import Say, cache_dir
from ackproof.errors import ImageError

if TYPE_CHECKING:
    from docker import DockerClient

BASE = "ackproof/base:1"
"""Raise the number when the packages or the recipe change."""

PACKAGES = ("default-jre-headless", "nftables", "iproute2", "procps")
APT = Path("/etc/apt")
BOOTSTRAP_TIMEOUT_S = 1800


def base_problems() -> tuple[str, ...]:
    """Say what keeps this machine from building the base image; empty when nothing is known to."""
    system = _system()
    problems = []
    if "debian" not in (system.get("ID"), *system.get("ID_LIKE", "").split()):
        problems.append(f"this is {system.get('PRETTY_NAME', platform.system())}, not Debian")
    elif not _apt_sources(system):
        problems.append(f"{APT} names no source for {system.get('VERSION_CODENAME', 'Debian')}")
    if os.geteuid() != 0:
        problems.append("not running as root")
    if not shutil.which("mmdebstrap"):
        problems.append("mmdebstrap is not on the PATH")
    return tuple(problems)


def build_base(client: DockerClient, say: Say) -> str:
    """Build and import the base image, from the cached tarball if there is one; return its name.

    The caller holds the build lock, and has found `base_problems()` empty or the tarball cached.

    Raises:
        ImageError: mmdebstrap failed.
    """
    tarball = base_tarball()
    if not tarball.exists():
        bootstrap(tarball, PACKAGES, say)
    say(f"importing {BASE}")
    name, tag = BASE.split(":")
    client.api.import_image_from_file(
        str(tarball),
        repository=name,
        tag=tag,
        changes=["ENV LANG=C.UTF-8", "LABEL io.ackproof.image=base", 'CMD ["bash"]'],
    )
    return BASE


def base_tarball() -> Path:
    """Return where the base image's root file system is cached, whether or not it is there."""
    name = BASE.rpartition("/")[2].replace(":", "-")
    codename = _system().get("VERSION_CODENAME", "unknown")
    return cache_dir() / f"{name}-{codename}-{platform.machine()}.tar"


def bootstrap(tarball: Path, packages: Sequence[str], say: Say) -> None:
    """Unpack this machine's Debian release with these packages into a tarball of its root.

    The caller has found `base_problems()` empty. Raises ImageError if mmdebstrap fails.
    """
    system = _system()
    codename = system["VERSION_CODENAME"]
    say(f"unpacking Debian {codename} with {', '.join(packages)} (about half a minute)")
    partial = tarball.with_suffix(".partial.tar")
    partial.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w", prefix="ackproof-apt-", suffix=".conf") as aptconf:
        # mmdebstrap starts from an empty apt configuration; the machine's proxy belongs in it.
        aptconf.write(_run(["apt-config", "dump", "Acquire::http", "Acquire::https"]))
        aptconf.flush()
        command = [
            "mmdebstrap",
            "--quiet",
            "--mode=root",
            "--variant=essential",
            f"--include={','.join(packages)}",
            f"--aptopt={aptconf.name}",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            # This machine's name and resolver, and its apt sources, are nobody else's business.
            '--customize-hook=rm -rf "$1"/etc/hostname "$1"/etc/resolv.conf',
            '--customize-hook=rm -rf "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99*',
            codename,
            str(partial),
            *map(str, _apt_sources(system)),
        ]
        _run(command)
    partial.rename(tarball)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=BOOTSTRAP_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        raise ImageError(
            f"{command[0]} failed with code {error.returncode}: {' / '.join(lines[-4:])}",
            hint="`apt-get update` shows whether this machine's apt sources answer",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ImageError(
            f"{command[0]} did not finish within {BOOTSTRAP_TIMEOUT_S} s",
            hint="`apt-get update` shows whether this machine's apt sources answer",
        ) from error
    return done.stdout


def _system() -> Mapping[str, str]:
    """Return os-release of this machine; empty where there is none (macOS)."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _apt_sources(system: Mapping[str, str]) -> list[Path]:
    """Return this machine's apt source files that name its own Debian release."""
    codename = system.get("VERSION_CODENAME")
    if not codename:
        return []
    files = [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]
    return [
        path
        for path in files
        if path.is_file()
        and path.suffix in {".list", ".sources"}
        and names_release(path.read_text(errors="replace"), codename)
    ]


def names_release(sources: str, codename: str) -> bool:
    """Tell whether apt `sources` (one-line or deb822 form) name the release `codename` itself.

    Third parties' suites (`nodistro`, `cloud-sdk-bookworm`) do not count.
    """
    one_line = rf"^deb(\s+\[[^\]]*\])?\s+\S+\s+{re.escape(codename)}\s"
    deb822 = rf"^Suites:(.*\s){re.escape(codename)}(\s|$)"
    return bool(re.search(f"{one_line}|{deb822}", sources, re.MULTILINE))
