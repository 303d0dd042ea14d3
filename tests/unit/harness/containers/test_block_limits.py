"""Limits on the block I/O of a container."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ackproof.containers import block_limits


@pytest.mark.parametrize(
    ("groups", "words"),
    [(["system.slice/docker-abc.scope"], ""), ([], "the engine's control groups have none for it")],
)
def test_limits_are_written_to_the_control_group(
    groups: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "sys" / "8:0").mkdir(parents=True)
    for group in ("", *groups):
        (tmp_path / "cgroup" / group).mkdir(parents=True)
    script = "mountpoint() { echo 8:0; }\n" + block_limits.script("abc", 5, None)
    for path, name in {"/sys/dev/block": "sys", "/cgroup": "cgroup"}.items():
        script = script.replace(path, str(tmp_path / name))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (int(bool(words)), words)
    for group in groups:
        limits = (tmp_path / "cgroup" / group / "io.max").read_text()
        assert limits == "8:0 rbps=5 wbps=5 riops=max wiops=max\n"
