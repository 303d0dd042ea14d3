"""Limits on the block I/O of a container."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ackproof.containers import block_limits
from ackproof_faults.interfaces.kernel import Need

V1, V2 = "blkio/docker/abc", "system.slice/docker-abc.scope"


def run(script: str, root: Path) -> tuple[int, str]:
    """Run a sidecar's script on a fake tree of control groups and devices."""
    for path, name in {"/sys/dev/block": "sys", "/cgroup": "cgroup"}.items():
        script = re.sub(rf"(?<!\w){path}\b(?!\.)", str(root / name), script)
    script = "mountpoint() { echo 8:0; }\n" + script
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ("files", "devices", "words"),
    [
        ([f"{V2}/io.max"], ["8:0"], ""),
        ([f"{V1}/tasks", f"{V2}/io.max"], ["8:0"], ""),
        ([f"{V2}/cpu.max"], ["8:0"], "has no io controller"),
        (["system.slice/docker-other.scope/io.max"], ["8:0"], "control groups have none for it"),
        ([f"{V2}/io.max"], [], "its volume is on no block device (8:0)"),
    ],
)
def test_limits_are_written_to_the_control_group(
    files: list[str], devices: list[str], words: str, tmp_path: Path
) -> None:
    groups = tmp_path / "cgroup"
    for path in (*(tmp_path / "sys" / device for device in devices), *map(groups.joinpath, files)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    status, output = run(block_limits.script("abc", 5, None), tmp_path)
    assert (status == 0, words in output) == (not words, True)
    limited = (groups / V2 / "io.max").read_text() if f"{V2}/io.max" in files else ""
    if status == 0 and f"{V1}/tasks" in files:
        throttles = {
            path.name.removeprefix("blkio.throttle."): path.read_text()
            for path in (groups / V1).glob("blkio.*")
        }
        assert throttles == {
            **dict.fromkeys(("read_bps_device", "write_bps_device"), "8:0 5\n"),
            **dict.fromkeys(("read_iops_device", "write_iops_device"), "8:0 0\n"),
        }
        assert limited == ""
    else:
        assert limited == ("8:0 rbps=5 wbps=5 riops=max wiops=max\n" if status == 0 else "")


@pytest.mark.parametrize(
    ("file", "content", "supported"),
    [
        ("blkio/blkio.throttle.write_bps_device", "", True),
        ("cgroup.subtree_control", "cpuset cpu io memory pids", True),
        ("cgroup.subtree_control", "cpu memory pids", False),
        ("cpu/tasks", "", False),
    ],
)
def test_the_machine_has_a_controller_of_block_devices(
    file: str, content: str, supported: bool, tmp_path: Path
) -> None:
    path = tmp_path / "cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    status, output = run(Need.BLOCK_LIMITS.script, tmp_path)
    assert (status == 0) is supported
    assert ("neither blkio nor io" in output) is not supported
