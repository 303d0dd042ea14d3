"""The main function of every client program.

`python -m ackproof.clients.<client> SPEC.json`, with security settings as JSON on standard input.
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
from ackproof.clients.probe_spec import ProbeSpec
from ackproof.clients.shared_page import ProgressPage, State
from ackproof.clients.spec import ProducerSpec
from ackproof.errors import AckproofError, ExitCode

Spec = TypeVar("Spec", ProducerSpec, ConsumerSpec, ProbeSpec)


class Client(Protocol):
    """A client loop."""

    def run(self) -> None:
        """Work until a bound or a stop."""

    def terminate(self) -> None:
        """Stop at the next iteration. A signal handler may call this."""


def run(kind: type[Spec], begin: Callable[[Spec, ProgressPage, Mapping[str, str]], Client]) -> int:
    """Run the client that `begin` creates from the specification named on the command line.

    Return the exit code of the process; an error is stored in its page, too.
    """
    spec = kind.from_json(Path(sys.argv[1]).read_text())
    page = ProgressPage(spec.progress)
    orphan_guard.continue_without_parent()
    page.state = State.STARTING
    try:
        client = begin(spec, page, json.loads(sys.stdin.read() or "{}"))
        orphan_guard.install(client.terminate, parent=orphan_guard.expected_parent(spec.parent))
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
