"""The client processes of a run, as faults see them (`interfaces.clients.Clients`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence

from ackproof.clients.program import EXITED
from ackproof.clients.shared_page import NOT_READY, Order, State
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.errors import WorkloadError
from ackproof.waiting import last_result
from ackproof_faults import FaultError
from ackproof_faults.interfaces.clients import Clients, End
from ackproof_faults.interfaces.clients import Order as OrderName

#: Seconds that the operating system has to stop or end a process.
_SIGNAL_S = 10.0


class RunClients(Clients):
    """The clients of a supervisor. A client is named ``producer 0``, ``consumer 1`` and so on."""

    def __init__(self, supervisor: ClientSupervisor) -> None:
        self._supervisor = supervisor
        self._process = supervisor.process

    def running(self, what: str) -> Sequence[str]:
        """Return the running clients of a group (``producers``), or a client or its successor."""
        successors = self._supervisor.successors
        while what in successors:
            what = successors[what]
        return [
            process.name
            for process in self._supervisor.processes
            if what in (process.name, f"{process.spec.noun}s")
            and process.name not in successors
            and process.returncode is None
        ]

    def stop(self, client: str) -> None:
        """Suspend the process (SIGSTOP) when its orphan guard is active."""
        process = self._process(client)
        _require(
            lambda: process.state is not State.LOADING or process.returncode is not None,
            f"{client} has not loaded its program within {_SIGNAL_S:g} s",
        )
        process.send_signal(signal.SIGSTOP)
        _require(
            lambda: self.is_stopped(client),
            f"{client} is not suspended {_SIGNAL_S:g} s after SIGSTOP",
        )

    def resume(self, client: str) -> None:
        self._process(client).send_signal(signal.SIGCONT)
        _require(
            lambda: not self.is_stopped(client),
            f"{client} is still suspended {_SIGNAL_S:g} s after SIGCONT",
        )

    def is_stopped(self, client: str) -> bool:
        process = self._process(client)
        if process.returncode is not None:
            return False
        # WNOWAIT leaves the state to be reported again, also to `Popen.wait`.
        options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, options) is not None

    def end(self, client: str, how: End) -> None:
        process = self._process(client)
        self._supervisor.expect_end(process)
        if how == "kill":
            process.kill()
            return
        process.send_signal(signal.SIGUSR1)
        try:
            process.wait(_SIGNAL_S)
        except WorkloadError as error:
            raise FaultError(error.message) from error

    def ended_by(self, client: str) -> End | None:
        ends: dict[int | None, End] = {-signal.SIGKILL: "kill", EXITED: "exit"}
        return ends.get(self._process(client).returncode)

    def succeed(self, client: str) -> str:
        if client not in self._supervisor.successors:
            self._supervisor.start_successor(self._process(client))
        return self._supervisor.successors[client]

    def begun(self, client: str) -> bool:
        return self._process(client).state not in (*NOT_READY, State.BROKEN)

    def await_begun(self, client: str, *, within_s: float) -> bool:
        return last_result(lambda: self.begun(client), bool, within_s=within_s)

    def order(self, client: str, order: OrderName, *, milliseconds: int = 0) -> None:
        process = self._process(client)
        if order != "nothing" and process.page.order is not Order.NOTHING:
            raise FaultError(
                f"{client} already misbehaves by another fault: {process.page.order.name.lower()}"
            )
        if order != "nothing" or process.page.order is not Order.NOTHING:
            process.page.give(Order[order.upper()], milliseconds=milliseconds)

    def obeyed(self, client: str, *, more_than: int, within_s: float) -> int:
        process = self._process(client)
        return last_result(
            lambda: process.page.obeyed, lambda count: count > more_than, within_s=within_s
        )


def _require(holds: Callable[[], bool], problem: str) -> None:
    if not last_result(holds, bool, within_s=_SIGNAL_S):
        raise FaultError(problem)
