from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.cluster import network
from ackproof.errors import ClusterError


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))


def test_a_port_is_reserved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "PORTS", range(20000, 20040))
    with network.reserved_ports(20) as first, network.reserved_ports(15) as second:
        assert not set(first) & set(second)


def test_a_port_with_a_listener_is_not_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(network, "PORTS", range(port, port + 1))
        with pytest.raises(ClusterError, match="only 0 of 1 ports"), network.reserved_ports(1):
            pass


def test_ports_are_released_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "PORTS", range(20000, 20003))
    for _ in range(3):
        with network.reserved_ports(3) as ports:
            assert sorted(ports) == [20000, 20001, 20002]


def test_the_death_of_a_process_releases_its_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "import sys, tempfile\n"
        f"tempfile.gettempdir = lambda: {str(tmp_path)!r}\n"
        "from ackproof.cluster import network\n"
        "network.PORTS = range(20100, 20103)\n"
        "with network.reserved_ports(3):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    monkeypatch.setattr(network, "PORTS", range(20100, 20103))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ClusterError), network.reserved_ports(1):
            pass
        other.kill()
        other.wait()
        with network.reserved_ports(3) as ports:
            assert len(ports) == 3
