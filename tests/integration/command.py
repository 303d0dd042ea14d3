"""The `ackproof` command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docker import DockerClient

from ackproof.clients.shared_page import ProgressPage
from ackproof.containers.engine import LABEL
from waiting import until

ROOT = Path(__file__).parents[2]


def ackproof(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for its end."""
    return subprocess.run(
        _line(arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command."""
    return subprocess.Popen(
        _line(arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _line(arguments: tuple[str | Path, ...]) -> list[str]:
    return [str(Path(sys.executable).with_name("ackproof")), *map(str, arguments)]


def printed(result: subprocess.CompletedProcess[str]) -> Any:
    """Return the JSON that the command printed."""
    return json.loads(result.stdout)


def ours(engine: DockerClient, pid: int) -> Mapping[str, list[Any]]:
    """Return the containers, networks and volumes that the process `pid` created."""
    wanted: dict[str, str | list[str] | bool] = {"label": f"{LABEL}.pid={pid}"}
    return {
        "containers": engine.containers.list(all=True, filters=wanted, ignore_removed=True),
        "networks": engine.networks.list(filters=wanted),
        "volumes": engine.volumes.list(filters=wanted),
    }


def await_acks(out: Path, process: subprocess.Popen[str], *, at_least: int) -> Path:
    """Wait until a run under `out` has acked sends; return its directory."""

    def acked() -> int:
        if process.poll() is not None:
            raise AssertionError(f"ended early: {process.communicate()}")
        pages = list(out.glob("latest/clients/*.progress"))
        return sum(ProgressPage(page).read().acked for page in pages)

    until(acked, good=lambda count: count >= at_least)
    return (out / "latest").resolve()


def clock() -> datetime:
    """Return the current time, for fault windows."""
    return datetime.now(UTC)
