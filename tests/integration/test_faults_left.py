"""Leftovers of faults after a SIGKILL of the harness, and `ackproof clean`."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import DockerClient

from integration.command import ackproof, ours, started
from waiting import until

pytestmark = pytest.mark.cluster

SCENARIO = """
version: 1
name: left
cluster: {brokers: 3, heap: 128m, disk: 200m}
topics: {orders: {partitions: 1, settings: {min.insync.replicas: 1}}}
workload:
  topic: orders
  settings: {acks: 1, enable.idempotence: false}
faults:
  - {fault: partition, target: 1, peers: controllers, when: 100 acked}
  - {fault: flapping, target: 2, peers: [3]}
  - {fault: pause, target: 3}
  - {fault: none, when: 199999 acked}
"""


@pytest.mark.slow
def test_clean_removes_leftovers_of_faults_after_a_sigkill(
    engine: DockerClient, tmp_path: Path
) -> None:
    path = tmp_path / "left.yaml"
    path.write_text(SCENARIO)
    with started("run", path, "--out", tmp_path / "runs") as process:

        def look() -> tuple[bool, bool]:
            assert process.poll() is None, process.communicate()
            containers = ours(engine, process.pid)["containers"]
            return (
                any(one.name.endswith("-flapping") for one in containers),
                any(one.status == "paused" for one in containers),
            )

        until(look, good=all)
        process.kill()
        process.communicate()
    left = ours(engine, process.pid)
    assert any(one.name.endswith("-disk") for one in left["containers"])
    assert ackproof("clean").returncode == 0
    assert not any(ours(engine, process.pid).values())


@pytest.mark.slow
def test_a_fault_that_the_kernel_does_not_support_is_refused_before_boot(
    engine: DockerClient, tmp_path: Path
) -> None:
    told = ackproof("doctor").stdout
    if "latency" not in told:
        pytest.skip("this kernel has everything that a fault needs")
    path = tmp_path / "far.yaml"
    path.write_text(SCENARIO.replace("fault: pause", "fault: latency").replace("disk: 200m", ""))
    with started("run", path, "--out", tmp_path / "runs") as process:
        _, errors = process.communicate(timeout=180)
    said = " ".join(errors.split())
    assert process.returncode == 4, said
    assert "the fault latency cannot be injected here" in said
    assert "sch_netem" in said
    assert "Traceback" not in said
    assert not any(ours(engine, process.pid).values())
