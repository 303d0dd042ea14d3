"""Addresses of nodes: a bridge network with fixed addresses, and ports of 127.0.0.1.

An engine gives a restarted container the next free address, not its old one, which would make
firewall rules and name caches wrong. A fixed address needs a network with a requested subnet. The
engine chooses a free subnet for a network without a request. So such a network is created first,
and its subnet is then requested.

The engine releases a published port while its container is stopped. Ports are therefore taken from
below the ephemeral range, which outgoing connections do not use. A lock file reserves each port for
the life of this process, so two runs at once get different ports.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import ipaddress
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tenacity
from docker import DockerClient
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from ackproof.containers.engine import labels
from ackproof.errors import ClusterError
from ackproof.machine import cache_dir

#: Lower addresses are for the gateway and for sidecars.
_FIRST_HOST = 10

#: Outgoing connections use ports from 32768 on (Linux) or from 49152 on (macOS).
PORTS = range(20000, 32000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNetwork:
    name: str
    subnet: ipaddress.IPv4Network

    def address(self, index: int) -> str:
        return str(self.subnet[_FIRST_HOST + index])

    @property
    def gateway(self) -> str:
        """This machine's address on the network, if the engine runs here."""
        return str(self.subnet[1])


def create_network(client: DockerClient, run_id: str) -> ClusterNetwork:
    """Create the network of a run; raise ClusterError if the engine cannot."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(APIError),
        stop=tenacity.stop_after_attempt(5),  # another run may take the subnet meanwhile
        reraise=True,
    )
    try:
        return retrying(_create, client, run_id)
    except APIError as error:
        raise ClusterError(
            f"the engine cannot create a network: {error.explanation}",
            hint="`ackproof clean` removes networks that ended runs left.",
        ) from error


def _create(client: DockerClient, run_id: str) -> ClusterNetwork:
    # The last subnet is usually free again; a new choice takes a quarter of a second.
    engine = hashlib.sha256(os.environ.get("DOCKER_HOST", "").encode()).hexdigest()
    memory = cache_dir() / f"subnet-{engine[:12]}"
    if memory.exists():
        with contextlib.suppress(APIError, ValueError):
            return _create_on(client, run_id, ipaddress.IPv4Network(memory.read_text()))
    probe = client.networks.create(f"ackproof-{run_id}-probe", labels=labels(run_id))
    probe.reload()
    subnet = probe.attrs["IPAM"]["Config"][0]["Subnet"]
    probe.remove()
    network = _create_on(client, run_id, ipaddress.IPv4Network(subnet))
    memory.write_text(subnet)
    return network


def _create_on(client: DockerClient, run_id: str, subnet: ipaddress.IPv4Network) -> ClusterNetwork:
    name = f"ackproof-{run_id}"
    pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
    client.networks.create(name, labels=labels(run_id), ipam=IPAMConfig(pool_configs=[pool]))
    return ClusterNetwork(name=name, subnet=subnet)


@contextlib.contextmanager
def reserved_ports() -> Iterator[Iterator[int]]:
    """Yield an iterator over free ports of 127.0.0.1, each reserved until the context ends.

    It raises ClusterError if no port is free.
    """
    with contextlib.ExitStack() as locks:
        yield _reserve(locks)


def _reserve(locks: contextlib.ExitStack) -> Iterator[int]:
    folder = Path(tempfile.gettempdir()) / f"ackproof-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(PORTS, len(PORTS)):
        lock = _try_lock(folder / str(port))
        if lock is None:
            continue
        if _is_free(port):
            locks.callback(os.close, lock)
            yield port
        else:
            os.close(lock)
    raise ClusterError(
        f"no further port is free on 127.0.0.1 in {PORTS.start}-{PORTS.stop - 1}",
        hint="End their listeners (`ackproof clean` removes what ended runs left).",
    )


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
