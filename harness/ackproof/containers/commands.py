"""Commands in running containers, Kafka's own tools in nodes, and scripts in sidecars.

A sidecar is a short-lived container that shares a node's network namespace or volume.

docker-py's `exec_run` bypasses the buffer of the HTTP client, so output that arrives together with
the response's headers is lost (3 of 1,800 commands on a busy machine). `Command` reads the buffer.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import struct
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from docker import DockerClient
from docker.errors import (
    ContainerError,
    DockerException,
    NotFound,
    create_api_error_from_http_exception,
)
from docker.models.containers import Container
from docker.types import LogConfig
from requests import ConnectionError as Disconnected
from requests import HTTPError
from urllib3.exceptions import HTTPError as TransportError

from ackproof.containers.engine import labels
from ackproof.containers.kafka_tools import kafka_command
from ackproof.errors import ClusterError, EngineError
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import CommandResult

_STDOUT = 1
#: The header of each piece of output: its stream, three bytes of padding, its length.
_HEADER = struct.Struct(">BxxxI")
_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The output and the exit code of a command."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Command:
    """A command in a container; it starts when its output is read.

    Every method raises `docker.errors.APIError`, `requests.RequestException`, or, if the engine
    ends the output within a frame, `docker.errors.DockerException`.
    """

    def __init__(
        self,
        container: Container,
        command: Sequence[str],
        *,
        user: str = "",
    ) -> None:
        self._api = container.client.api  # type: ignore[union-attr]  # it has come from a client
        self._id = self._api.exec_create(container.id, list(command), user=user)["Id"]

    def frames(self) -> Generator[tuple[int, bytes], None, None]:
        """Start the command; yield its output as it arrives: the stream's number, bytes."""
        response = self._api.post(
            f"{self._api.base_url}/v{self._api.api_version}/exec/{self._id}/start",
            json={"Detach": False, "Tty": False},
            stream=True,
            timeout=(self._api.timeout, None),  # a command may be silent for any time
        )
        try:
            try:
                response.raise_for_status()
            except HTTPError as error:
                create_api_error_from_http_exception(error)  # it raises
            while header := response.raw.read(_HEADER.size):
                whole = len(header) == _HEADER.size
                stream, length = _HEADER.unpack(header) if whole else (0, 1)
                data = response.raw.read(length)
                if len(data) < length:
                    raise DockerException("the engine ended a command's output within a frame")
                yield stream, data
        except TransportError as error:
            raise Disconnected(error) from error
        finally:
            response.close()

    def stdout(self) -> Generator[bytes, None, None]:
        """Start the command and yield its standard output."""
        with contextlib.closing(self.frames()) as frames:
            yield from (data for stream, data in frames if stream == _STDOUT)

    def exit_code(self) -> int:
        """Return the exit code after the output has ended.

        Raises EngineError if the engine does not report it within ten seconds.
        """
        return int(
            wait_for(
                lambda: self._api.exec_inspect(self._id)["ExitCode"],
                lambda code: code is not None,
                within_s=_WITHIN_S,
                failure=lambda _: EngineError(
                    f"the engine did not report a command's exit code within {_WITHIN_S:g} s",
                    hint="Look at the engine's log.",
                ),
            )
        )


def run(container: Container, command: Sequence[str], *, user: str = "") -> Finished:
    """Run a command in a container to its end; raise the errors of `Command`."""
    started = Command(container, command, user=user)
    frames = list(started.frames())
    return Finished(
        exit_code=started.exit_code(),
        stdout=b"".join(data for stream, data in frames if stream == _STDOUT),
        stderr=b"".join(data for stream, data in frames if stream != _STDOUT),
    )


#: A line of a Java stack trace that names no error.
_FRAME = re.compile(r"\s+(at \S+\(|\.\.\. \d+ more)")


class Node(Protocol):
    """A node of a cluster: the name for messages, and the container that runs it."""

    @property
    def name(self) -> str: ...

    @property
    def container(self) -> Container: ...


def run_kafka_tool(node: Node, classes: tuple[str, ...], *arguments: str) -> str:
    """Run one of Kafka's tools in the node's container and return its output.

    Raises ClusterError with the tool's last lines if it fails, without the frames of a stack.
    """
    script = kafka_command(classes, shlex.join(arguments))
    return run_script(node, script, classes[0].rpartition(".")[2])


def run_script(node: Node, script: str, what: str) -> str:
    """Run a bash script in the node's container; `what` is its name in the error message."""
    done = run(node.container, ["bash", "-c", script])
    output, errors = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    if done.exit_code != 0:
        lines = (output + errors).strip().splitlines()
        last_lines = "\n".join([line for line in lines if not _FRAME.match(line)][-8:])
        raise ClusterError(f"{what} at {node.name} failed ({done.exit_code}): {last_lines}")
    return output


def run_sidecar(
    client: DockerClient, image: str, script: str, *, run_id: str, **options: Any
) -> CommandResult:
    """Run a bash script as root in a container that is removed afterwards.

    `options` are docker-py's: network, volumes, capabilities.
    """
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


def start_sidecar(
    client: DockerClient, image: str, script: str, *, name: str, run_id: str, **options: Any
) -> None:
    """Start a container as `run_sidecar` does, in the background and with a name."""
    client.containers.run(image, **_as_root(script, run_id), **options, name=name, detach=True)


def end_sidecar(client: DockerClient, name: str) -> None:
    """End and remove a container that `start_sidecar` started; a no-op if there is none."""
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
