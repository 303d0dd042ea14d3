"""Runs several configurations, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.pool import ClusterPool
from ackproof.errors import ScenarioError
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
    keep: bool = False,
) -> Iterator[tuple[Path, Verdict]]:
    """Run each configuration once; yield its run directory and verdict when it ends.

    Each run has a cluster of its own, or with `reuse` the cluster of the run before if that is
    possible. `live` shows each run in progress. `keep` leaves the cluster of the last run up.
    Raises what `run` raises, ScenarioError if that cluster cannot be kept.
    """
    if keep:
        _require_keepable(configurations[-1])
    with ClusterPool(client, reuse=reuse, say=reporter.note) as pool:
        pairs = zip_longest(configurations, configurations[1:])
        for number, (configured, then) in enumerate(pairs, start=1):
            name = configured.name or configured.scenario.name
            reporter.note(f"[bold]{name}[/] ({number} of {len(configurations)})")
            pool.leave_up = keep and number == len(configurations)
            yield run(
                configured,
                out=out,
                client=client,
                reporter=reporter,
                pool=pool,
                live=live,
                then=then,
            )
        if pool.left is not None:
            reporter.note(_how_to_reach(pool.left))


def _require_keepable(configured: Configured) -> None:
    cluster = configured.scenario.cluster
    if cluster.attach is not None:
        raise ScenarioError("--keep is for clusters that ackproof starts; this one is attached")
    if cluster.proxied:
        raise ScenarioError(
            "--keep is not possible with cluster.proxied: the Kafka proxy ends with this command"
        )


def _how_to_reach(cluster: KafkaCluster) -> str:
    """Return how to reach a cluster that was left up, and how to end it."""
    first = min(cluster.nodes)
    name = cluster.nodes[first].container.name
    lines = [
        f"the cluster is left up: bootstrap.servers={cluster.bootstrap_servers}",
        f"  a shell in broker {first}: docker exec -it {name} bash",
        "  end it: ackproof clean",
    ]
    if cluster.client_settings:
        lines.insert(1, f"  clients also need {', '.join(sorted(cluster.client_settings))}")
    return "\n".join(lines)
