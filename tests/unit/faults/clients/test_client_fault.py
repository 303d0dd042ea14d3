"""The base of client faults: which clients are hit, and what is undone."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from ackproof_faults import FaultError
from ackproof_faults.clients.processes import PauseClient
from support.fake_cluster import FakeCluster


def test_clients_that_were_hit_are_released_if_another_one_cannot_be() -> None:
    clients = MagicMock()
    clients.running.return_value = ["producer 0", "producer 1"]
    clients.is_stopped.side_effect = lambda client: client == "producer 1"
    with pytest.raises(FaultError, match="producer 1 is already stopped"):
        PauseClient(client="producers").inject(FakeCluster(clients=clients), [1])
    clients.stop.assert_called_once_with("producer 0")
    clients.resume.assert_called_once_with("producer 0")


def test_a_fault_that_hit_no_client_is_not_verified() -> None:
    with pytest.raises(FaultError, match="the fault reached no client"):
        PauseClient(client="producers").verify(FakeCluster(clients=MagicMock()), [1], ())
