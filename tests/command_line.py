"""The `ackproof` command, run in this process."""

from __future__ import annotations

import signal
import sys

import pytest

from ackproof.cli import main


def ackproof(*arguments: object) -> int:
    """Run the command and return its exit code; arguments and signal handlers are restored."""
    before = {number: signal.getsignal(number) for number in main._INTERRUPTS}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["ackproof", *map(str, arguments)])
            patch.setattr(sys, "stdout", sys.stdout)
            with pytest.raises(SystemExit) as ended:
                main.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(ended.value.code or 0)
