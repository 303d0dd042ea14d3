"""The broker image of a user's own build of Kafka, given as an image or as a distribution.

The image has the layout that `images` describes. A distribution is a folder or an archive (.tgz,
.tar.gz, .zip) with Kafka's jars in `libs/`, as `./gradlew releaseTarGz` builds it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from docker import DockerClient
from docker.errors import APIError, ContainerError

from ackproof.containers import images
from ackproof.containers.engine import LABEL
from ackproof.containers.images import BrokerImage
from ackproof.errors import ImageError, ScenarioError
from ackproof.kafka_versions import numbers
from ackproof.machine import Say, cache_dir, exclusive

_CORE_JAR = re.compile(r"kafka_2\.1[0-9]-(?P<version>[0-9].*)\.jar")

#: Of brokers, from Kafka 4.0 on (KIP-1013).
_OLDEST_JAVA = 17

_ARCHIVES = (".tgz", ".tar.gz", ".zip")


def own_image(
    *, image: str, distribution: str, kafka: str, client: DockerClient, say: Say
) -> BrokerImage | None:
    """Return the user's own image of a scenario; None if the scenario has neither key.

    Raises ScenarioError for an invalid distribution, ImageError for an image that is absent, does
    not contain Kafka, or cannot be built.
    """
    if image:
        return _existing(image, kafka=kafka, client=client, say=say)
    if distribution:
        return _built(Path(distribution), kafka=kafka, client=client, say=say)
    return None


def _existing(reference: str, *, kafka: str, client: DockerClient, say: Say) -> BrokerImage:
    if not images.exists(client, reference) and (reason := images.pull(client, reference, say)):
        raise ImageError(
            f"cluster.image: the engine has no image {reference!r}, and it cannot be pulled: "
            f"{reason}"
        )
    java = _java_of(reference, client)
    if java is None:
        raise ImageError(
            f"cluster.image: {reference!r} is no Kafka: it lacks bash, java, or a kafka_2.13-*.jar "
            "in /opt/kafka/libs",
            hint="Lay it out as apache/kafka is, or use cluster.distribution.",
        )
    if java < _OLDEST_JAVA and numbers(kafka) >= (4,):
        raise ImageError(
            f"cluster.image: {reference!r} has Java {java}, and brokers of Kafka {kafka} need Java "
            f"{_OLDEST_JAVA} or later",
            hint=f"Use an image with Java {_OLDEST_JAVA}, or set cluster.kafka to what it runs.",
        )
    return BrokerImage(reference=reference, source="local", version=kafka)


def _java_of(reference: str, client: DockerClient) -> int | None:
    """Return the major version of an image's Java; None if the image is no Kafka."""
    try:
        said = client.containers.run(
            reference,
            entrypoint=["bash", "-c"],
            command=["ls /opt/kafka/libs/kafka_2.1[0-9]-*.jar && java -version 2>&1"],
            labels={LABEL: "own-image"},
            network_mode="none",
            remove=True,
        )
    except (APIError, ContainerError):
        return None
    version = re.search(rb'version "(?:1\.)?(\d+)', said)
    return int(version[1]) if version else None


def _built(path: Path, *, kafka: str, client: DockerClient, say: Say) -> BrokerImage:
    with exclusive("images", say):
        jars, unpacked = _jars(path)
        try:
            version = _version(path, jars)
            digest = hashlib.sha256()
            for jar in jars:
                digest.update(jar.name.encode())
                digest.update(jar.read_bytes())
            reference = f"{images.BUILT}:own-{digest.hexdigest()[:12]}"
            if not images.is_current(client, reference, kafka):
                say(f"{path} is Kafka {version}")
                images.build_from(client, reference, jars, version=kafka, say=say)
        finally:
            if unpacked is not None:
                shutil.rmtree(unpacked, ignore_errors=True)
    return BrokerImage(reference=reference, source="built", version=kafka)


def _jars(path: Path) -> tuple[list[Path], Path | None]:
    """Return the jars of a distribution, and the folder that an archive was unpacked to."""
    if path.is_dir():
        return sorted((path / "libs").glob("*.jar")), None
    if not path.is_file() or not path.name.endswith(_ARCHIVES):
        raise ScenarioError(
            f"cluster.distribution: {path} is neither a folder nor an archive "
            f"({', '.join(_ARCHIVES)})"
        )
    folder = cache_dir() / "own-distribution"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        _take_jars(path, folder)
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise ScenarioError(f"cluster.distribution: {path} cannot be unpacked: {error}") from None
    return sorted(folder.glob("*.jar")), folder


def _take_jars(archive: Path, folder: Path) -> None:
    """Write the jars of an archive's `libs` into a folder, without their paths."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if _is_jar(name):
                    (folder / PurePosixPath(name).name).write_bytes(zipped.read(name))
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and _is_jar(member.name):
                content = tar.extractfile(member)
                assert content is not None  # it is a file
                (folder / PurePosixPath(member.name).name).write_bytes(content.read())


def _is_jar(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".jar" and path.parent.name == "libs"


def _version(path: Path, jars: Sequence[Path]) -> str:
    for jar in jars:
        if match := _CORE_JAR.fullmatch(jar.name):
            return match["version"]
    raise ScenarioError(
        f"cluster.distribution: {path} is no Kafka: there is no kafka_2.13-*.jar in its libs",
        hint="Name what `./gradlew releaseTarGz` makes in core/build/distributions.",
    )
