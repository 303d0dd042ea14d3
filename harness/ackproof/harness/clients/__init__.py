"""Clients under test, each in a process of its own."""

from ackproof.harness.clients.consumer_spec import Commit, ConsumerSpec
from ackproof.harness.clients.outcome import classify
from ackproof.harness.clients.process import ClientProcess, ConsumerProcess, ProducerProcess
from ackproof.harness.clients.progress import Progress, State, total
from ackproof.harness.clients.spec import ProducerSpec, TransactionSpec

__all__ = [
    "ClientProcess",
    "Commit",
    "ConsumerProcess",
    "ConsumerSpec",
    "ProducerProcess",
    "ProducerSpec",
    "Progress",
    "State",
    "TransactionSpec",
    "classify",
    "total",
]
