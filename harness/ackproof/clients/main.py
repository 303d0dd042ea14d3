"""The shell of every client's program: its specification in, its work done, its end told.

`python -m ackproof.clients.<client> SPEC.json`, with secrets on standard input.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from ackproof.clients import orphan_guard
from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.shared_page import ProgressPage, State
from ackproof.clients.spec import ProducerSpec
from ackproof.errors import AckproofError, ExitCode

Spec = TypeVar("Spec", ProducerSpec, ConsumerSpec)


class Client(Protocol):
    """What a program runs."""

    def run(self) -> None:
        """Work until a bound or a stop."""

    def terminate(self) -> None:
        """Stop at the next round; for signal handlers."""


def run(kind: type[Spec], begin: Callable[[Spec, ProgressPage, Mapping[str, str]], Client]) -> int:
    """Run the client that `begin` makes of the specification named on the command line.

    Return the exit code of the process. How it ended stands on its page, too.
    """
    spec = kind.from_json(Path(sys.argv[1]).read_text())
    page = ProgressPage(spec.progress)
    orphan_guard.outlive()
    page.state = State.STARTING
    try:
        client = begin(spec, page, json.loads(sys.stdin.read() or "{}"))
        orphan_guard.serve(client.terminate, parent=orphan_guard.meant(spec.parent))
        client.run()
    except AckproofError as error:
        page.fail(str(error))
        return error.exit_code
    except Exception as error:  # the page is how the harness hears of it
        traceback.print_exc()
        page.fail(f"{type(error).__name__}: {error}")
        return ExitCode.ENVIRONMENT
    page.state = State.DONE
    return 0
