"""The output of commands in containers, from an engine of the tests."""

from __future__ import annotations

import json
import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
from docker.errors import APIError, DockerException

from ackproof.containers import commands, kafka_tools
from ackproof.errors import ClusterError


class Engine(socketserver.ThreadingUnixStreamServer):
    """Answers three requests; each list is used up from its begin."""

    daemon_threads = True
    created: tuple[Any, ...] = ()
    output = b""
    exit_codes: list[int | None] = []  # noqa: RUF012  # replaced for each engine


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def address_string(self) -> str:
        return "a unix socket has none"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:  # BaseHTTPRequestHandler's name
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/containers/gone/exec"):
            self._answer(409, {"message": "container gone is not running"})
        elif self.path.endswith("/containers/broker/exec"):
            self.server.created = given["Cmd"], given["User"]
            self._answer(201, {"Id": "e1"})
        else:
            # In one piece, as it arrives on a busy machine.
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + self.server.output)
            self.close_connection = True

    def do_GET(self) -> None:
        self._answer(200, {"ExitCode": self.server.exit_codes.pop(0)})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(content)}\r\n"
        self.wfile.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(str(tmp_path / "engine.sock"), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def broker(engine: Engine) -> Iterator[Any]:
    address = f"unix://{engine.server_address}"
    with closing(docker.DockerClient(base_url=address, version="1.43")) as client:
        yield SimpleNamespace(id="broker", client=client)


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", stream, len(data)) + data


def test_output_that_arrives_with_the_response_headers_is_complete(
    engine: Engine, broker: Any
) -> None:
    engine.output = frame(1, b"one ") + frame(2, b"a warning") + frame(1, bytes(20_000))
    engine.exit_codes = [3]
    done = commands.run(broker, ["tool", "--now"], user="root")
    assert (done.stdout, done.stderr) == (b"one " + bytes(20_000), b"a warning")
    assert done.exit_code == 3
    assert engine.created == (["tool", "--now"], "root")


def test_an_exit_code_is_waited_for(engine: Engine, broker: Any) -> None:
    engine.exit_codes = [None, None, 0]
    done = commands.run(broker, ["tool"])
    assert done == commands.Finished(exit_code=0, stdout=b"", stderr=b"")


@pytest.mark.parametrize("kept", [4, 10])
def test_output_that_ends_within_a_frame_is_an_error(
    engine: Engine, broker: Any, kept: int
) -> None:
    engine.output = frame(1, b"whole") + frame(1, b"cut")[:kept]
    output = commands.Command(broker, ["tool"]).stdout()
    assert next(output) == b"whole"
    with pytest.raises(DockerException, match="within a frame"):
        next(output)


def test_a_container_that_does_not_run_is_an_error_of_the_engine(broker: Any) -> None:
    broker.id = "gone"
    with pytest.raises(APIError, match="is not running"):
        commands.run(broker, ["tool"])


@pytest.mark.parametrize(
    ("existing", "executed"),
    [(["org.new.Tool", "old.Tool"], "org.new.Tool"), (["old.Tool"], "old.Tool"), ([], "old.Tool")],
)
def test_the_newest_existing_class_of_a_tool_runs(
    existing: list[str], executed: str, tmp_path: Path
) -> None:
    jar = "".join(f"{name.replace('.', '/')}.class\n" for name in existing)
    (tmp_path / "tools.jar").write_text(jar)
    script = kafka_tools.kafka_command(("org.new.Tool", "old.Tool"), "--flag").replace(
        "/opt/kafka/libs/", f"{tmp_path}/"
    )
    script = f'java() {{ echo "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == [executed, "--flag"]


def test_a_tool_that_fails_is_told_without_the_frames_of_its_stack(monkeypatch):
    errors = (
        "Error: the request failed\n"
        "java.util.concurrent.ExecutionException: TimeoutException: timed out\n"
        + "".join(f"\tat java.base/java.util.Frame.run(Frame.java:{line})\n" for line in range(20))
        + "Caused by: DisconnectException: cancelled\n\t... 21 more\n"
    )
    done = commands.Finished(exit_code=1, stdout=b"", stderr=errors.encode())
    monkeypatch.setattr(commands, "run", lambda *_: done)
    node = SimpleNamespace(name="broker-1", container=None)
    with pytest.raises(ClusterError) as raised:
        commands.run_script(node, "exit 1", "ReassignPartitionsCommand")
    assert raised.value.message == (
        "ReassignPartitionsCommand at broker-1 failed (1): Error: the request failed\n"
        "java.util.concurrent.ExecutionException: TimeoutException: timed out\n"
        "Caused by: DisconnectException: cancelled"
    )
