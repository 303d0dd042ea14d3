"""Clients under test, each in a process of its own."""

from ackproof.harness.clients.outcome import classify
from ackproof.harness.clients.process import ProducerProcess
from ackproof.harness.clients.progress import Progress, State, total
from ackproof.harness.clients.spec import ProducerSpec

__all__ = ["ProducerProcess", "ProducerSpec", "Progress", "State", "classify", "total"]
