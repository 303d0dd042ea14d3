"""The requests that keep a coordinator busy, sent by bash to a broker that these tests play."""

from __future__ import annotations

import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackproof_faults import BusyCoordinator, CommandResult, FaultError
from ackproof_faults.operations import busy_coordinator
from support.fake_cluster import FakeCluster
from waiting import until


class Broker(socketserver.ThreadingTCPServer):
    """Answers so many requests; `described` has the groups that each request names."""

    daemon_threads = True

    def __init__(self, answers: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.answers = answers
        self.described: list[list[str]] = []
        self.ended = threading.Event()


class _Connection(socketserver.StreamRequestHandler):
    server: Broker

    def handle(self) -> None:
        (size,) = struct.unpack(">i", self.rfile.read(4))
        body = self.rfile.read(size)
        assert struct.unpack(">hhih", body[:10]) == (15, 0, 0, 0)  # DescribeGroups
        (count,) = struct.unpack(">i", body[10:14])
        names, at = [], 14
        while at < len(body):
            (length,) = struct.unpack(">h", body[at : at + 2])
            names.append(body[at + 2 : at + 2 + length].decode())
            at += 2 + length
        assert len(names) == count
        self.server.described.append(names)
        if len(self.server.described) <= self.server.answers:
            self.wfile.write(bytes(4))
        else:
            self.server.ended.wait(30)


class Network:
    """Runs the scripts of the node's network namespace here."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder

    def address(self, node: int) -> str:
        return str(self._broker.server_address[0])

    def port(self, listener: str) -> int:
        assert listener == "INTERNAL"
        return int(self._broker.server_address[1])

    def run(self, node: int, script: str) -> CommandResult:
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._folder, capture_output=True, text=True, check=False
        )
        return CommandResult(exit_status=done.returncode, output=done.stdout + done.stderr)


@contextmanager
def broker_that_answers(answers: int, folder: Path) -> Iterator[tuple[Broker, Any]]:
    with Broker(answers) as broker:
        threading.Thread(target=broker.serve_forever, daemon=True).start()
        cluster = FakeCluster()
        cluster.offer("network", Network(broker, folder))
        yield broker, cluster
        broker.ended.set()
        broker.shutdown()


BUSY = BusyCoordinator(target=1, group="billing", requests=3, names=2500)


def test_a_queue_of_requests_keeps_the_coordinator_from_answering(tmp_path):
    with broker_that_answers(1, tmp_path) as (broker, cluster):
        BUSY.inject(cluster, [1])
        evidence = BUSY.verify(cluster, [1], None)
        until(lambda: len(broker.described) == 5)  # two are of `inject` and `verify` themselves
        assert sorted(map(len, broker.described)) == [1, 1, 2500, 2500, 2500]
        assert {name for names in broker.described for name in names} == {"billing"}
        assert evidence.text == "broker 1 does not describe billing within 1 s"
        assert not BUSY.verify_healed(cluster, [1], None)
        broker.answers = 100
        BUSY.heal(cluster, [1], None)
        assert BUSY.verify_healed(cluster, [1], None)


def test_a_coordinator_that_answers_is_not_busy(tmp_path):
    with (
        broker_that_answers(100, tmp_path) as (_, cluster),
        pytest.raises(FaultError, match="broker 1 describes billing at once"),
    ):
        BUSY.verify(cluster, [1], None)


def test_a_broker_that_never_answers_is_no_proof(tmp_path, monkeypatch):
    monkeypatch.setattr(busy_coordinator, "_IDLE_S", 1)
    with (
        broker_that_answers(0, tmp_path) as (_, cluster),
        pytest.raises(FaultError, match="does not describe billing within 1 s: the fault needs"),
    ):
        BUSY.inject(cluster, [1])


def test_a_broker_without_a_listener_is_no_proof(tmp_path):
    with broker_that_answers(0, tmp_path) as (broker, cluster):
        broker.shutdown()
        broker.server_close()
        with pytest.raises(FaultError, match=r"broker 1 takes no request: .*refused"):
            BUSY.verify(cluster, [1], None)
