"""A command of the user's own, run for one broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from ackproof_faults.errors import FaultError

#: How much of a command's output is kept, characters.
_KEPT = 500


def run_command(
    step: str, command: str, broker: int, brokers: Sequence[int], *, within_s: float
) -> str:
    """Return what the command printed; raise FaultError unless it ends with 0 in time.

    `step` names it in errors. The command finds the broker's id in `$BROKER`, all in `$BROKERS`.
    """
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env={**os.environ, "BROKER": str(broker), "BROKERS": " ".join(map(str, brokers))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            start_new_session=True,  # Ctrl-C in the terminal must not end a heal
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise FaultError(f"{step} of broker {broker} ({command!r}): {error}") from error
    output = " / ".join(done.stdout.split("\n")).strip(" /")[-_KEPT:]
    if done.returncode != 0:
        raise FaultError(
            f"{step} of broker {broker} ended with {done.returncode}: {output or 'no output'}"
        )
    return output
