"""A missing Java or package is reported in one message; incomplete fetches do not count."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import connector


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return connector.cache_dir()


def _java(home: Path, says: str, status: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return home


def test_cache_is_the_users_and_names_the_spark_version(tmp_path):
    assert connector.cache_dir() == (
        tmp_path / "cache" / "ackproof" / f"spark-{connector.spark_version()}"
    )


@pytest.mark.parametrize(
    ("says", "major"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21" 2023-09-19 LTS', 21)],
)
def test_java_is_recognised(monkeypatch, tmp_path, says, major):
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk", says)))
    assert connector.check_java() == major


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ('java version "1.8.0_292"', 0),
        ('openjdk version "11.0.2" 2019-01-15', 0),
        ("who knows", 0),
        ("broken", 1),
    ],
)
def test_old_or_broken_java_is_refused_by_name(monkeypatch, tmp_path, says, status):
    home = _java(tmp_path / "jdk", says, status)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(AnalysisError, match=f"Java 17 or later.*{home}.*JAVA_HOME"):
        connector.check_java()


def test_no_java_at_all_is_refused(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AnalysisError, match="'java' does not run"):
        connector.check_java()


def _fetches(monkeypatch, *names: str, fails: bool = False) -> list[Path]:
    """Replace Spark's fetching; return the folders that it had to fill."""
    asked: list[Path] = []

    def fetch(ivy: Path, package: connector.Package) -> None:
        asked.append(ivy)
        (ivy / "jars").mkdir()
        for name in names:
            (ivy / "jars" / name).touch()
        if fails:
            raise AnalysisError("cut short")

    monkeypatch.setattr(connector, "_fetch", fetch)
    return asked


def test_jars_are_fetched_once(monkeypatch):
    asked = _fetches(monkeypatch, "org.example_kafka-clients-3.9.0.jar")
    assert connector.jars() == []
    fetched = connector.resolve()
    assert [jar.name for jar in fetched if jar.exists()] == ["org.example_kafka-clients-3.9.0.jar"]
    assert connector.resolve() == connector.jars() == fetched
    assert len(asked) == 1


def test_a_jar_with_a_different_digest_than_published_is_refused(monkeypatch, cache):
    monkeypatch.setattr(connector, "spark_version", lambda: "4.1.1")
    name = "org.apache.spark_spark-sql-kafka-0-10_2.13-4.1.1.jar"
    _fetches(monkeypatch, name)  # an empty file
    with pytest.raises(AnalysisError, match=rf"{name} is not the jar that was published"):
        connector.resolve()
    assert connector.jars() == []


def test_an_interrupted_fetch_does_not_count(monkeypatch, cache):
    _fetches(monkeypatch, "org.example_half.jar", fails=True)
    with pytest.raises(AnalysisError, match="cut short"):
        connector.resolve()
    assert connector.jars() == []
    assert list(cache.iterdir()) == []


def test_the_reason_of_a_failed_fetch_is_returned_once_and_kept_for_doctor(monkeypatch, cache):
    from ackproof import doctor

    monkeypatch.setattr(connector, "check_java", lambda: 17)
    asked = _fetches(monkeypatch, fails=True)
    assert connector.failure() == ""
    assert connector.attempt() == "cut short"
    assert (connector.attempt(), connector.failure()) == ("", "cut short")
    assert len(asked) == 1, "it is not tried again on the same day"
    [check] = [check for check in doctor._host(cache) if check.what == "Spark's Kafka connector"]
    assert (check.state, check.found) == ("limited", "cut short")

    os.utime(cache / connector._NOT_FETCHED, (0, 0))
    assert connector.attempt() == "", "the same reason is not told again"
    os.utime(cache / connector._NOT_FETCHED, (0, 0))
    _fetches(monkeypatch, "org.example_whole.jar")
    assert connector.attempt() == connector.failure() == ""
    assert len(connector.jars()) == 1


def test_the_reason_names_what_ivy_could_not_find(monkeypatch, tmp_path):
    report = "resolving\n\t\t:: org.apache.spark#a;4.1.1: not found\nmore\n"
    done = SimpleNamespace(returncode=1, stderr=report, stdout="")
    monkeypatch.setattr(connector, "spark_submit", lambda *_, **__: done)
    with pytest.raises(
        AnalysisError, match=r"could not be fetched \(:: org.apache.spark#a;4.1.1: not"
    ):
        connector._fetch(tmp_path, connector.Package.KAFKA)


def test_jars_without_the_finished_mark_are_fetched_again(monkeypatch, cache):
    (cache / "jars").mkdir(parents=True)
    (cache / "jars" / "org.example_half.jar").touch()
    assert connector.jars() == []
    _fetches(monkeypatch, "org.example_whole.jar")
    assert [jar.name for jar in connector.resolve()] == ["org.example_whole.jar"]


def test_of_two_fetches_at_once_one_wins_and_both_succeed(monkeypatch):
    _fetches(monkeypatch, "org.example_first.jar")
    fetch = connector._fetch

    def fetch_while_another_finishes(ivy: Path, package: connector.Package) -> None:
        monkeypatch.setattr(connector, "_fetch", fetch)
        connector.resolve()
        (ivy / "jars").mkdir()
        (ivy / "jars" / "org.example_second.jar").touch()

    monkeypatch.setattr(connector, "_fetch", fetch_while_another_finishes)
    assert [jar.name for jar in connector.resolve()] == ["org.example_first.jar"]


def test_jars_that_spark_has_are_dropped(monkeypatch):
    import pyspark

    brought = next((Path(pyspark.__file__).parent / "jars").glob("slf4j-api-*.jar")).name
    same = f"org.slf4j_{brought}"
    _fetches(monkeypatch, same, "org.slf4j_slf4j-api-1.0.jar", "org.example_new.jar")
    assert [jar.name for jar in connector.resolve()] == ["org.example_new.jar"]


def test_each_package_has_its_own_folder(monkeypatch):
    _fetches(monkeypatch, "org.example_delta.jar")
    connector.resolve(connector.Package.DELTA)
    assert connector.jars() == []
    _fetches(monkeypatch, "org.example_kafka.jar")
    connector.resolve()
    names = [[jar.name for jar in connector.jars(package)] for package in connector.Package]
    assert names == [["org.example_kafka.jar"], ["org.example_delta.jar"], [], []]


@pytest.mark.parametrize("package", [connector.Package.DELTA, connector.Package.ICEBERG])
def test_a_spark_for_which_no_version_of_a_format_is_known_is_refused(monkeypatch, package):
    monkeypatch.setattr(connector, "spark_version", lambda: "4.9.0")
    with pytest.raises(AnalysisError, match=r"pyspark 4\.9\.0 .*Parquet needs none"):
        connector.coordinates(package)


@pytest.mark.parametrize(
    ("version", "refused"), [("3.5.9", True), ("4.0.0", False), ("4.1.1", False), ("4.10.0", False)]
)
def test_a_spark_that_is_too_old_is_refused(monkeypatch, version, refused):
    monkeypatch.setattr(connector.importlib.metadata, "version", lambda _: version)
    if refused:
        with pytest.raises(AnalysisError, match=rf"{version} is too old; .*pyspark==4\.1\.1"):
            connector.spark_version()
    else:
        assert connector.spark_version() == version


def test_extras_allow_only_versions_that_were_tried():
    """Other versions lack a part of the connector at some package sources."""
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    pins = {
        name: [line.partition("==")[2] for line in lines if line.startswith("pyspark")]
        for name, lines in project["optional-dependencies"].items()
        if any(line.startswith("pyspark") for line in lines)
    }
    default, other = connector.TRIED
    assert pins == {"run": [default], "spark42": [other], "connect": [default]}
    for version in connector.TRIED:
        assert (Path(connector.__file__).parent / f"pinned-{version}.json").is_file()


def test_a_failed_fetch_reports_the_missing_artifact_without_a_stack_trace(monkeypatch, tmp_path):
    report = """\t\t::          UNRESOLVED DEPENDENCIES         ::

\t\t::::::::::::::::::::::::::::::::::::::::::::::

\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:539)
"""
    done = subprocess.CompletedProcess([], 1, "", report)
    monkeypatch.setattr(connector, "spark_submit", lambda *_, **__: done)
    with pytest.raises(AnalysisError, match=r"4\.3\.0: not found") as refused:
        connector._fetch(tmp_path, connector.Package.KAFKA)
    assert "MavenUtils" not in str(refused.value)
    assert connector.INSTALL in str(refused.value)
