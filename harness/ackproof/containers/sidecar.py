"""Short-lived containers that act on a node from beside it: in its network, or at its disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ackproof.containers.engine import labels
from ackproof_faults.interfaces.command import CommandResult

if TYPE_CHECKING:
    from docker import DockerClient


def run(
    client: DockerClient, image: str, script: str, *, run_id: str, **where: Any
) -> CommandResult:
    """Run a bash script as root in a container that is removed afterwards.

    `where` says what it is given: a network, a volume, capabilities, in docker-py's words.
    """
    from docker.errors import ContainerError
    from docker.types import LogConfig

    try:
        output = client.containers.run(
            image,
            **_as_root(script, run_id),
            **where,
            log_config=LogConfig(type="json-file"),  # with others docker-py returns no output
            remove=True,
            stdout=True,
            stderr=True,
        )
    except ContainerError as error:
        return CommandResult(exit_status=error.exit_status, output=_decoded(error.stderr))
    return CommandResult(exit_status=0, output=_decoded(output))


def start(
    client: DockerClient, image: str, script: str, *, name: str, run_id: str, **where: Any
) -> None:
    """Start such a container under a name and let it go on."""
    client.containers.run(image, **_as_root(script, run_id), **where, name=name, detach=True)


def end(client: DockerClient, name: str) -> None:
    """End and remove what `start` started; a no-op if it is gone."""
    from docker.errors import NotFound

    try:
        client.containers.get(name).remove(force=True)
    except NotFound:
        return


def _as_root(script: str, run_id: str) -> Mapping[str, Any]:
    return {
        "entrypoint": ["/bin/bash", "-c", script],
        "user": "root",
        "labels": labels(run_id),
    }


def _decoded(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
