"""Commands in a running container, and what they print.

docker-py's own `exec_run` reads below the buffer of the HTTP client: what a command has printed by
the time the response's headers are read is lost (the output of 3 of 1,800 commands on a busy
machine). Here it is read through that buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackproof.errors import EngineError
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from docker.models.containers import Container

_STDOUT = 1
#: What precedes each piece of output: its stream, three bytes of padding, its length.
_HEADER = struct.Struct(">BxxxI")
_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a command printed, and how it ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Command:
    """A command that runs in a container; it is begun by reading what it prints.

    Every method raises `docker.errors.APIError`, `requests.RequestException`, or, where the engine
    ends the output within a frame, `docker.errors.DockerException`.
    """

    def __init__(
        self,
        container: Container,
        command: Sequence[str],
        *,
        user: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._api = container.client.api  # type: ignore[union-attr]  # it has come from a client
        self._id = self._api.exec_create(
            container.id, list(command), user=user, environment=dict(environment or {})
        )["Id"]

    def frames(self) -> Generator[tuple[int, bytes], None, None]:
        """Start the command; yield its output as it comes: the stream's number, bytes."""
        from docker.errors import DockerException, create_api_error_from_http_exception
        from requests import ConnectionError as Disconnected
        from requests import HTTPError
        from urllib3.exceptions import HTTPError as TransportError

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
        """Start the command and yield what it prints, without its errors."""
        with closing(self.frames()) as frames:
            yield from (data for stream, data in frames if stream == _STDOUT)

    def exit_code(self) -> int:
        """Return the exit code of the command, whose output has ended.

        Raises EngineError if the engine does not tell it within ten seconds.
        """
        return int(
            wait_for(
                lambda: self._api.exec_inspect(self._id)["ExitCode"],
                lambda code: code is not None,
                within_s=_WITHIN_S,
                failure=lambda _: EngineError(
                    f"the engine does not tell how a command ended within {_WITHIN_S:g} s",
                    hint="Look at the engine's log.",
                ),
            )
        )


def run(
    container: Container,
    command: Sequence[str],
    *,
    user: str = "",
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command in a container to its end.

    Raises the errors of `Command`.
    """
    started = Command(container, command, user=user, environment=environment)
    frames = list(started.frames())
    return Finished(
        exit_code=started.exit_code(),
        stdout=b"".join(data for stream, data in frames if stream == _STDOUT),
        stderr=b"".join(data for stream, data in frames if stream != _STDOUT),
    )
