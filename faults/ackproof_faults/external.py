"""Faults of clusters that ackproof did not start.

`command` runs the user's own commands: ssh, kubectl, a cloud's command line. Each runs once for
every broker of the target, by `/bin/sh`, with the broker's id in `$BROKER` and all ids in
`$BROKERS`. It must end with 0. The output of `verify` is the evidence. It should observe from
outside (does the broker's port answer? is its pod gone?): the output of the injecting command
proves nothing.

`docker` kills or stops a broker's container and starts it again. It acts only on containers that
the scenario lists (`cluster.attach.containers`), and only if the scenario says that its author owns
them (`cluster.attach.i_own`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import SIGKILLED, Ended, require_running
from ackproof_model.effects import Anything, Effects, Ends


class AttachedFault(Fault):
    """A fault that is refused on clusters that ackproof started, which support better faults."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if not shape.attached:
            yield (
                "fault",
                f"{self.name!r} is for clusters that ackproof did not start (cluster.attach)",
            )


#: Longest output of a command in the evidence, characters.
_MAX_OUTPUT = 500


class Command(AttachedFault):
    """Run commands of your own to inject, verify and heal."""

    fault: Literal["command"] = "command"
    proof = "the user's own command `verify` ends with 0"
    inject_command: str = Field(
        alias="inject", min_length=1, description="puts the fault into force at broker $BROKER"
    )
    verify_command: str = Field(
        alias="verify",
        min_length=1,
        description="ends with 0 only while the fault holds; what it prints is the evidence",
    )
    heal_command: str = Field(
        alias="heal", min_length=1, description="ends the fault; a second run must do no harm"
    )
    within: Duration = Field(default=60.0, gt=0, description="how long a command may take")
    effects: ClassVar[Effects] = (Anything(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._run("inject", self.inject_command, node, nodes)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        outputs = {node: self._run("verify", self.verify_command, node, nodes) for node in nodes}
        return Evidence.joined(
            f"broker {node}: {output or 'verify ended with 0'}" for node, output in outputs.items()
        )

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        """Run `heal` for each broker, even if it fails for others."""
        errors = []
        for node in nodes:
            try:
                self._run("heal", self.heal_command, node, nodes)
            except FaultError as error:
                errors.append(str(error))
        if errors:
            raise FaultError("; ".join(errors))

    def _run(self, step: str, command: str, broker: int, brokers: Sequence[int]) -> str:
        """Return the command's output; raise FaultError unless it ends with 0 in time."""
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                env={**os.environ, "BROKER": str(broker), "BROKERS": " ".join(map(str, brokers))},
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
            raise FaultError(f"{step} of broker {broker} ({command!r}): {error}") from error
        output = " / ".join(done.stdout.split("\n")).strip(" /")[-_MAX_OUTPUT:]
        if done.returncode != 0:
            raise FaultError(
                f"{step} of broker {broker} ended with {done.returncode}: {output or 'no output'}"
            )
        return output


class Docker(AttachedFault, Ended):
    """Kill or stop the targets' containers; heal starts them again."""

    fault: Literal["docker"] = "docker"
    proof = "the signal that was sent ended the container's process"
    action: Literal["kill", "stop"] = Field(
        default="kill", description="kill: SIGKILL; stop: SIGTERM, a controlled shutdown"
    )

    @property
    def effects(self) -> Effects:
        return (Ends(clean=self.action == "stop"),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        processes = cluster.processes
        for node in nodes:
            (processes.kill if self.action == "kill" else processes.terminate)(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            status = cluster.processes.exit_status(node)
            if status is None:
                raise FaultError(f"broker {node} still runs after {self.action}")
            if (status == SIGKILLED) != (self.action == "kill"):
                raise FaultError(
                    f"broker {node} ended with exit status {status}: "
                    + (
                        f"not by SIGKILL ({SIGKILLED})"
                        if self.action == "kill"
                        else "SIGKILL came before its controlled shutdown was over"
                    )
                )
        return Evidence.joined(f"broker {node}: {self.action}, it ended" for node in nodes)
