"""The comparison of a Kafka release with the release before."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import new_kafka
import pytest

from ackproof.errors import AckproofError
from ackproof.observation.broker_log import PATTERNS, Kind

PIECES = {kind: new_kafka.pieces(pattern.pattern) for kind, pattern in PATTERNS.items()}


def test_each_pattern_has_constants_to_look_for() -> None:
    assert all(PIECES.values())
    assert PIECES[Kind.UNFENCED] == ["The broker has been unfenced."]
    assert " starts at leader epoch " in PIECES[Kind.LEADER]


@pytest.mark.parametrize("changed", [False, True])
def test_a_changed_log_line_is_reported(
    changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = "\n".join(piece for found in PIECES.values() for piece in found)
    texts = {"4.4.0": every, "4.5.0": every.replace("unfenced.", "released.") if changed else every}
    for version, text in texts.items():
        with zipfile.ZipFile(tmp_path / f"kafka-server-{version}.jar", "w") as jar:
            jar.writestr("kafka/server/Log.class", text)
    monkeypatch.setattr(
        new_kafka, "kafka_jars", lambda version: [tmp_path / f"kafka-server-{version}.jar"]
    )
    steps = new_kafka.logs("4.5.0", "4.4.0")
    if changed:
        assert next(steps) == "unfenced: no class has 'The broker has been unfenced.' any more"
        with pytest.raises(AckproofError, match="may match no line"):
            list(steps)
    else:
        assert list(steps) == [f"{len(PATTERNS)} patterns: the constants of 4.4.0"]


def test_a_release_is_compared_with_the_newest_one_before_it() -> None:
    assert new_kafka.release_before("4.2.2") == "4.1.2"
    assert new_kafka.release_before("5.0.0") == new_kafka.stored_versions()[-1]
    with pytest.raises(ValueError, match="--before"):
        new_kafka.release_before("0.10.2.2")


@pytest.mark.parametrize("version", ["4.4.1", "4.5.0", "5.0.0"])
def test_a_new_default_is_a_known_release(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (new_kafka.PACKAGE / "kafka_versions.py").read_text()
    changed: Any = ModuleType("changed")
    monkeypatch.setitem(sys.modules, "changed", changed)
    exec(compile(new_kafka.with_default(source, version), "changed", "exec"), vars(changed))
    assert version == changed.DEFAULT_KAFKA
    *line, number = changed.numbers(version)
    assert changed._LAST[tuple(line)] == number
    assert changed._LAST.keys() >= {(3, 9), (4, 3), (4, 4)}
    assert changed.RELEASES[-1] == version


@pytest.mark.parametrize(("version", "line"), [("4.3.2", (4, 4)), ("4.5.0", (4, 5))])
def test_the_model_knows_the_rules_of_a_compared_line(
    version: str, line: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (new_kafka.ROOT / "reference_model/ackproof_model/configuration.py").read_text()
    changed: Any = ModuleType("changed")
    monkeypatch.setitem(sys.modules, "changed", changed)
    exec(compile(new_kafka.with_newest(source, version), "changed", "exec"), vars(changed))
    assert line == changed.NEWEST
