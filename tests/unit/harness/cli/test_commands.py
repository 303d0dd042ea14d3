"""Commands that only print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

import ackproof as ap
from ackproof.cli.main import command_tree
from ackproof.containers.images import version_of
from ackproof.errors import ExitCode, ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof_faults import registered
from command_line import ackproof
from support.shipped_scenarios import load_once


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert ackproof("--version") == ExitCode.HOLDS
    assert f"ackproof {ap.__version__}" in capsys.readouterr().out


def test_faults_are_listed_by_family_and_no_word_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert ackproof("faults") == ExitCode.HOLDS
    lines = capsys.readouterr().out.splitlines()
    families = [line for line in lines if not line.startswith(" ")]
    assert families[:3] == ["process", "network", "disk"]
    assert {"clients", "operations", "external", "control"} == set(families[3:])
    assert max(map(len, lines)) <= 80
    listed = {line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "}
    assert set(registered()) <= listed


def test_one_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert ackproof("faults", "kill") == ExitCode.HOLDS
    printed = capsys.readouterr().out
    assert "proof" in printed
    assert "leader of TOPIC-N" in printed
    assert "isolate" not in printed
    assert ackproof("faults", "kill", "--json") == ExitCode.HOLDS
    assert list(json.loads(capsys.readouterr().out)) == ["kill"]
    assert ackproof("faults", "kil") == ExitCode.USAGE
    assert "did you mean 'kill'" in capsys.readouterr().err


def test_help_has_the_commands_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert ackproof("--help") == ExitCode.HOLDS
    listed = re.findall(r"^│ ([a-z]+) ", capsys.readouterr().out, re.M)
    assert listed[:5] == ["audit", "init", "predict", "run", "compare"]
    assert listed.index("scenarios") < listed.index("faults") < listed.index("validate")
    assert listed.index("warehouse") < listed.index("dashboard")


def test_commands_are_few_and_an_option_has_one_type_in_all_of_them() -> None:
    commands: list[Any] = []
    groups: list[Any] = [command_tree()]
    while groups:
        for command in groups.pop().commands.values():
            (groups if hasattr(command, "commands") else commands).append(command)
    assert len(commands) <= 32
    types: dict[str, set[Any]] = {}
    for parameter in (each for command in commands for each in command.params):
        if parameter.param_type_name == "option":
            types.setdefault(parameter.opts[0], set()).add(parameter.type_descriptor.annotation)
    several = {name for name, found in types.items() if len(found) > 1}
    # Each command has levels of its own; `watch` compares several topics.
    assert several == {"--fail-on", "--topic"}
    helps = [each.help or "" for command in commands for each in command.params]
    assert not [text for text in helps if "[default" in text], "rich takes brackets for markup"


def test_scenarios_are_listed_and_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_once(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    assert ackproof("scenarios") == ExitCode.HOLDS
    printed = capsys.readouterr().out
    assert "B6   catalogue/b06-last-replica-standing" in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert ackproof("scenarios", "--json") == ExitCode.HOLDS
    entries = json.loads(capsys.readouterr().out)
    assert {"name", "case", "title"} <= set(entries[0])
    (entry,) = [one for one in entries if one["case"] == "B6"]
    assert entry["name"] == "catalogue/b06-last-replica-standing"
    assert "3.9" in entry["loses_on"]
    assert {"name": "current", "kafka": DEFAULT_KAFKA, "loss": "none"} in entry["arms"]
    assert ackproof("scenarios", "B6", "--json") == ExitCode.HOLDS
    one = json.loads(capsys.readouterr().out)
    assert ackproof("scenarios", "B6") == ExitCode.HOLDS
    assert capsys.readouterr().out == one.pop("text")
    assert one == entry


def test_without_a_scenario_and_files_it_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "predict"):
        assert ackproof(command) == ExitCode.USAGE
        assert "--server" in capsys.readouterr().err
    assert ackproof("predict", "--topic", "orders", "--from-cluster", "") == ExitCode.USAGE


@pytest.mark.parametrize("image", ["apache/kafka:3.9.1", "docker.io/apache/kafka:3.9.1"])
def test_an_image_is_a_version(image: str) -> None:
    assert version_of(image) == "3.9.1"


@pytest.mark.parametrize("image", ["confluentinc/cp-kafka:7.6.0", "apache/kafka:latest", "kafka"])
def test_an_image_of_another_name_is_refused(image: str) -> None:
    with pytest.raises(ScenarioError, match="image"):
        version_of(image)


def test_completion_is_printed() -> None:
    program = "from ackproof.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "_ACKPROOF_COMPLETE": "complete_bash",
            "COMP_WORDS": "ackproof pre",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "predict" in done.stdout
