"""Clients under test, each in a process of its own."""

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.process import ClientProcess, ConsumerProcess, ProducerProcess
from ackproof.clients.shared_page import Progress, State, total
from ackproof.clients.spec import ProducerSpec, TransactionSpec
from ackproof.ledger.outcome import classify

__all__ = [
    "ClientProcess",
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
