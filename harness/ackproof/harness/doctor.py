"""What this machine can and cannot do: one line a capability, and what to do about each lack."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ackproof.harness.cluster import engine, images
from ackproof.harness.cluster.versions import DEFAULT_KAFKA
from ackproof.harness.errors import AckproofError

if TYPE_CHECKING:
    from docker import DockerClient

_ROOM_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at. `missing` prevents runs; `limited` prevents some of them."""

    what: str
    state: Literal["ok", "limited", "missing"]
    found: str
    advice: str = ""


def examine(out: Path) -> list[Check]:
    """Return every check; none of them changes anything but a sidecar that removes itself."""
    return [*_host(out), *_containers()]


def _host(out: Path) -> Iterator[Check]:
    yield _java()
    yield _module("pyspark", "PySpark", "Install ackproof's dependencies (ci/setup does).")
    yield _connector()
    yield _room(out)


def _java() -> Check:
    java = shutil.which("java")
    if java is None:
        return Check(
            what="Java 17 or later",
            state="missing",
            found="no java on the PATH",
            advice="Spark needs it: install a JRE (Debian: openjdk-17-jre-headless).",
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = said.stderr.splitlines()[0] if said.stderr else "unknown version"
    return Check(what="Java 17 or later", state="ok", found=version)


def _module(name: str, what: str, advice: str) -> Check:
    if importlib.util.find_spec(name) is None:
        return Check(what=what, state="missing", found="not installed", advice=advice)
    from importlib.metadata import version

    return Check(what=what, state="ok", found=version(name))


def _connector() -> Check:
    from ackproof.spark_analysis.connector import jars

    found = jars()
    if found:
        return Check(what="Spark's Kafka connector", state="ok", found=f"{len(found)} jars, cached")
    return Check(
        what="Spark's Kafka connector",
        state="limited",
        found="not fetched yet",
        advice="It is fetched at the first run; ci/setup does so beforehand.",
    )


def _room(out: Path) -> Check:
    place = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / 1024**3:.0f} GiB free under {place}"
    if free < _ROOM_BYTES:
        return Check(
            what="Room for runs", state="limited", found=found, advice="Free some, or use --out."
        )
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Check(
            what="Room for runs",
            state="missing",
            found=f"{place} cannot be written: {error.strerror}",
            advice="Name another place with --out.",
        )
    return Check(what="Room for runs", state="ok", found=found)


def _containers() -> Iterator[Check]:
    try:
        client = engine.connect()
    except AckproofError as error:
        yield Check(
            what="Container engine", state="missing", found=error.message, advice=error.hint
        )
        return
    version = client.version()
    yield Check(what="Container engine", state="ok", found=f"{version['Version']}")
    local = [image.reference for image in images.list_images(client)]
    yield Check(
        what="Broker images",
        state="ok" if local else "limited",
        found=", ".join(local) or "none yet",
        advice="" if local else f"`ackproof image build {DEFAULT_KAFKA}` makes one.",
    )
    yield from _faults(client)


#: What each kernel ability is asked with, beside a container of ours, and what needs it.
_PROBES = (
    (
        "Partitions (nftables)",
        "nft add table inet ackproof_probe && nft delete table inet ackproof_probe",
        "isolate_replication cannot be injected: the kernel has no nf_tables, or NET_ADMIN is "
        "refused.",
    ),
    (
        "Random packet loss (nftables numgen)",
        "nft 'add table inet p; add chain inet p c { type filter hook input priority 0; }; "
        "add rule inet p c numgen random mod 100 < 10 drop'",
        "Packet loss cannot be injected.",
    ),
    (
        "Latency and loss by netem",
        "tc qdisc add dev lo root netem delay 1ms",
        "The kernel has no sch_netem; faults that need it are refused.",
    ),
    (
        "Bandwidth limits (tbf)",
        "tc qdisc add dev lo root tbf rate 1mbit burst 32kbit latency 400ms",
        "The kernel has no sch_tbf; faults that need it are refused.",
    ),
)


def _faults(client: DockerClient) -> Iterator[Check]:
    yield Check(what="kill, restart (signals)", state="ok", found="the engine can send signals")
    try:
        sidecar = images.ensure_sidecar(client=client)
    except AckproofError as error:
        yield Check(what="Network faults", state="limited", found=error.message, advice=error.hint)
        return
    for what, script, advice in _PROBES:
        yield _probe(client, sidecar, what, script, advice)


def _probe(client: DockerClient, sidecar: str, what: str, script: str, advice: str) -> Check:
    from docker.errors import APIError, ContainerError

    run: Callable[..., bytes] = client.containers.run
    try:
        run(
            sidecar,
            entrypoint=["/bin/bash", "-c", script],
            cap_add=["NET_ADMIN"],
            network_mode="none",
            user="root",
            labels=engine.labels("doctor"),
            remove=True,
            stderr=True,
        )
    except (APIError, ContainerError) as error:
        text = getattr(error, "stderr", None) or str(error).encode()
        reason = text.decode(errors="replace").strip().splitlines()
        return Check(
            what=what, state="limited", found=reason[0] if reason else "refused", advice=advice
        )
    return Check(what=what, state="ok", found="works in a container's network namespace")
