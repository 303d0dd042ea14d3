"""Runs pytest in a process of its own that has its modules and its plugins already.

Such a process is forked from a server, which imports them once. A fresh Python would spend a second
of CPU time on the same imports.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")
_PLUGINS = [plugin.module for plugin in entry_points(group="pytest11")]
_SERVER.set_forkserver_preload(
    [
        *(
            "pytest",
            "hypothesis",
            "ruamel.yaml",
            *_PLUGINS,
            "ackproof.api",
            "ackproof.runs.verdict",
        ),
        *("ackproof_faults.exported", "ackproof.scenario.loader", "ackproof.prediction.predict"),
        *("ackproof.clients.supervisor", "ackproof.judgement.overview.collect"),
    ]
)


def pytest_in(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder and capture its output."""
    outputs = folder / ".stdout", folder / ".stderr"
    process = _SERVER.Process(target=_run, args=(folder, arguments, dict(environment), outputs))
    process.start()
    process.join()
    assert process.exitcode is not None
    stdout, stderr = (path.read_text() for path in outputs)
    return subprocess.CompletedProcess(list(arguments), process.exitcode, stdout, stderr)


def _run(
    folder: Path, arguments: Sequence[str], environment: dict[str, str], outputs: tuple[Path, Path]
) -> None:
    import pytest

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), stream)
    # Pytest cannot rewrite the assertions of plugins that are imported already.
    known = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    sys.exit(int(pytest.main([*arguments, *known])))
