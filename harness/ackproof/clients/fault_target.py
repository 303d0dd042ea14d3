"""The client processes of a run, as faults act on them (`interfaces.clients.Clients`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import TypeVar

from ackproof.clients.orphan_guard import EXITED
from ackproof.clients.process import ConsumerProcess, ProducerProcess
from ackproof.clients.shared_page import Order, State
from ackproof.clients.supervisor import Crew
from ackproof.errors import WorkloadError
from ackproof.waiting import wait_for
from ackproof_faults import FaultError
from ackproof_faults.interfaces.clients import End
from ackproof_faults.interfaces.clients import Order as Told

T = TypeVar("T")

#: How long the operating system may take to stop or end a process, seconds.
_SIGNAL_S = 10.0


class StruckClients:
    """The clients of a crew."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def running(self, what: str) -> Sequence[str]:
        """Return who has these places now, if they run."""
        kind, _, number = what.partition(" ")
        noun = kind.removesuffix("s")
        if number:
            named = [self._holder(noun, int(number))]
        else:  # whoever nobody has taken the place of
            numbers = (one.spec.number for one in self._all(noun))
            named = [one for one in numbers if (noun, one) not in self._crew.heirs]
        return [
            one.name
            for one in self._all(noun)
            if one.spec.number in named and one.returncode is None
        ]

    def stop(self, client: str) -> None:
        """Have the process stand still (SIGSTOP), once a harness that dies cannot leave it so."""
        process = self._process(client)
        _seen(
            lambda: process.state is not State.LOADING or process.returncode is not None,
            bool,
            f"{client} does not load",
        )
        process.send_signal(signal.SIGSTOP)
        _seen(lambda: self.stands_still(client), bool, f"{client} does not stand still")

    def go_on(self, client: str) -> None:
        """Have a process that stands still go on; a no-op if it does not, or has ended."""
        self._process(client).send_signal(signal.SIGCONT)
        _seen(lambda: self.stands_still(client), lambda still: not still, f"{client} stands still")

    def stands_still(self, client: str) -> bool:
        """Whether the operating system calls the process stopped."""
        process = self._process(client)
        if process.returncode is not None:
            return False
        # WNOWAIT: what is told stays to be told, also to whoever waits for the end.
        told = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, told) is not None

    def end(self, client: str, how: End) -> None:
        """End the process, and wait until it is gone; that it does is no trouble of the run."""
        process = self._process(client)
        self._crew.excuse(process)
        if how == "kill":
            process.kill()
            return
        process.send_signal(signal.SIGUSR1)
        try:
            process.wait(_SIGNAL_S)
        except WorkloadError as error:
            raise FaultError(error.message) from error

    def ended_by(self, client: str) -> End | None:
        """Return how the process has ended, None if it runs or ended in another way."""
        ends: dict[int | None, End] = {-signal.SIGKILL: "kill", EXITED: "exit"}
        return ends.get(self._process(client).returncode)

    def succeed(self, client: str) -> str:
        """Start another process in its place, and return its name; the one that is there if any."""
        process = self._process(client)
        key = process.noun, process.spec.number
        if key not in self._crew.heirs:
            self._crew.succeed(process)
        return f"{process.noun} {self._crew.heirs[key]}"

    def begun(self, client: str) -> bool:
        """Whether the process has connected and works."""
        unborn = (State.LOADING, State.STARTING, State.BROKEN)
        return self._process(client).state not in unborn

    def await_begun(self, client: str, *, within_s: float) -> bool:
        """Wait until the process works; return whether it does."""
        return _last(lambda: self.begun(client), bool, within_s)

    def order(self, client: str, order: Told, *, milliseconds: int = 0) -> None:
        """Tell the process what to do from now on; raise FaultError if it was told other things."""
        process = self._process(client)
        if order != "nothing" and process.order is not Order.NOTHING:
            raise FaultError(f"{client} does something wrong already: {process.order.name.lower()}")
        if order != "nothing" or process.order is not Order.NOTHING:
            process.give(Order[order.upper()], milliseconds=milliseconds)

    def obeyed(self, client: str, *, more_than: int, within_s: float) -> int:
        """Return how often it did as told, as soon as that is more than so often."""
        process = self._process(client)
        return _last(lambda: process.obeyed, lambda count: count > more_than, within_s)

    def _all(self, noun: str) -> Sequence[ProducerProcess] | Sequence[ConsumerProcess]:
        return self._crew.producers if noun == "producer" else self._crew.consumers

    def _holder(self, noun: str, place: int) -> int:
        """Return the number of who has a place now."""
        while (noun, place) in self._crew.heirs:
            place = self._crew.heirs[noun, place]
        return place

    def _process(self, client: str) -> ProducerProcess | ConsumerProcess:
        noun, _, number = client.partition(" ")
        return self._all(noun)[int(number)]


def _seen(look: Callable[[], T], good: Callable[[T], bool], problem: str) -> None:
    try:
        wait_for(look, good, within_s=_SIGNAL_S, failure=lambda _: WorkloadError(problem))
    except WorkloadError as error:
        raise FaultError(error.message) from error


def _last(look: Callable[[], T], good: Callable[[T], bool], within_s: float) -> T:
    """Return what is seen as soon as it is good, or what was seen last."""
    try:
        return wait_for(look, good, within_s=within_s, failure=lambda _: WorkloadError("late"))
    except WorkloadError:
        return look()
