"""Temporary folders of killed processes are removed, and those of living ones are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ackproof_spark.spark import scratch

OWNER = "from ackproof_spark.spark import scratch; print(scratch.create(), flush=True); input()"


def test_only_folders_of_ended_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = scratch.create()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        other = Path(owner.stdout.readline().strip())
        assert other.parent == tmp_path
        assert scratch.remove_orphans() == 0
        assert other.is_dir()
        owner.send_signal(signal.SIGKILL)
    assert scratch.remove_orphans() == 1
    assert list(tmp_path.iterdir()) == [own]
    scratch.remove(own)
    assert not own.exists()
    assert scratch.remove_orphans() == 0
