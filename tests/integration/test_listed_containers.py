"""Containers that a user lists as theirs: frozen, thawed, and cut off, on a real engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from docker import DockerClient

from ackproof.cluster.attached import ListedNodes, listed_networks
from ackproof.cluster.interfaces import NodeProcesses
from ackproof.containers import images
from ackproof.containers.engine import labels
from ackproof_faults import FaultError

pytestmark = pytest.mark.cluster


@pytest.fixture
def listed(engine: DockerClient) -> Iterator[dict[int, str]]:
    """Two containers of a user's, by broker id."""
    containers = [
        engine.containers.run(
            images.ensure_sidecar(client=engine),
            ["sleep", "600"],
            labels=labels("listed"),
            detach=True,
            init=True,
        )
        for _ in range(2)
    ]
    yield {number: str(container.id) for number, container in enumerate(containers, 1)}
    for container in containers:
        container.remove(force=True)


def test_a_listed_container_is_frozen_and_thawed(listed: dict[int, str]) -> None:
    processes = NodeProcesses(ListedNodes(listed))
    assert not processes.paused(1)
    processes.pause(1)
    assert processes.paused(1)
    assert not processes.paused(2)
    processes.resume(1)
    processes.resume(1)
    assert not processes.paused(1)
    with pytest.raises(FaultError, match="broker 3 has no container"):
        processes.pause(3)


def test_rules_hold_in_the_network_of_a_listed_container(listed: dict[int, str]) -> None:
    networks = listed_networks(ListedNodes(listed), {"INTERNAL": 9093, "CLIENTS": 9092})
    assert networks.address(1) != networks.address(2)
    assert networks.client_listeners() == ["CLIENTS"]
    assert networks.run(1, "nft add table ip cut").exit_status == 0
    assert "table ip cut" in networks.run(1, "nft list tables").output
    assert "table ip cut" not in networks.run(2, "nft list tables").output
    with pytest.raises(FaultError, match=r"cluster\.attach\.listeners has no port of CONTROLLER"):
        networks.port("CONTROLLER")
