"""Checks what this machine supports, and advises how to get what is missing.

Some engines lack name resolution between containers (podman without its plugin), or their networks
are not reachable from here (rootless engines, engines outside this container). Their API does not
report it, so containers try.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ackproof.containers import engine
from ackproof.errors import AckproofError, EngineError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.spark_session import OWN_READER
from ackproof_faults import Fault, Need, registered
from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark.connector import INSTALL, TRIED, check_java, failure, jars, spark_version

if TYPE_CHECKING:
    from docker import DockerClient

_MIN_FREE_BYTES = 2 * 1024**3

#: bash asks the resolver. No process listens on the port, so a known name is refused.
_RESOLVE = """\
said=$( (exec 3<>/dev/tcp/{name}/9) 2>&1 )
case "$said" in
    *refused*) exit 0 ;;
    *) said=${{said%%$'\\n'*}}; echo "${{said##*: }}" >&2; exit 1 ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One capability. `missing` prevents all runs, `limited` some of them."""

    what: str
    state: Literal["ok", "limited", "missing"]
    found: str
    advice: str = ""


def _ok(what: str, found: str) -> Check:
    return Check(what=what, state="ok", found=found)


def _limited(what: str, found: str, advice: str) -> Check:
    return Check(what=what, state="limited", found=found, advice=advice)


def _missing(what: str, found: str, advice: str = "") -> Check:
    return Check(what=what, state="missing", found=found, advice=advice)


def examine(out: Path) -> list[Check]:
    """Run every check. The only containers that they start are sidecars, which they remove."""
    return [*_host(out), *_containers()]


def _host(out: Path) -> Iterator[Check]:
    yield _version("Java 17 or later", lambda: f"Java {check_java()}")
    yield _spark()
    yield _connector()
    yield _disk_space(out)


def _version(what: str, version: Callable[[], str]) -> Check:
    """Check something that every run needs; `version` raises AnalysisError without it."""
    try:
        return _ok(what, version())
    except AnalysisError as error:
        return _missing(what, str(error))


def _spark() -> Check:
    check = _version("PySpark", spark_version)
    untried = check.state == "ok" and check.found not in TRIED
    return _limited(check.what, check.found, INSTALL) if untried else check


def _connector() -> Check:
    what = "Spark's Kafka connector"
    try:
        cached, reason = jars(), failure()
    except AnalysisError:
        return _missing(what, "it depends on the version of PySpark")
    if cached:
        return _ok(what, f"{len(cached)} jars, cached")
    if reason:
        return _limited(what, reason, OWN_READER)
    advice = "The first run fetches it; ci/setup fetches it in advance."
    return _limited(what, "not fetched yet", advice)


def _disk_space(out: Path) -> Check:
    what = "Disk space for runs"
    folder = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    space = f"{free / 1024**3:.0f} GiB free in {folder}"
    if free < _MIN_FREE_BYTES:
        return _limited(what, space, "Free some space, or use --out.")
    try:
        with tempfile.TemporaryFile(dir=folder):
            return _ok(what, space)
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror}"
        return _missing(what, problem, "Choose another folder with --out.")


def _containers() -> Iterator[Check]:
    try:
        client = engine.connect()
    except AckproofError as error:
        yield _missing("Container engine", error.message, error.hint)
        return
    from ackproof.containers import images  # needs docker

    yield from _engine(client)
    local = [image.reference for image in images.list_images(client) if image.of_brokers]
    if local:
        yield _ok("Broker images", ", ".join(local))
    else:
        advice = f"Run `ackproof image {DEFAULT_KAFKA} --build`."
        yield _limited("Broker images", "none yet", advice)
    yield from _faults(client)


def _engine(client: DockerClient) -> Iterator[Check]:
    """Yield the engine's version and the limits that it cannot set."""
    version, info = client.version(), client.info()
    components = version.get("Components") or ()
    name = next((component["Name"] for component in components), "Engine")
    rootless = any("rootless" in option for option in info.get("SecurityOptions") or ())
    full_version = version["Version"] if name == "Engine" else f"{name} {version['Version']}"
    yield _ok("Container engine", f"{full_version}, rootless" if rootless else full_version)
    limits = {"memory": info.get("MemoryLimit"), "CPU time": info.get("CpuCfsQuota")}
    lacking = " and ".join(what for what, limited in limits.items() if not limited)
    if lacking:
        yield _limited(
            "Limits of memory and CPU",
            f"the engine cannot limit {lacking}",
            "cluster.memory and cluster.cpus have no effect here. A rootless engine needs "
            "cgroup v2, and systemd that delegates the controllers memory and cpu to the user.",
        )
    else:
        yield _ok("Limits of memory and CPU", "the engine sets them")
    if rootless and str(info.get("CgroupVersion")) == "1":
        yield _limited(
            "pause (the freezer)",
            "a rootless engine has no freezer with cgroup v1",
            "The fault pause cannot be injected. Boot with cgroup v2, or use root's engine.",
        )


def _networks(client: DockerClient, image: str) -> Iterator[Check]:
    from docker.errors import DockerException

    what = "Names of containers"
    try:
        nameless, local = _reach(client, image)
    except DockerException as error:
        advice = "The engine must create networks and start containers in them."
        yield _missing(what, str(error), advice)
        return
    if nameless:
        yield _missing(
            what,
            nameless,
            "Brokers find each other by name. podman needs a plugin for that, on Debian 12: "
            "apt-get install golang-github-containernetworking-plugin-dnsname; with netavark: "
            "aardvark-dns.",
        )
    else:
        yield _ok(what, "containers of a network find each other")
    yield _gateway(local=local, contained=_contained())


def _reach(client: DockerClient, image: str) -> tuple[str, bool]:
    """Test the networks of the engine with two sidecars on a new one, and remove them.

    Returns why a container cannot resolve another one's name ('' if it can), and whether this
    machine has an address on the engine's networks.
    """
    from ackproof.containers import commands

    run_id = name = f"ackproof-doctor-{os.getpid()}"
    try:
        network = client.networks.create(name, labels=engine.labels(run_id))
        commands.start_sidecar(client, image, "sleep 60", name=name, run_id=run_id, network=name)
        script = _RESOLVE.format(name=name)
        answer = commands.run_sidecar(client, image, script, run_id=run_id, network=name)
        network.reload()
        gateway = network.attrs["IPAM"]["Config"][0]["Gateway"]
        nameless = "" if answer.exit_status == 0 else answer.output.strip() or "no answer"
        return nameless, _is_here(gateway)
    finally:
        engine.remove_run(client, run_id)


def _is_here(address: str) -> bool:
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True


def _gateway(*, local: bool, contained: bool) -> Check:
    what = "Networks of the engine"
    if local:
        return _ok(what, "this machine is on them")
    if contained:
        return _missing(
            what,
            "this is a container, and the engine runs outside of it",
            "Brokers are published on 127.0.0.1 of the engine's machine: start this "
            "container with --network host, or run an engine inside it (docker-in-docker).",
        )
    return _limited(
        what,
        "this machine is not on them: the engine is rootless, or in a virtual machine",
        "INTERNAL and CONTROLLER cannot lead through the Kafka proxy (cluster.proxied).",
    )


def _contained() -> bool:
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


def _faults(client: DockerClient) -> Iterator[Check]:
    from ackproof.containers import fake_clock, images

    yield _ok("kill, restart (signals)", "the engine can send signals")
    clocks = "Adjustable clocks (a C compiler)"
    if lack := fake_clock.problem(client):
        advice = "cluster.clock: adjustable and its faults are not possible here. On Debian: "
        yield _limited(clocks, lack, advice + "apt-get install gcc.")
    else:
        yield _ok(clocks, "their library can be compiled")
    try:
        image = images.ensure_sidecar(client=client)
    except AckproofError as error:
        yield _limited("Network faults", error.message, error.hint)
        return
    yield from _networks(client, image)
    for need in Need:
        if lack := _lack(client, image, need):
            affected = sorted(name for name, kind in registered().items() if need in kind.needs)
            yield _limited(
                need.what,
                lack,
                f"The kernel has no {need.kernel}, or access to it is refused. These faults cannot "
                f"be injected: {', '.join(affected)}.",
            )
        else:
            yield _ok(need.what, "works in a container")


def require_needs(client: DockerClient, faults: Sequence[Fault]) -> None:
    """Raise EngineError with fault and reason if the kernel lacks what these faults need."""
    from ackproof.containers import images

    needed = {need: fault.name for fault in faults for need in fault.needs}
    if not needed:
        return
    image = images.ensure_sidecar(client=client)
    for need, name in needed.items():
        if lack := _lack(client, image, need):
            raise EngineError(
                f"the fault {name} cannot be injected here: {need.what} needs {need.kernel}, and "
                f"the kernel answers: {lack}",
                hint="Use another machine, or remove the fault. `ackproof doctor` lists what this "
                "machine supports.",
            )


@cache
def _lack(client: DockerClient, image: str, need: Need) -> str:
    """Return the kernel's error if it does not support this; '' if it does."""
    from docker.errors import APIError

    from ackproof.containers import block_limits, commands

    run_id = f"doctor-{os.getpid()}"
    try:
        result = commands.run_sidecar(
            client,
            image,
            need.script,
            run_id=run_id,
            cap_add=["NET_ADMIN"],
            network_mode="none",
            volumes=block_limits.GROUPS if need is Need.BLOCK_LIMITS else {},
        )
    except APIError as error:
        return str(error.explanation or error)
    except KeyboardInterrupt:
        engine.remove_run(client, run_id)
        raise
    if result.exit_status == 0:
        return ""
    return (result.output.strip().splitlines() or ["refused"])[0]
