"""Members of a share group that are programs of the user, started and ended by a supervisor."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.clients.fault_target import RunClients
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.errors import ScenarioError
from ackproof.ledger import conversion, delivery_log
from ackproof.scenario.loader import validate
from ackproof_spark.tables import LOCATION
from support.run_directories import small
from waiting import until

LINE = (
    "line = {'event': 'acquired', 'topic': 'orders', 'partition': 0, 'offset': 1, 'at': 1, "
    "'head': ''}"
)
WRITE = "open(os.environ['ACKPROOF_DELIVERIES'], 'a').write(json.dumps(line) + chr(10))"


class Workers(ClientSupervisor):
    """A supervisor without senders."""

    def _start_senders(self) -> None:
        pass


def workers(folder: Path, *program: str, members: int = 1, **own: Any) -> Workers:
    """A share group whose members run these lines of Python."""
    source = "\n".join(["import json, os, signal, sys, time", LINE, *program])
    application = {"command": [sys.executable, "-c", source], **own}
    group = {"via": "share", "members": members, "application": application}
    scenario = validate(
        small(workload={"consumers": {"workers": {**group, "settings": {"fetch.wait.max.ms": 9}}}})
    )
    secrets = {"sasl.password": "p"}
    return Workers(scenario, folder, bootstrap_servers="127.0.0.1:9", secrets=secrets)


def test_each_member_runs_with_its_own_log_and_is_asked_to_end(tmp_path: Path) -> None:
    with workers(tmp_path, WRITE, "signal.pause()", members=2) as running:
        until(lambda: running.acquired() == 2, "the deliveries are not seen")
        assert running.finish_consumers({}) == []
    logs = [delivery_log.path(tmp_path, number) for number in (0, 1)]
    assert [log.read_text().count("\n") for log in logs] == [1, 1]
    report = running.take_delivery_logs()
    assert len(report.unread) == 2  # the head is none
    conversion.close(tmp_path)
    for table, rows in (("acquisitions", 2), ("consumer_events", 2), ("effects", 0)):
        assert len(pq.read_table(tmp_path / LOCATION[table])) == rows


def test_it_finds_the_cluster_in_its_environment(tmp_path: Path) -> None:
    names = ("BOOTSTRAP_SERVERS", "TOPIC", "GROUP", "SETTINGS")
    prints = [f"print(os.environ['ACKPROOF_{name}'])" for name in names]
    with workers(
        tmp_path, *prints, "print(os.environ['RELEASE'])", environment={"RELEASE": "9"}
    ) as running:
        (process,) = running.consumers
        process.wait(60)
    *shown, settings, own = process.log.read_text().splitlines()
    assert (shown, own) == (["127.0.0.1:9", "orders", "workers"], "9")
    assert json.loads(settings) == {"fetch.wait.max.ms": 9, "sasl.password": "p"}


@pytest.mark.parametrize(
    ("program", "trouble"),
    [
        (["sys.exit('no money')"], "consumer 0 ended with exit status 1: no money"),
        (["os.kill(os.getpid(), signal.SIGKILL)"], "consumer 0 ended by signal 9"),
        (["pass"], None),
        (
            ["signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))", WRITE, "signal.pause()"],
            "consumer 0 ended with exit status 3",
        ),
    ],
)
def test_one_that_fails_is_a_trouble_of_the_run(
    tmp_path: Path, program: list[str], trouble: str | None
) -> None:
    with workers(tmp_path, *program) as running:
        (process,) = running.consumers
        until(lambda: running.acquired() or process.returncode is not None, "it has not begun")
        assert running.finish_consumers({}) == ([trouble] if trouble else [])


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    with workers(tmp_path, ignores, WRITE, "signal.pause()", ends_within=0.2) as running:
        until(lambda: running.acquired() == 1, "it has not begun")
        (trouble,) = running.finish_consumers({})
    assert trouble == "consumer 0 still ran 0.2 s after SIGTERM and was killed"


def test_faults_kill_pause_and_replace_it(tmp_path: Path) -> None:
    with workers(tmp_path, WRITE, "signal.pause()") as running:
        clients = RunClients(running)
        until(lambda: running.acquired() == 1, "it has not begun")
        clients.stop("consumer 0")
        assert clients.is_stopped("consumer 0")
        clients.resume("consumer 0")
        clients.end("consumer 0", "kill")
        assert clients.ended_by("consumer 0") == "kill"
        assert clients.succeed("consumer 0") == "consumer 1"
        assert clients.begun("consumer 1")
        until(lambda: running.acquired() == 2, "the successor has not begun")
        assert running.finish_consumers({}) == []
    assert delivery_log.path(tmp_path, 1).exists()


def test_what_cannot_be_started_is_refused_before_anything_boots(tmp_path: Path) -> None:
    running = workers(tmp_path)
    (group,) = running._workload.consumers.values()
    assert group.application is not None
    group.application.command[0] = "/no/such/program"
    with pytest.raises(
        ScenarioError,
        match=r"workload\.consumers\.workers\.application\.command: '/no/such/program' is no",
    ):
        Workers.require_startable(running._scenario)


def test_one_that_is_suspended_is_killed_in_the_end(tmp_path: Path) -> None:
    with workers(tmp_path, "signal.pause()") as running:
        (process,) = running.consumers
        process.send_signal(signal.SIGSTOP)
    assert process.returncode == -signal.SIGKILL
