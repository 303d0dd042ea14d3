"""Kafka's jars, resolved by Maven, for an image that is built without a container registry.

Maven uses a separate local repository in the cache directory: in a repository that is shared with
another resolver (Ivy, for Spark's connector), some poms end up without their jars. Maven uses the
registry in the machine's own configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import escape

from ackproof.errors import ImageError
from ackproof.kafka_versions import numbers, scala
from ackproof.machine import Say, cache_dir
from ackproof_spark.spark import connector

MAVEN_TIMEOUT_S = 1800

_BINDINGS = {"log4j-slf4j-impl", "log4j-slf4j2-impl", "slf4j-reload4j", "slf4j-log4j12"}

_DIGESTS = "sha256.json"

_ITSELF = ("org.apache.kafka:kafka_", "org.apache.kafka:kafka-clients")
"""The first artifacts of a release: a registry without them lacks the release."""

_WITHOUT_JAXB = (1, 0)
"""Older brokers use javax.xml.bind, which is not part of Java from version 11 on."""

Coordinate = tuple[str, str, str]
"""A Maven group, artifact and version."""


def jars_problem(version: str) -> str:
    """Return why the jars of `version` cannot be resolved here, without trying; '' if unknown."""
    if _finished(version).is_dir() or shutil.which("mvn"):
        return ""
    return "Maven (mvn) is not on the PATH"


def kafka_jars(version: str, say: Say) -> Path:
    """Return the cached folder of the jars of a Kafka broker and its tools; resolve them if absent.

    The caller must hold the build lock. Raises ImageError if Maven is missing, cannot reach its
    registry, or lacks an artifact of `version`.
    """
    finished = _finished(version)
    if finished.is_dir():
        return finished
    if problem := jars_problem(version):
        raise ImageError(f"Kafka {version}: {problem}", hint="install it: apt-get install maven")
    say(f"resolving the jars of Kafka {version} with Maven")
    work = cache_dir() / "jars" / f"{version}.partial"
    shutil.rmtree(work, ignore_errors=True)
    artifacts = [
        ("org.apache.kafka", f"kafka_{scala(version)}", version),
        ("org.apache.kafka", "kafka-tools", version),
    ]
    if numbers(version) < _WITHOUT_JAXB:
        artifacts.append(("javax.xml.bind", "jaxb-api", "2.3.1"))
    copy_dependencies(artifacts, work / "libs", version)
    binding = logging_binding(path.name for path in (work / "libs").iterdir())
    if binding is not None:
        # Kafka's distribution has it, but not its pom. Without it no log line is printed.
        shutil.rmtree(work / "libs")
        copy_dependencies([*artifacts, binding], work / "libs", version)
    pins = files(__package__) / "pinned" / f"kafka-{version}.json"
    if differs := connector.difference(work / "libs", pins):
        raise ImageError(f"Kafka {version}: {differs}", hint=connector.ADVICE)
    (work / "libs").rename(finished)
    shutil.rmtree(work)
    return finished


def client_jars(version: str, say: Say) -> Path:
    """Return the cached folder of the jars of kafka-clients; resolve them if absent.

    The caller must hold a lock. Raises `ImageError` as `kafka_jars` does, and if a cached jar has
    changed since it was resolved.
    """
    finished = cache_dir() / "client-jars" / version
    if finished.is_dir():
        _check_digests(finished)
        return finished
    if not shutil.which("mvn"):
        raise ImageError(
            f"kafka-clients {version} is not in the cache, and Maven (mvn) is not on the PATH",
            hint="install it: apt-get install maven",
        )
    say(f"resolving kafka-clients {version} with Maven")
    work = finished.with_name(f"{version}.partial")
    shutil.rmtree(work, ignore_errors=True)
    client = ("org.apache.kafka", "kafka-clients", version)
    copy_dependencies([client], work / "libs", version)
    slf4j = next((work / "libs").glob("slf4j-api-*.jar")).stem.removeprefix("slf4j-api-")
    copy_dependencies([client, ("org.slf4j", "slf4j-simple", slf4j)], work / "libs", version)
    digests = {path.name: _digest(path) for path in sorted((work / "libs").glob("*.jar"))}
    (work / "libs" / _DIGESTS).write_text(json.dumps(digests, indent=2))
    (work / "libs").rename(finished)
    shutil.rmtree(work)
    return finished


def _check_digests(folder: Path) -> None:
    try:
        expected = json.loads((folder / _DIGESTS).read_text())
        actual = {name: _digest(folder / name) for name in expected}
    except (OSError, ValueError) as error:
        raise ImageError(
            f"the jars of kafka-clients in {folder} are damaged: {error}",
            hint="remove that folder; they are resolved again",
        ) from None
    for name, digest in expected.items():
        if actual[name] != digest:
            raise ImageError(
                f"{folder / name} is not the jar that Maven resolved: its SHA-256 is "
                f"{actual[name]}, not {digest}",
                hint="remove that folder; the jars are resolved again",
            )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _finished(version: str) -> Path:
    return cache_dir() / "jars" / version


def logging_binding(jars: Iterable[str]) -> Coordinate | None:
    """Return the slf4j binding for the logger among `jars`; None if `jars` contain it.

    Kafka 4 uses log4j 2, with the version in its pom; Kafka 3 uses reload4j, older ones log4j 1.
    """
    versions = {
        match["name"]: match["version"]
        for jar in jars
        if (match := re.fullmatch(r"(?P<name>.+?)-(?P<version>\d.*)\.jar", jar))
    }
    if versions.keys() & _BINDINGS:
        return None
    slf4j = versions.get("slf4j-api", "1.7.36")
    if log4j := versions.get("log4j-core"):
        name = "log4j-slf4j-impl" if slf4j.startswith("1.") else "log4j-slf4j2-impl"
        return ("org.apache.logging.log4j", name, log4j)
    if "log4j" in versions:
        return ("org.slf4j", "slf4j-log4j12", slf4j)
    return ("org.slf4j", "slf4j-reload4j", slf4j)


def _pom(dependencies: Sequence[Coordinate]) -> str:
    elements = "".join(
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(artifact)}</artifactId>"
        f"<version>{escape(version)}</version></dependency>"
        for group, artifact, version in dependencies
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>io.ackproof</groupId><artifactId>broker</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{elements}</dependencies></project>"
    )


def copy_dependencies(dependencies: Sequence[Coordinate], to: Path, version: str) -> None:
    """Resolve artifacts of a Kafka release with all that they need, and copy the jars to a folder.

    Writes a pom beside the folder. Raises ImageError.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    pom = to.parent / "pom.xml"
    pom.write_text(_pom(dependencies))
    command = [
        "mvn",
        "--batch-mode",
        "--quiet",
        "--update-snapshots",  # looks again for artifacts that were missing before
        "--strict-checksums",
        f"--file={pom}",
        f"-Dmaven.repo.local={cache_dir() / 'maven-repository'}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={to}",
        "-DincludeScope=runtime",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=MAVEN_TIMEOUT_S,
            env={**os.environ, "MAVEN_OPTS": os.environ.get("MAVEN_OPTS", "-Xmx512m")},
        )
    except subprocess.TimeoutExpired as error:
        raise ImageError(
            f"Kafka {version}: Maven did not finish within {MAVEN_TIMEOUT_S} s",
            hint="check the network and Maven's settings.xml",
        ) from error
    if done.returncode:
        raise maven_error(version, done.stdout)


def maven_error(version: str, output: str) -> ImageError:
    """Return the reason in Maven's `output`: missing artifacts, or its first error."""
    missing = sorted(
        set(
            re.findall(
                r"(?:Could not find artifact|Failure to find) ([\w.-]+:[\w.-]+)(?::[\w.-]+)+",
                output,
            )
        )
    )
    if missing:
        lacks = f"{', '.join(missing)} is missing in the required version"
        absent = any(artifact.startswith(_ITSELF) for artifact in missing)
        return ImageError(
            f"Kafka {version} does not exist in the Maven registry: {lacks}"
            if absent
            else f"Kafka {version} is not complete in the Maven registry: {lacks}",
            hint="use any released version of Apache Kafka from 0.10.2.2 on, with all its numbers; "
            "a mirror may get a new release late",
        )
    first = next((line for line in output.splitlines() if "ERROR" in line), output.strip())
    return ImageError(
        f"Kafka {version}: Maven cannot resolve the jars: {first.removeprefix('[ERROR] ')}",
        hint="check the network and Maven's settings.xml",
    )
