"""The user's own commands break an attached cluster: ssh, kubectl, a cloud's command line.

Each command is run once for every broker that the target names, by `/bin/sh`, with the broker's id
in `$BROKER` and all of them in `$BROKERS`. It must end with 0. What `verify` prints is the
evidence; it should look from outside (does the broker's port answer? is its pod gone?), because
what a command that injects says about itself proves nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault

_SHOWN = 500


class Command(Fault):
    """Run commands of your own to inject, verify and heal."""

    name: ClassVar[str] = "command"
    fault: Literal["command"] = "command"
    proof: ClassVar[str] = "the user's own command `verify` ends with 0"
    inject_command: str = Field(
        alias="inject", min_length=1, description="puts the fault into force at broker $BROKER"
    )
    verify_command: str = Field(
        alias="verify",
        min_length=1,
        description="ends with 0 only while the fault holds; what it prints is the evidence",
    )
    heal_command: str = Field(
        alias="heal", min_length=1, description="ends the fault; twice must do no harm"
    )
    within: Duration = Field(default=60.0, gt=0, description="how long a command may take")

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Run `inject` for each broker."""
        for node in nodes:
            self._run("inject", self.inject_command, node, nodes)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Run `verify` for each broker; it must end with 0."""
        said = [self._run("verify", self.verify_command, node, nodes) for node in nodes]
        return "; ".join(
            f"broker {node}: {text or 'verify ended with 0'}"
            for node, text in zip(nodes, said, strict=True)
        )

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Run `heal` for each broker, whatever happens to the others."""
        errors = []
        for node in nodes:
            try:
                self._run("heal", self.heal_command, node, nodes)
            except FaultError as error:
                errors.append(str(error))
        if errors:
            raise FaultError("; ".join(errors))

    def _run(self, step: str, command: str, node: int, nodes: Sequence[int]) -> str:
        """Return what the command printed; raise FaultError if it does not end with 0 in time."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                env={**os.environ, "BROKER": str(node), "BROKERS": " ".join(map(str, nodes))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=self.within,
                check=False,
                start_new_session=True,  # Ctrl-C in the terminal must not end a heal
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            raise FaultError(f"{step} of broker {node} ({command!r}): {error}") from error
        said = " / ".join(done.stdout.split("\n")).strip(" /")[-_SHOWN:]
        if done.returncode != 0:
            raise FaultError(
                f"{step} of broker {node} ended with {done.returncode}: {said or 'it said nothing'}"
            )
        return said
