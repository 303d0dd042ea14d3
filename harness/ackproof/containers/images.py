"""The broker image of a Kafka version, and the sidecar image of faults.

A broker image comes from the first of these sources that has it: the engine
(`apache/kafka:<version>`, then `ackproof/kafka:<version>`, which is built here); a registry
(`apache/kafka:<version>`); a build from Kafka's Maven artifacts on a Debian base. Both images have
`/opt/kafka/libs/*.jar`, `java` and `bash` on the PATH, and run as uid 1000. Scripts of Kafka's
tools are in `/opt/kafka/bin`: all in the published image, those of `kafka_tools` in a built one.
A built image is built again after its recipe has changed. This command boots a broker in either::

    java $JAVA_OPTIONS -cp '/opt/kafka/libs/*' kafka.Kafka server.properties
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from docker import DockerClient
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image
from requests import RequestException

from ackproof.containers.engine import connect
from ackproof.containers.image_build import (
    BASE,
    LABEL_IMAGE,
    LABEL_RECIPE,
    PACKAGES,
    base_problems,
    base_tarball,
    bootstrap,
    build_base,
    docker_build,
    recipe,
    template,
)
from ackproof.containers.kafka_tools import scripts
from ackproof.containers.maven import jars_problem, kafka_jars
from ackproof.errors import ImageError, ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA, numbers, uses_zookeeper
from ackproof.machine import Say, exclusive, silent

PUBLISHED = "apache/kafka"
BUILT = "ackproof/kafka"
SIDECAR = "ackproof/sidecar:1"

#: Where the volume of a node is mounted.
VOLUME_DIR = "/var/lib/ackproof"
#: The first log directory of a broker or controller, and ZooKeeper's data directory.
DATA_DIR = f"{VOLUME_DIR}/data"
#: The configuration of a node, and its secrets.
CONFIG_DIR = "/etc/ackproof"

JAVA_OPTIONS = (
    "-XX:SharedArchiveFile=/opt/kafka/kafka.jsa",
    "-Xlog:cds=off",
    "-Xlog:cds+dynamic=off",
)
"""JVM options that shorten a broker's start in an image built here, with exactly `CLASSPATH`.

Without the archive, or with one for another class path (in the published image), the JVM starts
without it.
"""

REGISTRY_TIMEOUT_S = 15.0
"""How long the engine may take to report whether a registry has an image."""

_PUBLISHED_SINCE = (3, 7)  # KIP-975

_BUILD_HINT = "to build one, on Debian as root: apt-get install maven mmdebstrap"

Source = Literal["local", "pulled", "built"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """An image on this engine that runs Kafka `version`.

    `source` is where it came from; `reason`: why a built image was not pulled, else ''.
    """

    reference: str
    source: Source
    version: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalImage:
    """A broker image or an image of ackproof on this engine.

    `kind` is a Kafka version, `base`, `sidecar`, or an image of `ci/image`: `ackproof`, `python`.
    """

    reference: str
    kind: str
    size_bytes: int

    @property
    def of_brokers(self) -> bool:
        return self.kind[:1].isdigit()


def version_of(image: str) -> str:
    """Return the Kafka version of an image's name: `4.3.1` for `apache/kafka:4.3.1`.

    Raises ScenarioError for other names, because ackproof cannot configure their brokers.
    """
    repository, _, tag = image.removeprefix("docker.io/").rpartition(":")
    try:
        if repository in (PUBLISHED, "ackproof/kafka"):
            numbers(tag)
            return tag
    except ValueError as error:
        raise ScenarioError(f"image {image!r}: {error}") from None
    raise ScenarioError(
        f"image {image!r} is not one that ackproof can run",
        hint=f"Write {PUBLISHED}:VERSION, or kafka=VERSION.",
    )


def ensure(
    version: str = DEFAULT_KAFKA, *, client: DockerClient | None = None, say: Say = silent
) -> BrokerImage:
    """Return a broker image for `version`; pull or build it if the engine has none.

    Raises ScenarioError for other than a version, EngineError, and ImageError if the image can be
    neither pulled nor built here.
    """
    check_version(version)
    client = client or connect()
    if local := _local(client, version):
        return local
    with exclusive("images", say):
        if local := _local(client, version):  # another process built it meanwhile
            return local
        if older := _found(client, f"{BUILT}:{version}"):
            return _renewed(client, older, version, say)
        published = f"{PUBLISHED}:{version}"
        reason = f"{PUBLISHED} exists from 3.7.0 on"
        if numbers(version) >= _PUBLISHED_SINCE:
            reason = pull(client, published, say)
        if not reason:
            say(f"pulled {published}")
            return BrokerImage(reference=published, source="pulled", version=version)
        say(f"{published} cannot be pulled: {reason}")
        if problems := _build_problems(client, version):
            raise ImageError(
                f"no broker image for Kafka {version}: the engine has none, {published} cannot be "
                f"pulled ({reason}), and none can be built here: {'; '.join(problems)}",
                hint=f"`docker pull {published}` or `docker load` must work; {_BUILD_HINT}",
            )
        reference = _build(client, version, say)
        return BrokerImage(reference=reference, source="built", version=version, reason=reason)


def _renewed(client: DockerClient, older: Image, version: str, say: Say) -> BrokerImage:
    """Build an image again, and remove the older one, which stays in use if the build fails."""
    try:
        reference = _build(client, version, say)
    except ImageError as error:
        say(f"the image of an older recipe is used: {error.message}")
        return BrokerImage(reference=f"{BUILT}:{version}", source="local", version=version)
    with suppress(APIError):  # a container of it still exists
        client.images.remove(str(older.id))
    return BrokerImage(reference=reference, source="built", version=version)


def build(
    version: str = DEFAULT_KAFKA, *, client: DockerClient | None = None, say: Say = silent
) -> BrokerImage:
    """Build `ackproof/kafka:<version>` without a container registry, even if an image exists.

    Raises ScenarioError for other than a version, EngineError, ImageError.
    """
    check_version(version)
    client = client or connect()
    with exclusive("images", say):
        if problems := _build_problems(client, version):
            raise ImageError(
                f"no image for Kafka {version} can be built here: {'; '.join(problems)}",
                hint=_BUILD_HINT,
            )
        return BrokerImage(reference=_build(client, version, say), source="built", version=version)


def prepare(version: str = DEFAULT_KAFKA, *, say: Say = silent) -> None:
    """Unpack the base image's tarball and fetch Kafka's jars for a build; this needs no engine.

    Does nothing if no image can be built here. Raises ImageError if a part cannot be made.
    """
    with exclusive("images", say):
        if (base_tarball().exists() or not base_problems()) and not jars_problem(version):
            _parts(version, say, base=True)


def ensure_sidecar(*, client: DockerClient | None = None) -> str:
    """Return an image with `nft`, `tc`, `ss` and `bash`; build it if the engine has none.

    It is the base image if that exists or can be built, otherwise a small image on a public Debian.
    Raises EngineError, and ImageError if neither can be built here.
    """
    client = client or connect()
    for reference in (BASE, SIDECAR):
        if exists(client, reference):
            return reference
    with exclusive("images", silent):
        for reference in (BASE, SIDECAR):
            if exists(client, reference):
                return reference
        problems = () if base_tarball().exists() else base_problems()
        if not problems:
            return build_base(client, silent)
        return _build_sidecar(client, problems)


def list_images(client: DockerClient) -> tuple[LocalImage, ...]:
    """List the broker images and ackproof's images on this engine, by reference."""
    labelled = client.api.images(filters={"label": LABEL_IMAGE})
    published = client.api.images(name=PUBLISHED)
    by_tag = {
        tag: LocalImage(
            reference=tag,
            kind=(item["Labels"] or {}).get(LABEL_IMAGE) or tag.rpartition(":")[2],
            size_bytes=item["Size"],
        )
        for item in (*labelled, *published)
        for tag in item["RepoTags"] or ()
        if tag != "<none>:<none>"
    }
    return tuple(by_tag[tag] for tag in sorted(by_tag))


def check_version(version: str) -> None:
    """Raise ScenarioError unless `version` is a release, such as 4.3.1 or 4.4.0-rc1."""
    try:
        numbers(version)
    except ValueError as error:
        raise ScenarioError(str(error)) from None


def exists(client: DockerClient, reference: str) -> bool:
    return _found(client, reference) is not None


def is_current(client: DockerClient, reference: str, version: str) -> bool:
    """Whether the engine has an image that was built as one for `version` is built today."""
    image = _found(client, reference)
    return image is not None and image.labels.get(LABEL_RECIPE) == recipe(_texts(version))


def _found(client: DockerClient, reference: str) -> Image | None:
    try:
        return client.images.get(reference)
    except ImageNotFound:
        return None


def _local(client: DockerClient, version: str) -> BrokerImage | None:
    """Return an image that the engine has; None if it has none, or one that can be renewed."""
    reference = f"{PUBLISHED}:{version}"
    if not exists(client, reference):
        reference = f"{BUILT}:{version}"
        renewable = not is_current(client, reference, version)
        if renewable and (not exists(client, reference) or not _build_problems(client, version)):
            return None
    return BrokerImage(reference=reference, source="local", version=version)


def pull(client: DockerClient, reference: str, say: Say) -> str:
    """Pull an image; return '' on success, else the reason in one line.

    A pull has no timeout, so a request with a timeout first checks that the registry has the image.
    """
    try:
        with _request_timeout(client, REGISTRY_TIMEOUT_S):
            client.api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        say(f"pulling {reference}")
        repository, _, tag = reference.rpartition(":")
        client.images.pull(repository, tag=tag)
    except APIError as error:
        return str(error.explanation or error)
    except RequestException:
        return f"no container registry answered within {REGISTRY_TIMEOUT_S:.0f} s"
    return ""


@contextmanager
def _request_timeout(client: DockerClient, seconds: float) -> Iterator[None]:
    api: Any = client.api
    before = api.timeout
    api.timeout = seconds
    try:
        yield
    finally:
        api.timeout = before


def _build_problems(client: DockerClient, version: str) -> list[str]:
    has_base = exists(client, BASE) or base_tarball().exists()
    problems = [*(() if has_base else base_problems()), jars_problem(version)]
    return [problem for problem in problems if problem]


def _build(client: DockerClient, version: str, say: Say) -> str:
    jars = _parts(version, say, base=not exists(client, BASE))
    reference = f"{BUILT}:{version}"
    build_from(client, reference, sorted(jars.iterdir()), version=version, say=say)
    return reference


def _parts(version: str, say: Say, *, base: bool) -> Path:
    """Return the folder of Kafka's jars; afterwards the cache has the tarball of the base, too."""
    tarball = base_tarball()
    with ThreadPoolExecutor(1) as other:  # the base is unpacked while Maven resolves the jars
        wanted = base and not tarball.exists()
        unpacked = other.submit(bootstrap, tarball, PACKAGES, say) if wanted else None
        jars = kafka_jars(version, say)
        if unpacked is not None:
            unpacked.result()
    return jars


def build_from(
    client: DockerClient, reference: str, jars: Iterable[Path], *, version: str, say: Say
) -> None:
    """Build a broker image from Kafka's jars, which behave as `version` does.

    The caller must hold the build lock. The image is tagged after its smoke test. Raises ImageError
    if that fails.
    """
    if not exists(client, BASE):
        build_base(client, say)
    say(f"building {reference}")
    docker_build(
        client,
        reference,
        kind=version,
        texts=_texts(version),
        paths={f"libs/{jar.name}": jar for jar in jars},
        arguments={"BASE": BASE},
    )
    say(f"built {reference}")


def _texts(version: str) -> dict[str, str]:
    """Return the texts in the build context of a broker image, by their names."""
    smoke_test = "smoke-test-zookeeper" if uses_zookeeper(version) else "smoke-test"
    return {
        "Dockerfile": template("kafka/Dockerfile"),
        "smoke-test": template(f"kafka/{smoke_test}"),
        **{name: template(f"kafka/{name}") for name in ("log4j2.xml", "log4j.properties")},
        **{f"bin/{name}": text for name, text in scripts().items()},
    }


def _build_sidecar(client: DockerClient, problems: tuple[str, ...]) -> str:
    dockerfile = template("sidecar/Dockerfile")
    [parent] = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    if not exists(client, parent) and (reason := pull(client, parent, silent)):
        raise ImageError(
            f"no image for network faults: {BASE} cannot be built ({'; '.join(problems)}), "
            f"and {parent} cannot be pulled: {reason}",
            hint=f"`docker pull {parent}` or `docker load` must work; {_BUILD_HINT}",
        )
    docker_build(client, SIDECAR, kind="sidecar", texts={"Dockerfile": dockerfile})
    return SIDECAR
