"""Runs several configurations, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster.pool import ClusterPool
from ackproof.execution.runner import run
from ackproof.progress import Reporter
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured

if TYPE_CHECKING:
    from docker import DockerClient


def run_suite(
    configurations: Sequence[Configured],
    *,
    out: Path,
    client: DockerClient | None,
    reporter: Reporter,
    reuse: bool = False,
    live: bool = False,
) -> Iterator[tuple[Path, Verdict]]:
    """Run each configuration once; yield its run directory and verdict when it ends.

    Each run has a cluster of its own, or with `reuse` the cluster of the run before if that is
    possible. `live` shows each run in progress. Raises what `run` raises.
    """
    with ClusterPool(client, reuse=reuse, say=reporter.note) as pool:
        for number, configured in enumerate(configurations, start=1):
            name = configured.name or configured.scenario.name
            reporter.note(f"[bold]{name}[/] ({number} of {len(configurations)})")
            yield run(configured, out=out, client=client, reporter=reporter, pool=pool, live=live)
