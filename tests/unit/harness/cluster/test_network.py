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


def use(monkeypatch: pytest.MonkeyPatch, ports: range) -> None:
    monkeypatch.setattr(network, "PORTS", ports)


def test_a_port_is_reserved_once_and_released_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, range(20000, 20040))
    with network.reserved_ports() as first, network.reserved_ports() as second:
        taken = [next(ports) for _ in range(15) for ports in (first, second)]
        assert len(set(taken)) == 30
    with network.reserved_ports() as ports:
        assert len([next(ports) for _ in taken]) == 30


def test_a_port_with_a_listener_is_not_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, network.reserved_ports() as ports:
        port = taken.getsockname()[1]
        use(monkeypatch, range(port, port + 1))
        with pytest.raises(ClusterError, match=f"no further port is free .* in {port}-{port}"):
            next(ports)


def test_the_death_of_a_process_releases_its_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (
        "import sys, tempfile\n"
        f"tempfile.gettempdir = lambda: {str(tmp_path)!r}\n"
        "from ackproof.cluster import network\n"
        "network.PORTS = range(20100, 20101)\n"
        "with network.reserved_ports() as ports:\n"
        "    print(next(ports), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    use(monkeypatch, range(20100, 20101))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"20100\n"
        with network.reserved_ports() as ports, pytest.raises(ClusterError):
            next(ports)
        other.kill()
        other.wait()
        with network.reserved_ports() as ports:
            assert next(ports) == 20100
