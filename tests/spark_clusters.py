"""A real Spark cluster on the loopback interface: a standalone master, workers, Spark Connect.

Each is a process of its own, started from the installed pyspark and ended by its id.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import pyspark

_T = TypeVar("_T")

HOME = Path(pyspark.__file__).parent
#: Timeout for the expected output of a process.
_WITHIN_S = 300.0


@dataclass(slots=True, kw_only=True)
class SparkCluster:
    """`master` is the URL of the master; `folder` has logs and scratch space of the workers."""

    master: str
    folder: Path
    workers: list[psutil.Process] = field(default_factory=list)

    def executors(self) -> list[psutil.Process]:
        """Return the running executors."""
        return [
            child
            for worker in self.workers
            for child in worker.children(recursive=True)
            if "CoarseGrainedExecutorBackend" in " ".join(_command_line(child))
        ]

    def refuse_executors_like(self, executor: psutil.Process) -> None:
        """Have no worker start another executor of this one's application.

        A worker makes a folder for each executor, below one of the application: a file is there.
        """
        with contextlib.suppress(psutil.NoSuchProcess):
            application = Path(executor.cwd()).parent.name
            for worker in self.folder.glob("worker-*/"):
                place = worker / application
                if place.is_dir():
                    place.rename(worker / f"ended-{application}")
                place.touch()


def _command_line(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return ()


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a Spark process apart from this process's session."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SPARK_", "PYSPARK_")) and key != "PYTHONPATH"
    }
    return {
        **inherited,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


def bare_python(folder: Path) -> Path:
    """Return an interpreter with everything that this one has installed, except ackproof.

    ackproof is installed here by a .pth file, which `-S` leaves unread.
    """
    libraries = sysconfig.get_path("purelib")
    script = folder / "bare-python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n'
    )
    script.chmod(0o755)
    return script


def await_that(
    look: Callable[[], _T], satisfied: Callable[[_T], object], failure: Callable[[_T], str]
) -> _T:
    """Wait until `satisfied`; fail the test with the message of `failure` after the timeout."""
    deadline = time.monotonic() + _WITHIN_S
    while not satisfied(seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(failure(seen))
        time.sleep(0.05)
    return seen


@contextlib.contextmanager
def _process(line: Sequence[str | Path], log: Path, **env: str) -> Iterator[psutil.Process]:
    with log.open("w") as output:
        started = psutil.Popen(
            [str(part) for part in line],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            cwd=log.parent,
            env=environment(**env),
        )
    try:
        yield started
    finally:
        family = [*_descendants(started), started]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, timeout=30)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _said(process: psutil.Process, log: Path, pattern: str, times: int = 1) -> str:
    """Wait until the log has `pattern` a number of times; return its last group."""

    def look() -> list[str]:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            raise AssertionError(f"{log.name} ended:\n{log.read_text()[-3000:]}")
        return re.findall(pattern, log.read_text())

    return await_that(
        look, lambda found: len(found) >= times, lambda _: f"{log}:\n{log.read_text()[-3000:]}"
    )[-1]


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int = 2, memory: str = "1g") -> Iterator[SparkCluster]:
    """Start a master and workers of one core and `memory` each."""
    spark_class = HOME / "bin" / "spark-class"
    heap = {
        "SPARK_DAEMON_MEMORY": "256m",
        # An application whose executors die more often than this is given up; by default ten times.
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=3",
    }
    with contextlib.ExitStack() as stack:
        log = folder / "master.log"
        master = stack.enter_context(
            _process(
                [
                    *(spark_class, "org.apache.spark.deploy.master.Master"),
                    *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                ],
                log,
                **heap,
            )
        )
        cluster = SparkCluster(
            master=_said(master, log, r"Starting Spark master at (spark://\S+)"), folder=folder
        )
        for number in range(workers):
            cluster.workers.append(
                stack.enter_context(
                    _process(
                        [
                            *(spark_class, "org.apache.spark.deploy.worker.Worker"),
                            *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                            *("--cores", "1", "--memory", memory),
                            *("--work-dir", folder / f"worker-{number}", cluster.master),
                        ],
                        folder / f"worker-{number}.log",
                        **heap,
                    )
                )
            )
        _said(master, log, "Registering worker", workers)
        yield cluster


@contextlib.contextmanager
def connect_server(folder: Path, *, master: str, **settings: str) -> Iterator[str]:
    """Start a Spark Connect server on `master`; yield its URL. `a__b` in a setting is `a.b`."""
    given = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{key.replace("__", "."): value for key, value in settings.items()},
    }
    log = folder / "connect.log"
    line: list[str | Path] = [
        *(HOME / "bin" / "spark-submit", "--master", master),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for key, value in given.items() for part in ("--conf", f"{key}={value}")),
        *("--name", "connect", "spark-internal"),
    ]
    with _process(line, log) as server:
        port = _said(server, log, r"Spark Connect server started at: \S+:(\d+)")
        yield f"sc://127.0.0.1:{port}"
