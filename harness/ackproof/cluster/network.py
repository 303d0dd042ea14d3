"""The cluster's network: a bridge of its own, on which every node keeps its address.

An engine hands a restarted container the next free address, not its old one. Firewall rules and
name caches would then point at nobody, so each node asks for a fixed address; and that needs a
network whose subnet was chosen by us. We let the engine choose one that collides with nothing,
and ask for the same again.
"""

from __future__ import annotations

import contextlib
import ipaddress
from typing import TYPE_CHECKING, Any

import tenacity

from ackproof.cache import cache_dir
from ackproof.containers.engine import labels
from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from testcontainers.core.network import Network

#: Addresses before this one are left to the gateway and to sidecars.
_FIRST_HOST = 10


class ClusterNetwork:
    """A labelled bridge network; `address(index)` is the fixed address of the index-th node."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.network: Network | None = None
        self._subnet: ipaddress.IPv4Network | None = None

    def create(self) -> Network:
        """Create the network; raise ClusterError if the engine cannot."""
        from docker.errors import APIError

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(APIError),
            stop=tenacity.stop_after_attempt(5),  # another run may take the subnet in between
            reraise=True,
        )
        try:
            self.network = retrying(self._create)
        except APIError as error:
            raise ClusterError(
                f"the engine cannot create a network: {error.explanation}",
                hint="`ackproof clean` removes networks that dead runs left.",
            ) from error
        return self.network

    def address(self, index: int) -> str:
        """Return the address of the index-th node."""
        assert self._subnet is not None  # create() comes first
        return str(self._subnet[_FIRST_HOST + index])

    @property
    def gateway(self) -> str:
        """The machine's own address on the network, where engine and harness share a machine."""
        assert self._subnet is not None  # create() comes first
        return str(self._subnet[1])

    def _create(self) -> Network:
        from docker.errors import APIError

        # What the engine chose last time is mostly free again; asking anew takes a quarter second.
        memory = cache_dir() / "subnet"
        if memory.exists():
            with contextlib.suppress(APIError, ValueError):
                return self._create_on(ipaddress.IPv4Network(memory.read_text()))
        probe = self._new({})
        subnet = probe._unwrap_network.attrs["IPAM"]["Config"][0]["Subnet"]
        probe.remove()
        network = self._create_on(ipaddress.IPv4Network(subnet))
        memory.write_text(subnet)
        return network

    def _create_on(self, subnet: ipaddress.IPv4Network) -> Network:
        from docker.types import IPAMConfig, IPAMPool

        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
        network = self._new({"ipam": IPAMConfig(pool_configs=[pool])})
        self._subnet = subnet
        return network

    def _new(self, options: dict[str, Any]) -> Network:
        from testcontainers.core.network import Network

        network = Network(docker_network_kw={"labels": labels(self._run_id), **options}).create()
        network._unwrap_network.reload()
        return network
