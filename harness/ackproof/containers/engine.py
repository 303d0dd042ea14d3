"""The container engine: connection, labels of ackproof's objects, and their removal.

Every container, network and volume that ackproof creates has three labels::

    io.ackproof=1                 created by ackproof
    io.ackproof.run=<run_id>      the run that it belongs to
    io.ackproof.pid=<pid>         the harness process that owns it

Objects are removed by these labels. A reaper container is not used, because a machine without a
container registry cannot pull it. An object is a leftover when its harness process has ended. The
process id is looked up on this machine: do not clean an engine that another host or container also
uses, because objects of a harness that runs there look like leftovers. A process id that is in use
again hides a leftover; `everything=True` lists it.

A cluster that `run --keep` left up has a volume with the label `io.ackproof.kept`: since when.
While one of its containers runs it is no leftover, but is removed by its name, its run id.
"""

from __future__ import annotations

import getpass
import grp
import io
import os
import socket
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ackproof.errors import EngineError, installing
from ackproof.machine import is_running

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "io.ackproof"
LABEL_RUN = "io.ackproof.run"
LABEL_PID = "io.ackproof.pid"
LABEL_KEPT = "io.ackproof.kept"

#: Seconds that the engine may take to answer a request other than a pull.
_REQUEST_S = 60

FREEZE_WAIT_S = 10.0
"""How long to retry when runc cannot freeze a container."""

REMOVAL_WAIT_S = 10.0
"""How long to repeat the removal of a network or volume that a container still uses."""

Kind = Literal["container", "network", "volume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A container, network or volume of ackproof; `pid` is 0 if its label is not a number.

    running: a container that runs. kept_since: of the volume of a kept cluster.
    """

    kind: Kind
    id: str
    name: str
    run_id: str
    pid: int
    running: bool = False
    kept_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Counts of removed objects; `kept` are those not removed (`"<kind> <name>: <reason>"`)."""

    containers: int = 0
    networks: int = 0
    volumes: int = 0
    kept: tuple[str, ...] = ()


def labels(run_id: str) -> dict[str, str]:
    """Return the labels for every container, network and volume of this process."""
    return {LABEL: "1", LABEL_RUN: run_id, LABEL_PID: str(os.getpid())}


def mark_kept(client: DockerClient, run_id: str, since: datetime) -> None:
    """Mark a cluster as kept; labels of containers cannot change. Raises APIError."""
    marks = {**labels(run_id), LABEL_KEPT: since.isoformat()}
    client.api.create_volume(f"ackproof-{run_id}-kept", labels=marks)


def connect() -> DockerClient:
    """Return a client of an engine that answers.

    The engine is `DOCKER_HOST`, otherwise the current Docker context (Docker Desktop, Colima and
    rootless engines set it). `DOCKER_HOST` is set to the context's address for this process, so
    that testcontainers uses the same engine; its reaper is switched off. Raises EngineError without
    Docker's library, an engine, or permission, and for an invalid `DOCKER_HOST`.
    """
    try:
        import docker
        from docker.context import ContextAPI
    except ModuleNotFoundError as error:
        raise EngineError(
            f"the Python package {error.name} is not installed: {installing('run')}"
        ) from error

    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
    configured = os.environ.get("DOCKER_HOST", "")
    host = configured
    try:
        if not configured:
            context = ContextAPI.get_current_context()
            host = context.Host if context and context.Host else "unix:///var/run/docker.sock"
            if context and context.name != "default":
                os.environ["DOCKER_HOST"] = host
        _reach(host)
        client = docker.from_env(timeout=_REQUEST_S)
        client.ping()
    except Exception as error:
        # docker-py raises errors of requests, urllib3 and paramiko, and ValueError.
        raise _engine_error(error, host=host, configured=bool(configured)) from error
    return client


def _reach(host: str) -> None:
    """Connect to a Unix socket once, because docker-py leaves its own open if that fails."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(_REQUEST_S)
            tried.connect(host.removeprefix("unix://"))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and every exception that it wraps: as cause, context or argument."""
    todo: list[BaseException] = [error]
    seen: set[int] = set()
    while todo:
        current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        wrapped = (current.__cause__, current.__context__, *current.args)
        todo.extend(item for item in wrapped if isinstance(item, BaseException))


def _engine_error(error: Exception, *, host: str, configured: bool) -> EngineError:
    if any(isinstance(cause, PermissionError) for cause in _causes(error)):
        user = getpass.getuser()
        return EngineError(
            f"user {user!r} may not use the container engine at {host}: permission denied",
            hint=f"add the user to the socket's group: `sudo usermod -aG {_group(host)} {user}`, "
            "then log in again",
        )
    if configured:
        return EngineError(
            f"no container engine answers at DOCKER_HOST={host!r}: {error}",
            hint="legal: unix:///path/to/docker.sock, tcp://host:port, ssh://user@host; "
            "unset DOCKER_HOST to use this machine's engine",
        )
    unreachable = (FileNotFoundError, ConnectionRefusedError)
    if any(isinstance(cause, unreachable) for cause in _causes(error)):
        return EngineError(
            f"no container engine answers at {host}",
            hint="start one: Docker Desktop; `sudo systemctl start docker`; or, as root without "
            "systemd, `setsid dockerd >/tmp/dockerd.log 2>&1 &` (ci/setup does this on Debian)",
        )
    return EngineError(
        f"the container engine at {host} cannot be used: {error}",
        hint="`docker version` must show a server; ackproof needs Docker 20.10 or later, "
        "or an engine with its API",
    )


def _group(host: str) -> str:
    """Return the group that owns the socket at `host`; 'docker' if that is unknown."""
    try:
        return grp.getgrgid(Path(host.removeprefix("unix://")).stat().st_gid).gr_name
    except (OSError, KeyError):
        return "docker"


def archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def unpacked(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        opened = {member.name.removeprefix("./"): tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in opened.items() if file is not None}


def leftovers(client: DockerClient, *, everything: bool = False) -> tuple[Leftover, ...]:
    """List the objects of harness processes that have ended; `everything`: of all processes."""
    ours = {"label": f"{LABEL}=1"}
    objects = [
        *(
            replace(
                _leftover("container", item["Id"], item["Names"][0].lstrip("/"), item["Labels"]),
                running=item.get("State") == "running",
            )
            for item in client.api.containers(all=True, filters=ours)
            if item.get("Names")  # none while a container is created or removed
        ),
        *(
            _leftover("network", item["Id"], item["Name"], item["Labels"])
            for item in client.api.networks(filters=ours)
        ),
        *(
            _leftover("volume", item["Name"], item["Name"], item["Labels"])
            for item in client.api.volumes(filters=ours)["Volumes"] or ()
        ),
    ]
    return tuple(item for item in objects if everything or not is_running(item.pid))


def _leftover(kind: Kind, id_: str, name: str, marks: dict[str, str]) -> Leftover:
    pid = marks.get(LABEL_PID, "")
    return Leftover(
        kind=kind,
        id=id_,
        name=name,
        run_id=marks.get(LABEL_RUN, ""),
        pid=int(pid) if pid.isdecimal() else 0,
        kept_since=datetime.fromisoformat(marks[LABEL_KEPT]) if LABEL_KEPT in marks else None,
    )


def kept_clusters(objects: Sequence[Leftover]) -> dict[str, datetime]:
    """Return the kept clusters that run, by their names, with the time since when they are kept."""
    running = {item.run_id for item in objects if item.running}
    since = {item.run_id: item.kept_since for item in objects if item.kept_since}
    return {name: at for name, at in since.items() if name in running}


def remove_leftovers(
    client: DockerClient, *, everything: bool = False, kept: bool = False
) -> Removed:
    """Remove leftovers; `kept`: also the kept clusters that run."""
    objects = leftovers(client, everything=everything)
    living = {} if everything or kept else kept_clusters(objects)
    return remove(client, [item for item in objects if item.run_id not in living])


def remove_run(client: DockerClient, run_id: str) -> Removed:
    everything = leftovers(client, everything=True)
    return remove(client, [item for item in everything if item.run_id == run_id])


def remove(client: DockerClient, objects: Sequence[Leftover]) -> Removed:
    """Remove these objects: containers first, then networks, then volumes.

    Objects that do not exist, or that another process is removing, are not counted. `Removed.kept`
    has the objects that the engine refuses to remove.
    """
    counts = {"container": 0, "network": 0, "volume": 0}
    refused: list[str] = []
    for kind in counts:
        items = [item for item in objects if item.kind == kind]
        with ThreadPoolExecutor(max_workers=8) as pool:
            for removed, reason in pool.map(lambda item: _remove(client, item), items):
                counts[kind] += removed
                refused += [reason] if reason else []
    return Removed(
        containers=counts["container"],
        networks=counts["network"],
        volumes=counts["volume"],
        kept=tuple(refused),
    )


def frozen(container: Container) -> bool:
    container.reload()
    return bool(container.attrs["State"]["Paused"])


def freeze(container: Container) -> None:
    """Pause the container; a no-op if it is paused. Raises APIError if that fails.

    runc fails ("unable to freeze") and thaws all processes if one does not freeze at once, for
    example while it forks or waits for a disk. The next attempt may succeed.
    """
    from docker.errors import APIError
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

    def not_frozen(error: BaseException) -> bool:
        return isinstance(error, APIError) and "unable to freeze" in _explanation(error)

    def pause() -> None:
        if not frozen(container):
            container.pause()

    Retrying(
        retry=retry_if_exception(not_frozen),
        stop=stop_after_delay(FREEZE_WAIT_S),
        wait=wait_fixed(0.1),
        reraise=True,
    )(pause)


def _explanation(error: Any) -> str:
    return str(error.explanation or error)


def _remove(client: DockerClient, item: Leftover) -> tuple[bool, str]:
    """Return whether the object was removed, and the engine's reason if it refused."""
    from docker.errors import APIError, NotFound
    from requests import Timeout
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

    def in_use(error: BaseException) -> bool:
        return isinstance(error, APIError) and not isinstance(error, NotFound)

    try:
        if item.kind == "container":
            client.api.remove_container(item.id, force=True, v=True)
            return True, ""
        remove = client.api.remove_network if item.kind == "network" else client.api.remove_volume
        for attempt in Retrying(
            retry=retry_if_exception(in_use),
            stop=stop_after_delay(REMOVAL_WAIT_S),
            wait=wait_fixed(0.2),
            reraise=True,
        ):
            with attempt:
                remove(item.id)
    except NotFound:
        return False, ""
    except APIError as error:
        reason = _explanation(error)
        if item.kind == "container" and "already in progress" in reason:
            return False, ""
        return False, f"{item.kind} {item.name}: {reason}"
    except Timeout:
        return False, f"{item.kind} {item.name}: the engine, which is busy, did not answer in time"
    return True, ""
