"""Builds images without a container registry: from Dockerfiles, and the Debian base image.

The engine's classic builder runs the Dockerfiles of this package, because the API of Docker 20.10
has no other. The Dockerfiles therefore do not use features of BuildKit.

The base image has a JVM, nftables and bash. `mmdebstrap` unpacks Debian packages from this
machine's apt sources into a tarball, and the engine imports it. The Kafka images that are built
here are based on it, and sidecars run it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from docker import DockerClient
from docker.errors import APIError, BuildError

from ackproof.errors import ImageError
from ackproof.machine import Say, cache_dir

LABEL_IMAGE = "io.ackproof.image"
"""The label of every image built here; its value is a Kafka version, `base` or `sidecar`."""

LABEL_RECIPE = "io.ackproof.recipe"
"""The label with a digest of the texts from which an image was built."""

BASE = "ackproof/base:1"
"""Increase the number when the packages or the build change."""

PACKAGES = ("default-jre-headless", "nftables", "iproute2", "procps")
APT = Path("/etc/apt")
BOOTSTRAP_TIMEOUT_S = 1800


def template(name: str) -> str:
    return (files(__package__) / "dockerfiles" / name).read_text()


def docker_build(
    client: DockerClient,
    reference: str,
    *,
    kind: str,
    texts: Mapping[str, str],
    paths: Mapping[str, Path] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> None:
    """Build an image from `texts` and `paths`: contents by their names in the build context.

    The engine sets the tag `reference` last, so an interrupted build leaves no image of that name.
    The caller must hold the build lock. Raises ImageError with the last lines of a failed build.
    """
    context_path = cache_dir() / "build-context.tar"
    with context_path.open("w+b") as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            for name, text in texts.items():
                content = text.encode()
                tar.addfile(_member(name, len(content)), io.BytesIO(content))
            for name, path in (paths or {}).items():
                with path.open("rb") as file:
                    tar.addfile(_member(name, path.stat().st_size), file)
        context.seek(0)
        try:
            client.images.build(
                fileobj=context,
                custom_context=True,
                tag=reference,
                buildargs=dict(arguments or {}),
                labels={LABEL_IMAGE: kind, LABEL_RECIPE: recipe(texts)},
                rm=True,
                forcerm=True,
            )
        except BuildError as error:
            lines = [str(line.get("stream", "")).rstrip() for line in error.build_log]
            tail = "\n  ".join([line for line in lines if line][-15:])
            raise ImageError(
                f"building {reference} failed: {error.msg}\n  {tail}",
                hint="the lines above are the end of the build's output",
            ) from error
        except APIError as error:
            raise ImageError(
                f"building {reference} failed: {error.explanation or error}",
                hint="`docker info` shows the state of the engine",
            ) from error
        finally:
            context_path.unlink()


def recipe(texts: Mapping[str, str]) -> str:
    """Return a digest of the texts in a build context, by their names."""
    return hashlib.sha256(json.dumps(dict(texts), sort_keys=True).encode()).hexdigest()[:12]


def _member(name: str, size: int) -> tarfile.TarInfo:
    """Return the header of a file, without this machine's owners and times."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def base_problems() -> tuple[str, ...]:
    """Return the reasons why this machine cannot build the base image."""
    system = _system()
    problems = []
    if "debian" not in (system.get("ID"), *system.get("ID_LIKE", "").split()):
        problems.append(
            f"this machine runs {system.get('PRETTY_NAME', platform.system())}, not Debian"
        )
    elif not _apt_sources(system):
        problems.append(f"{APT} has no source for {system.get('VERSION_CODENAME', 'Debian')}")
    if os.geteuid() != 0:
        problems.append("not running as root")
    if not shutil.which("mmdebstrap"):
        problems.append("mmdebstrap is not on the PATH")
    return tuple(problems)


def build_base(client: DockerClient, say: Say) -> str:
    """Import the base image from its cached tarball, or from a new one; return its name.

    The caller must hold the build lock, and `base_problems()` must be empty or the tarball cached.
    Raises ImageError if mmdebstrap fails.
    """
    tarball = base_tarball()
    if not tarball.exists():
        bootstrap(tarball, PACKAGES, say)
    say(f"importing {BASE}")
    name, tag = BASE.split(":")
    status = client.api.import_image_from_file(
        str(tarball),
        changes=["ENV LANG=C.UTF-8", "LABEL io.ackproof.image=base", 'CMD ["bash"]'],
    )
    # Podman 4.3 ignores the tag of an import.
    client.images.get(json.loads(status)["status"]).tag(name, tag)
    return BASE


def base_tarball() -> Path:
    """Return the path of the base image's tarball in the cache; the file may not exist."""
    name = BASE.rpartition("/")[2].replace(":", "-")
    codename = _system().get("VERSION_CODENAME", "unknown")
    return cache_dir() / f"{name}-{codename}-{platform.machine()}.tar"


def bootstrap(tarball: Path, packages: Sequence[str], say: Say) -> None:
    """Unpack this machine's Debian release with these packages into a tarball.

    `base_problems()` must be empty. Raises ImageError if mmdebstrap fails.
    """
    system = _system()
    codename = system["VERSION_CODENAME"]
    say(f"unpacking Debian {codename} with {', '.join(packages)} (about half a minute)")
    partial = tarball.with_suffix(".partial.tar")
    partial.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w", prefix="ackproof-apt-", suffix=".conf") as aptconf:
        # mmdebstrap starts with an empty apt configuration, which lacks the machine's proxy.
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
            # The image must not contain this machine's name, resolver and apt sources.
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
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        if isinstance(error, subprocess.TimeoutExpired):
            reason = f"did not finish within {BOOTSTRAP_TIMEOUT_S} s"
        else:
            lines = str(error.stderr).strip().splitlines()
            reason = f"failed with code {error.returncode}: {' / '.join(lines[-4:])}"
        raise ImageError(
            f"{command[0]} {reason}",
            hint="`apt-get update` shows whether this machine's apt sources answer",
        ) from error
    return done.stdout


def _system() -> Mapping[str, str]:
    """Return this machine's os-release; empty if there is none (macOS)."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _apt_sources(system: Mapping[str, str]) -> list[Path]:
    """Return this machine's apt source files for its own Debian release."""
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
    """Whether apt `sources` (one-line or deb822 form) contain the suite `codename` itself.

    Suites of third parties (`nodistro`, `cloud-sdk-bookworm`) do not count.
    """
    one_line = rf"^deb(\s+\[[^\]]*\])?\s+\S+\s+{re.escape(codename)}\s"
    deb822 = rf"^Suites:(.*\s){re.escape(codename)}(\s|$)"
    return bool(re.search(f"{one_line}|{deb822}", sources, re.MULTILINE))
