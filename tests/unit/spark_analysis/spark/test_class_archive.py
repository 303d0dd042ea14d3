"""The archive of Spark's classes is mapped only by the JVM that it fits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import class_archive, connector


@pytest.fixture
def cache(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return connector.cache_dir()


_ASK = """
from ackproof_spark.spark.session import session
jvm = session()._jvm
kind = jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
bean = jvm.java.lang.management.ManagementFactory.getPlatformMXBean(kind)
for option in ("UseSharedSpaces", "SharedArchiveFile"):
    print(bean.getVMOption(option).getValue())
"""


@pytest.mark.spark
@pytest.mark.slow  # ci/test does without the archive
def test_a_session_maps_the_archive():
    archive = class_archive.find()
    if archive is None:
        pytest.skip("no archive: ci/setup writes it")
    # In its own process: the session of the tests has a table format's jars, and so no archive.
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    # The first is false if the archive does not fit the class path.
    assert done.stdout.split() == ["true", str(archive)]


def test_an_archive_of_another_class_path_or_java_is_not_found(cache, monkeypatch):
    monkeypatch.setattr(class_archive, "_write", lambda archive: archive.write_bytes(b"classes"))
    assert class_archive.find() is None
    archive = class_archive.ensure()
    assert class_archive.find() == archive
    assert sorted(path.name for path in cache.iterdir()) == ["classes.jsa", "classes.key"]

    jars = cache / "jars"
    jars.mkdir()
    (jars / "finished").touch()
    (jars / "another.jar").touch()
    assert class_archive.find() is None
    assert class_archive.ensure() == archive

    os.utime(jars / "another.jar", (1, 1))
    assert class_archive.find() is None
    class_archive.ensure()
    monkeypatch.setattr(connector, "java_version", lambda: "99")
    assert class_archive.find() is None


def test_a_java_that_writes_no_archive_is_an_error(cache, monkeypatch, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\nexit 0\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    with pytest.raises(AnalysisError, match=r"Java 17\.0\.1 wrote no archive"):
        class_archive.ensure()
    assert list(cache.iterdir()) == []
