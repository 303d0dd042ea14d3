"""The client processes of a run: its producers and consumers.

The name of a client is its kind and number: ``producer 0``. It stands for the process that does the
client's work now: a successor, after the first process crashed or was paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

#: The clients that a fault hits: all of a kind, or one by its number, from 0.
ClientName = Annotated[
    str,
    Field(
        pattern=r"^(producers|consumers|(producer|consumer) [0-9]+)$",
        description="producers, consumers, or one of them by its number from 0",
        examples=["producers", "consumer 1"],
    ),
]

ProducerName = Annotated[
    str,
    Field(
        pattern=r"^(producers|producer [0-9]+)$",
        description="producers, or one of them by its number from 0",
    ),
]

#: How a client ends: by SIGKILL, or by an exit without waiting for what it has sent.
End = Literal["kill", "exit"]

#: How a client misbehaves in each round, until it gets another order. slow: be busy after each
#: poll; fill: fill the queue, and poll no delivery report; purge_queue: purge records that wait to
#: be sent; purge_all: also those in flight; rejoin: leave the group at intervals and join it again;
#: skew: send records with wrong timestamps.
Order = Literal["nothing", "slow", "fill", "purge_queue", "purge_all", "rejoin", "skew"]


class Clients(Protocol):
    """Stop, end, replace and give orders to the client processes of a run."""

    def running(self, what: str) -> Sequence[str]:
        """Return the names of the processes that run as these clients (`ClientName`)."""

    def stop(self, client: str) -> None:
        """Stop the process (SIGSTOP)."""

    def resume(self, client: str) -> None:
        """Continue a stopped process (SIGCONT); a no-op if it is not stopped, or has ended."""

    def is_stopped(self, client: str) -> bool:
        """Whether the operating system reports the process stopped."""

    def end(self, client: str, how: End) -> None:
        """End the process and wait for its end; the run does not report this as an error."""

    def ended_by(self, client: str) -> End | None:
        """Return how the process ended, None if it runs or ended in another way."""

    def succeed(self, client: str) -> str:
        """Start a successor and return its name; return the existing one if there is one.

        It has the same settings, group and transactional.id.
        """

    def begun(self, client: str) -> bool:
        """Whether the process has connected and works."""

    def await_begun(self, client: str, *, within_s: float) -> bool:
        """Wait until `begun`, and return it."""

    def order(self, client: str, order: Order, *, milliseconds: int = 0) -> None:
        """Set the behaviour of the process; raise FaultError if another order is in force."""

    def obeyed(self, client: str, *, more_than: int, within_s: float) -> int:
        """Return how often the process followed its order, once this exceeds `more_than`."""
