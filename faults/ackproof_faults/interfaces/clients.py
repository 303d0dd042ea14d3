"""What faults ask of, and do to, the clients of a run: its producers and consumers.

A client is named by its place, ``producer 0``: whoever has taken the place of one that crashed or
was paused is meant from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

#: Whom a fault hits: all of a kind, or one by its number, from 0.
ClientName = Annotated[
    str,
    Field(
        pattern=r"^(producers|consumers|(producer|consumer) [0-9]+)$",
        description="producers, consumers, or one of them by its number from 0",
        examples=["producers", "consumer 1"],
    ),
]

#: How a client ends: SIGKILL, or its program ends without waiting for what it has sent.
End = Literal["kill", "exit"]


#: What a client may be told to do wrong, each time round, until it is told otherwise. dawdle: be
#: busy for so long with what a poll returned; fill: hand over as many records as are taken, and
#: serve no delivery report; purge_queue: purge what waits to be sent; purge_all: what is on its
#: way, too; rejoin: leave the group every so long, and join it again; skew: send records with
#: timestamps that are so far off.
Order = Literal["nothing", "dawdle", "fill", "purge_queue", "purge_all", "rejoin", "skew"]


class Clients(Protocol):
    """The client processes of a run. A process is named by its number: ``producer 0``."""

    def running(self, what: str) -> Sequence[str]:
        """Return who has these places now, if they run."""

    def stop(self, client: str) -> None:
        """Have the process stand still (SIGSTOP)."""

    def go_on(self, client: str) -> None:
        """Have a process that stands still go on; a no-op if it does not, or has ended."""

    def stands_still(self, client: str) -> bool:
        """Whether the operating system calls the process stopped."""

    def end(self, client: str, how: End) -> None:
        """End the process, and wait until it is gone; that it does is no trouble of the run."""

    def ended_by(self, client: str) -> End | None:
        """Return how the process has ended, None if it runs or ended in another way."""

    def succeed(self, client: str) -> str:
        """Start another process in its place, and return its name; the one that is there if any.

        It goes on where the first one was: with the same settings, group and transactional.id.
        """

    def begun(self, client: str) -> bool:
        """Whether the process has connected and works."""

    def await_begun(self, client: str, *, within_s: float) -> bool:
        """Wait until the process works; return whether it does."""

    def order(self, client: str, order: Order, *, milliseconds: int = 0) -> None:
        """Tell the process what to do from now on; raise FaultError if it was told other things."""

    def obeyed(self, client: str, *, more_than: int, within_s: float) -> int:
        """Return how often it did as told, as soon as that is more than so often."""
