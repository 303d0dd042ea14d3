"""The main function of every client program.

`python -m ackproof.clients.<client> SPEC.json`, with security settings as JSON on standard input. A
client process ends when the harness that started it is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from ackproof.clients.shared_page import ProgressPage, State
from ackproof.clients.specs import ConsumerSpec, ProbeSpec, ProducerSpec
from ackproof.errors import AckproofError, ExitCode

Spec = TypeVar("Spec", ProducerSpec, ConsumerSpec, ProbeSpec)


class Client(Protocol):
    def run(self) -> None:
        """Work until a bound or a stop."""

    def terminate(self) -> None:
        """Stop at the next iteration. A signal handler may call this."""


def run(kind: type[Spec], begin: Callable[[Spec, ProgressPage, Mapping[str, str]], Client]) -> int:
    """Run the client that `begin` creates from the specification on the command line.

    Return the exit code of the process; an error is stored in its page, too.
    """
    without_pandas()
    spec = kind.from_json(Path(sys.argv[1]).read_text())
    page = ProgressPage(spec.progress)
    _continue_without_parent()
    page.state = State.STARTING
    try:
        client = begin(spec, page, json.loads(sys.stdin.read() or "{}"))
        _install_handlers(client.terminate, parent=expected_parent(spec.parent))
        client.run()
    except AckproofError as error:
        page.fail(str(error))
        return error.exit_code
    except Exception as error:  # the harness reads it from the page
        traceback.print_exc()
        page.fail(f"{type(error).__name__}: {error}")
        return ExitCode.ENVIRONMENT
    page.state = State.DONE
    return 0


class _NoPandas:
    """A finder of modules to which pandas is not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_pandas() -> None:
    """Let pyarrow go without pandas, which it would import with its first array.

    No client needs it, and the import costs as much CPU time as the rest of a client's start.
    """
    sys.meta_path.insert(0, _NoPandas())


#: The exit code after SIGUSR1: the process exits without a flush.
EXITED = 70

#: Seconds between two checks of the parent, and seconds to end after the parent has ended.
_LOOK_S = 1.0
_GRACE_S = 15.0

#: `prctl(2)`: the signal that a process gets when its parent ends.
PR_SET_PDEATHSIG = 1


def _continue_without_parent() -> None:
    """Let the kernel send SIGCONT when the parent process ends (Linux).

    Otherwise a suspended process would outlive a killed harness. It continues, notices that its
    parent is gone, and ends.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)


def expected_parent(parent: int | None) -> int:
    """Return the expected parent process: by default the current parent."""
    return os.getppid() if parent is None else parent


def _install_handlers(terminate: Callable[[], None], *, parent: int) -> None:
    """Install signal handlers, and end the process when `parent` is no longer its parent.

    SIGINT is ignored: the harness handles Ctrl-C. SIGTERM calls `terminate`; SIGUSR1 exits at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: terminate())
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(EXITED))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End an orphaned process that does not end by itself.

    librdkafka's synchronous commit has no timeout: it may wait for stopped brokers.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    time.sleep(_GRACE_S)
    os._exit(EXITED)
