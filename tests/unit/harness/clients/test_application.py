"""An application is followed by its acked log, and what it does wrong is said."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from ackproof.clients.application_process import ApplicationSupervisor, supervisor_of
from ackproof.errors import ScenarioError, WorkloadError
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from support.run_directories import small
from waiting import until

ACK = "open(os.environ['ACKPROOF_ACKED'], 'a').write(json.dumps(line) + chr(10))"
LINE = "line = {'topic': 'orders', 'partition': 0, 'offset': 1, 'key': 'a'}"


def application(folder: Path, *program: str, ends_within: float = 60) -> ApplicationSupervisor:
    """An application whose program is these lines of Python."""
    source = "\n".join(["import json, os, signal, sys, time", LINE, *program])
    own = {"command": [sys.executable, "-c", source], "ends_within": ends_within}
    settings = {"acks": 1, "enable.idempotence": False}
    scenario = Scenario.model_validate(small(workload={"application": own, "settings": settings}))
    return ApplicationSupervisor(
        scenario, folder, bootstrap_servers="127.0.0.1:9", secrets={"sasl.password": "p"}
    )


def test_its_acks_are_counted_while_it_runs_and_it_is_asked_to_end(tmp_path: Path) -> None:
    with application(tmp_path, ACK, "signal.pause()") as running:
        until(lambda: running.progress().acked == 1, "the ack is not seen")
        assert running.restart_crashed()
        running.stop_producers()
        assert running.await_producers() == []
        assert not running.restart_crashed()


@pytest.mark.parametrize(
    ("application", "says"),
    [
        ({"command": []}, "command is missing"),
        ({"command": ["/no/such/program"]}, "'/no/such/program' is no program"),
        ({"command": [__file__]}, "is no program that can be run"),
        ({"command": ["sh"], "environment": {"PATH": "/no"}}, "'sh' is no program"),
        ({"command": ["sh"], "logs": [__file__]}, "exists already"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_boots(
    application: dict[str, object], says: str
) -> None:
    scenario = Scenario.model_validate(small(workload={"application": application}))
    with pytest.raises(ScenarioError, match=says):
        supervisor_of(scenario).require_startable(scenario)


APPLICATION = """version: 1
name: app
topics: {orders: {}, invoices: {}}
workload:
  topic: orders
  application: {command: [shop]}
  settings: {acks: all, enable.idempotence: true}
  consumers: {billing: {into: %s}}
faults: [{fault: crash_client, client: %s}]
"""


@pytest.mark.parametrize(
    ("into", "client", "problem"),
    [
        ("[]", "consumers", ""),
        ("[invoices]", "consumers", "not recognized in the topics that they are forwarded to"),
        ("[]", "producers", "'crash_client' acts on ackproof's own producers"),
    ],
)
def test_groups_beside_it_may_read_and_be_hit(
    tmp_path: Path, into: str, client: str, problem: str
) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(APPLICATION % (into, client))
    with pytest.raises(ScenarioError, match=problem) if problem else nullcontext():
        (configured,) = load(path)
        assert [*configured.scenario.workload.consumers] == ["billing"]


def test_it_finds_the_cluster_in_its_environment(tmp_path: Path) -> None:
    with application(
        tmp_path,
        "print(os.environ['ACKPROOF_BOOTSTRAP_SERVERS'], os.environ['ACKPROOF_TOPIC'])",
        "print(os.environ['ACKPROOF_SETTINGS'])",
    ) as running:
        running.await_producers()
    where, settings = (tmp_path / "application" / "output.log").read_text().splitlines()
    assert where == "127.0.0.1:9 orders"
    assert json.loads(settings)["acks"] == "1"
    assert json.loads(settings)["sasl.password"] == "p"


@pytest.mark.parametrize("active", [False, True])
def test_its_python_has_ackproof_unless_a_virtual_environment_is_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    if active:
        monkeypatch.setenv("VIRTUAL_ENV", "/home/me/shop/.venv")
    with application(tmp_path, "print(os.environ['PATH'])") as running:
        running.await_producers()
    path = (tmp_path / "application" / "output.log").read_text().strip()
    ours = f"{Path(sys.executable).parent}:"
    assert path == ("" if active else ours) + "/usr/bin:/bin"


def test_one_that_fails_is_quoted_and_what_it_logged_is_kept(tmp_path: Path) -> None:
    with application(tmp_path, ACK, "sys.exit('no money')") as running:
        troubles = running.await_producers()
    assert troubles == ["the application ended with exit status 1: no money"]
    assert (tmp_path / "application" / "acked.jsonl").read_text().count("\n") == 1


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with application(
        tmp_path,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        ACK,
        "signal.pause()",
        ends_within=0.2,
    ) as running:
        until(lambda: running.progress().acked == 1, "it has not begun")
        running.stop_producers()
        (trouble,) = running.await_producers()
    assert "still ran 0.2 s after SIGTERM and was killed" in trouble
    assert not running.restart_crashed()


def test_one_that_acks_nothing_is_a_trouble(tmp_path: Path) -> None:
    with application(tmp_path, "pass") as running:
        assert running.await_producers() == ["the application's acked log has no acked send"]


def test_one_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    scenario = application(tmp_path)
    scenario._application = scenario._application.model_copy(update={"command": ["/absent"]})
    with pytest.raises(WorkloadError, match="'/absent': No such file"), scenario:
        pass
