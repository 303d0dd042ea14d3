"""Broker images of a user's build of Kafka."""

from __future__ import annotations

import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.containers import images, own_image
from ackproof.errors import ImageError, ScenarioError
from ackproof.machine import silent


def built(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    """Return the reference and the jars of the image that is built."""
    jars: list[str] = []

    def build_from(client: Any, reference: str, paths: list[Path], **_: Any) -> None:
        jars.extend(jar.name for jar in paths)

    monkeypatch.setattr(images, "is_current", lambda *_: False)
    monkeypatch.setattr(images, "build_from", build_from)
    image = own_image.own_image(
        image="",
        distribution=str(path),
        kafka="4.3.1",
        client=SimpleNamespace(),
        say=silent,
    )
    assert image is not None
    return image.reference, jars


def distribution(folder: Path, *names: str) -> Path:
    (folder / "libs").mkdir(parents=True)
    for name in names:
        (folder / "libs" / name).write_bytes(name.encode())
    return folder


JARS = ("kafka-clients-4.4.0-SNAPSHOT.jar", "kafka_2.13-4.4.0-SNAPSHOT.jar")


def test_a_folder_and_its_archive_give_the_same_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = distribution(tmp_path / "kafka_2.13-4.4.0-SNAPSHOT", *JARS)
    with tarfile.open(tmp_path / "kafka.tgz", "w:gz") as archive:
        archive.add(folder, "kafka_2.13-4.4.0-SNAPSHOT")
    reference, jars = built(folder, monkeypatch)
    assert (reference, jars) == built(tmp_path / "kafka.tgz", monkeypatch)
    assert jars == sorted(JARS)
    assert reference.startswith("ackproof/kafka:own-")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("absent", "neither a folder nor an archive"),
        ("other.tgz", "cannot be unpacked"),
        ("spark", r"is no Kafka: there is no kafka_2\.13-\*\.jar in its libs"),
    ],
)
def test_a_path_without_kafka_is_refused(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "other.tgz").write_bytes(b"no archive")
    distribution(tmp_path / "spark", "spark-core_2.13-4.0.0.jar")
    with pytest.raises(ScenarioError, match=says):
        built(tmp_path / name, monkeypatch)


@pytest.mark.parametrize(
    ("java", "kafka", "legal"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "4.3.1", True),
        ('openjdk version "11.0.27" 2025-04-15', "4.0.2", False),
        ('openjdk version "11.0.27" 2025-04-15', "3.9.2", True),
        ('openjdk version "1.8.0_292"', "2.8.2", True),
    ],
)
def test_an_image_whose_java_is_too_old_for_its_kafka_is_refused(
    java: str, kafka: str, legal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "exists", lambda *_: True)
    run = SimpleNamespace(run=lambda *_, **__: f"/opt/kafka/libs/kafka_2.13-x.jar\n{java}".encode())
    client: Any = SimpleNamespace(containers=run)

    def own() -> Any:
        return own_image.own_image(
            image="mine", distribution="", kafka=kafka, client=client, say=silent
        )

    if legal:
        assert own().version == kafka
    else:
        with pytest.raises(
            ImageError, match=r"has Java 11, and brokers of Kafka 4\.0\.2 need Java 17"
        ):
            own()
