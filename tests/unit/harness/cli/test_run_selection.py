"""Which configurations `run` and `compare` select."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.cli import own_files
from ackproof.cli.options import configurations_of
from ackproof.cli.own_files import OwnFiles, scenario_path
from ackproof.errors import AckproofError, ExitCode, ScenarioError

TEXT = """
version: 1
name: b99-test
case: {id: B99, title: t, shows: s}
topics: {orders: {}}
workload: {topic: orders, settings: {acks: all, enable.idempotence: true}}
matrix:
  old: {kafka: "2.6.2", expect: {loss: some}}
  new: {expect: {loss: none}}
  impossible: {case: {skip: it needs a client that no machine has}}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "b99-test.yaml"
    path.write_text(TEXT)
    return path


def names(path: Path, **selection: str) -> list[str]:
    return [one.name for one in configurations_of(path, **selection)]


def test_skipped_configurations_are_left_out_and_named(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names(scenario) == ["old", "new"]
    assert "skipped: it needs a client that no machine has" in capsys.readouterr().err


def test_a_folder_includes_the_folders_in_it(scenario: Path) -> None:
    assert names(scenario.parents[1]) == ["old", "new"]


def test_configurations_are_selected_by_name_and_version(scenario: Path) -> None:
    assert names(scenario, arm="new") == ["new"]
    assert names(scenario, kafka="2.6.2") == ["old"]
    with pytest.raises(ScenarioError, match=r"no configuration is new and 2\.6\.2"):
        names(scenario, arm="new", kafka="2.6.2")


def test_if_all_are_skipped_the_exit_code_is_that_of_the_environment(scenario: Path) -> None:
    with pytest.raises(AckproofError, match="every configuration is skipped") as error:
        names(scenario, arm="impossible")
    assert error.value.exit_code == ExitCode.ENVIRONMENT


def test_a_wrong_expectation_of_an_arm_is_refused_with_its_line(scenario: Path) -> None:
    scenario.write_text(TEXT.replace("expect: {loss: none}", "expect: {los: none}"))
    with pytest.raises(ScenarioError, match=r"yaml:9: expect\.los: .*did you mean 'loss'"):
        names(scenario)


def test_a_warning_names_the_users_own_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = tmp_path / "server.properties"
    server.write_text("default.replication.factor=3\nmin.insync.replicas=3\n")
    own = OwnFiles(server=server)
    own_files.configurations_of(scenario_path(None, own), own, kafka="", assigned=[])
    warning = f"{server}:2: topics.orders.settings.min.insync.replicas: 3 is the replication factor"
    assert warning in capsys.readouterr().err
