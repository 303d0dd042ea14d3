"""Short-lived containers that share a node's network namespace or volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ackproof.containers.engine import labels
from ackproof_faults.interfaces.command import CommandResult

if TYPE_CHECKING:
    from docker import DockerClient


def run(
    client: DockerClient, image: str, script: str, *, run_id: str, **options: Any
) -> CommandResult:
    """Run a bash script as root in a container that is removed afterwards.

    `options` are docker-py's: network, volumes, capabilities.
    """
    from docker.errors import ContainerError
    from docker.types import LogConfig

    try:
        output = client.containers.run(
            image,
            **_as_root(script, run_id),
            **options,
            log_config=LogConfig(type="json-file"),  # docker-py cannot read other drivers
            remove=True,
            stdout=True,
            stderr=True,
        )
    except ContainerError as error:
        return CommandResult(exit_status=error.exit_status, output=_decoded(error.stderr))
    return CommandResult(exit_status=0, output=_decoded(output))


def start(
    client: DockerClient, image: str, script: str, *, name: str, run_id: str, **options: Any
) -> None:
    """Start such a container in the background, with a name."""
    client.containers.run(image, **_as_root(script, run_id), **options, name=name, detach=True)


def end(client: DockerClient, name: str) -> None:
    """End and remove a container that `start` started; a no-op if there is none."""
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
