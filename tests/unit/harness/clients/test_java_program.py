"""What the Java clients need of the machine; each thing that is missing has one message."""

from __future__ import annotations

import json

import pytest

from ackproof.clients import java_client
from ackproof.containers import maven
from ackproof.errors import ImageError, WorkloadError
from ackproof.machine import silent


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ackproof"


def test_a_machine_without_java_is_told_to_install_it(cache, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WorkloadError, match="needs Java, which is not on the PATH") as refused:
        java_client.command("9.9.9", "producer", cache)
    assert "apt-get install" in refused.value.hint


def test_a_specification_becomes_properties_that_java_reads_back():
    fields = {"into": {"a.b": 1}, "no": None, "list": (1, True), "x y": "=\\\n", "empty": []}
    assert java_client.properties(fields).splitlines() == [
        "into.a.b=1",
        "list=1,true",
        r"x\u0020y=\u003d\u005c\u000a",
        "empty=",
    ]


def test_a_version_that_is_not_cached_needs_maven(cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ImageError, match=r"kafka-clients 3\.9\.1 is not in the cache"):
        maven.client_jars("3.9.1", silent)


@pytest.mark.parametrize(
    ("content", "problem"), [(b"other", "is not the jar that Maven resolved"), (None, "damaged")]
)
def test_a_jar_that_changed_in_the_cache_is_refused(cache, content, problem):
    folder = cache / "client-jars" / "3.9.1"
    folder.mkdir(parents=True)
    jar = folder / "kafka-clients-3.9.1.jar"
    jar.write_bytes(b"jar")
    (folder / "sha256.json").write_text(json.dumps({jar.name: maven._digest(jar)}))
    assert maven.client_jars("3.9.1", silent) == folder
    jar.unlink()
    if content is not None:
        jar.write_bytes(content)
    with pytest.raises(ImageError, match=problem) as refused:
        maven.client_jars("3.9.1", silent)
    assert "remove that folder" in refused.value.hint
