"""Whether containers find each other by name, and whether this machine is on an engine's networks.

podman without a plugin for names, rootless engines and engines outside this container lack some of
it. The engine tells none of it, so a container tries.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ackproof.containers import sidecar
from ackproof.containers.engine import labels, remove_run

if TYPE_CHECKING:
    from docker import DockerClient

#: bash asks the resolver; no one listens on the port, so the answer for a known name is a refusal.
_RESOLVE = """\
said=$( (exec 3<>/dev/tcp/{name}/9) 2>&1 )
case "$said" in
    *refused*) exit 0 ;;
    *) said=${{said%%$'\\n'*}}; echo "${{said##*: }}" >&2; exit 1 ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """`nameless`: why a container does not find another one by its name; '' if it does.

    `local`: whether this machine has an address on the engine's networks.
    """

    nameless: str
    local: bool


def probe(client: DockerClient, image: str) -> Reach:
    """Try both with two sidecars on a network of their own, which are removed."""
    run_id = name = f"ackproof-doctor-{os.getpid()}"
    try:
        network = client.networks.create(name, labels=labels(run_id))
        sidecar.start(client, image, "sleep 60", name=name, run_id=run_id, network=name)
        script = _RESOLVE.format(name=name)
        answer = sidecar.run(client, image, script, run_id=run_id, network=name)
        network.reload()
        gateway = network.attrs["IPAM"]["Config"][0]["Gateway"]
        return Reach(
            nameless="" if answer.exit_status == 0 else answer.output.strip() or "no answer",
            local=_is_here(gateway),
        )
    finally:
        remove_run(client, run_id)


def _is_here(address: str) -> bool:
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True
