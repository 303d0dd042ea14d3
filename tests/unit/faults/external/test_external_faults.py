"""Faults on clusters that ackproof did not start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof_faults import FaultError, inject
from ackproof_faults.external import Command, Docker
from integration.command import clock
from support.fake_cluster import FakeCluster


def command(**commands: str) -> Command:
    document: dict[str, Any] = {"inject": "true", "verify": "true", "heal": "true", **commands}
    return Command.model_validate({"fault": "command", "target": [1, 2], **document})


def docker(action: Any) -> Docker:
    return Docker(target=1, action=action)


def test_each_command_runs_once_for_each_broker_with_all_ids_in_its_environment(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    fault = command(
        inject=f'echo "inject $BROKER of $BROKERS" >> {log}',
        verify='echo "port of $BROKER is closed"',
        heal=f'echo "heal $BROKER" >> {log}',
    )
    with inject(fault, FakeCluster(), clock=clock) as guard:
        assert guard.window.verified
        assert guard.window.evidence == (
            "broker 1: port of 1 is closed; broker 2: port of 2 is closed"
        )
    assert log.read_text() == "inject 1 of 1 2\ninject 2 of 1 2\nheal 1\nheal 2\n"


@pytest.mark.parametrize("step", ["inject", "verify"])
def test_the_output_of_a_failed_command_is_the_evidence(step: str) -> None:
    fault = command(**{step: "echo no route to host >&2; exit 7"})
    guard = inject(fault, FakeCluster(), clock=clock)
    assert not guard.window.verified
    assert f"{step} of broker 1 ended with 7: no route to host" in guard.window.evidence


def test_healing_continues_when_it_fails_for_one_broker(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fault = command(heal=f'echo "$BROKER" >> {log}; [ "$BROKER" = 2 ]')
    with pytest.raises(FaultError, match="heal of broker 1 ended with 1"):
        fault.heal(FakeCluster(), [1, 2], None)
    assert log.read_text().split() == ["1", "2"]


def test_a_command_that_hangs_is_killed() -> None:
    fault = command(inject="sleep 60", within="100ms")
    with pytest.raises(FaultError, match="timed out"):
        fault.inject(FakeCluster(), [1])


def test_a_dumped_command_is_read_back_equal() -> None:
    fault = command(verify="nc -z broker 9092")
    assert Command.model_validate(fault.model_dump(by_alias=True)) == fault


@pytest.mark.parametrize(("action", "status"), [("kill", 137), ("stop", 143)])
def test_a_container_is_ended_verified_and_started(action: str, status: int) -> None:
    cluster = FakeCluster()
    fault = docker(action)
    with pytest.raises(FaultError, match="still runs"):
        fault.verify(cluster, [1], None)
    fault.inject(cluster, [1])
    assert cluster.processes.exit_status(1) == status
    assert fault.verify(cluster, [1], None)
    with pytest.raises(FaultError, match="already down"):
        fault.inject(cluster, [1])
    fault.heal(cluster, [1], None)
    assert cluster.processes.exit_status(1) is None


def test_kill_and_stop_are_distinguished_by_exit_status() -> None:
    for does, says in (("kill", "stop"), ("stop", "kill")):
        cluster = FakeCluster()
        docker(does).inject(cluster, [1])
        with pytest.raises(FaultError, match="ended with exit status"):
            docker(says).verify(cluster, [1], None)
