"""Which cluster a run gets, when it is booted, and when it is removed; without brokers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster import pool as module
from ackproof.cluster.pool import ClusterPool
from ackproof.errors import ClusterError
from ackproof.scenario.model import Scenario
from support.fake_engine import FakeEngine
from support.run_directories import small

GIB = 1 << 30


def scenario(**changes: object) -> Scenario:
    one = {"cluster": {"brokers": 1}, "topics": {"orders": {"replication_factor": 1}}}
    return Scenario.model_validate(small(**{**one, **changes}))


class Clusters:
    """Clusters that only exist by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.booted: list[str] = []
        self.removed: list[str] = []
        self.failures: list[Exception] = []
        self.memory = 64 * GIB
        #: A removal waits for it.
        self.removable = threading.Event()
        self.removable.set()
        monkeypatch.setattr(module, "booted", self._boot)

    @contextlib.contextmanager
    def _boot(self, *_: object, run_id: str, **__: object) -> Iterator[SimpleNamespace]:
        if self.failures:
            raise self.failures.pop()
        self.booted.append(run_id)
        yield SimpleNamespace(name=run_id, logs=None, left_up=False)
        assert self.removable.wait(60)
        self.removed.append(run_id)

    def pool(self, *, reuse: bool = False) -> ClusterPool:
        engine: Any = FakeEngine(info={"MemTotal": self.memory})
        return ClusterPool(engine, reuse=reuse)

    def run(self, pool: ClusterPool, name: str, *, then: Scenario | None = None) -> str:
        """Return the name of the cluster that a run got; `then` runs next."""
        logs = self.folder / name
        with pool.lease(scenario(), image="i", run_id=name, logs=logs) as lease:
            assert lease.cluster.logs == logs
            if then is not None:
                pool.boot_ahead(then, run_id=f"{name}-next")
            return str(lease.cluster.name)  # type: ignore[attr-defined]


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clusters:
    return Clusters(monkeypatch, tmp_path)


def test_a_run_gets_the_cluster_that_was_booted_ahead(clusters: Clusters) -> None:
    other = scenario(name="another", seed=7)
    with clusters.pool() as pool:
        assert clusters.run(pool, "a", then=other) == "a"
        assert clusters.run(pool, "b") == "a-next"
        assert clusters.run(pool, "c") == "c"
    assert clusters.booted == ["a", "a-next", "c"]
    assert sorted(clusters.removed) == sorted(clusters.booted)


@pytest.mark.parametrize(
    "then", [scenario(cluster={"brokers": 3}), scenario(kafka="3.9.1")], ids=["nodes", "version"]
)
def test_only_a_cluster_of_the_same_kind_is_booted_ahead(
    clusters: Clusters, then: Scenario
) -> None:
    with clusters.pool() as pool:
        clusters.run(pool, "a", then=then)
    assert clusters.booted == clusters.removed == ["a"]


def test_without_memory_for_two_clusters_nothing_is_booted_ahead(clusters: Clusters) -> None:
    clusters.memory = 4 * GIB - 1  # a broker and a controller, twice
    with clusters.pool() as pool:
        clusters.run(pool, "a", then=scenario())
        assert clusters.run(pool, "b") == "b"
    assert clusters.booted == ["a", "b"]


def test_a_cluster_that_did_not_come_up_ahead_is_booted_again(clusters: Clusters) -> None:
    with clusters.pool() as pool:
        with pool.lease(scenario(), image="i", run_id="a", logs=clusters.folder):
            clusters.failures = [ClusterError("no quorum")]
            pool.boot_ahead(scenario(), run_id="a-next")
        assert clusters.run(pool, "b") == "b"
    assert sorted(clusters.removed) == ["a", "b"]


def test_a_cluster_is_removed_if_its_renewal_is_interrupted(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(cluster: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "renewed", interrupted)
    with clusters.pool(reuse=True) as pool:
        with pool.lease(scenario(), image="i", run_id="a", logs=Path()) as lease:
            lease.reusable = True
        with pytest.raises(KeyboardInterrupt):
            clusters.run(pool, "b")
    assert clusters.booted == clusters.removed == ["a"]


def test_a_cluster_is_removed_if_the_wait_for_its_boot_is_interrupted(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clusters.pool() as pool:
        with pool.lease(scenario(), image="i", run_id="a", logs=Path()):
            pool.boot_ahead(scenario(), run_id="a-next")
            assert pool._ahead is not None
            boot = pool._ahead[1]
            waited = boot.result

            def interrupted(timeout: float | None = None) -> object:
                monkeypatch.setattr(boot, "result", waited)
                raise KeyboardInterrupt

            monkeypatch.setattr(boot, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clusters.run(pool, "b")
    assert sorted(clusters.removed) == sorted(clusters.booted) == ["a", "a-next"]


@pytest.mark.parametrize("failure", [None, ClusterError("no quorum")], ids=["up", "not up"])
def test_an_unused_cluster_that_was_booted_ahead_is_removed(
    clusters: Clusters, failure: ClusterError | None
) -> None:
    with clusters.pool() as pool, pool.lease(scenario(), image="i", run_id="a", logs=Path()):
        clusters.failures = [failure] if failure else []
        pool.boot_ahead(scenario(), run_id="a-next")
    assert sorted(clusters.removed) == sorted(clusters.booted)


def test_a_run_ends_before_its_cluster_is_removed_and_the_pool_after(clusters: Clusters) -> None:
    with clusters.pool() as pool:
        clusters.removable.clear()
        clusters.run(pool, "a")
        assert clusters.removed == []
        clusters.removable.set()
    assert clusters.removed == ["a"]


def test_a_run_without_a_cluster_booted_ahead_waits_for_the_removal(clusters: Clusters) -> None:
    with clusters.pool() as pool:
        for number, name in enumerate("abc"):
            with pool.lease(scenario(), image="i", run_id=name, logs=Path()):
                assert clusters.removed == clusters.booted[:number]


def test_a_reused_cluster_keeps_a_topic_whose_record_shares_a_batch_with_an_earlier_one(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records of a batch of the controllers' log have the time of its first one."""
    monkeypatch.setattr(module, "renewed", lambda cluster: None)
    with clusters.pool(reuse=True) as pool:
        with pool.lease(scenario(), image="i", run_id="a", logs=Path()) as lease:
            lease.reusable = True
        batch_began = datetime.now(UTC) - timedelta(milliseconds=25)
        with pool.lease(scenario(), image="i", run_id="b", logs=Path()) as lease:
            assert lease.reused
            assert lease.cluster.since is not None
            assert lease.cluster.since <= batch_began


@pytest.mark.parametrize(
    ("checkpoint", "reusable"),
    [(None, True), ("__consumer_offsets 0 0", True), ("orders 0 7", False)],
)
def test_a_cluster_that_remembers_a_deleted_high_watermark_is_not_renewed(
    checkpoint: str | None, reusable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed broker would expose records of a new topic `orders` that no follower has."""

    def read_file(path: str) -> bytes:
        if checkpoint is None or not path.endswith("/replication-offset-checkpoint"):
            raise ClusterError(f"no file {path}")
        return f"0\n1\n{checkpoint}\n".encode()

    partitions = [("orders", 0)]
    node = SimpleNamespace(exit_status=lambda: None, directories=["/data"], read_file=read_file)
    cluster: Any = SimpleNamespace(
        broker_ids=lambda: [1],
        nodes={1: node},
        partitions=lambda: list(partitions),
        admin=SimpleNamespace(delete_topics=lambda names: partitions.clear()),
        interfaces=SimpleNamespace(
            network=SimpleNamespace(
                run=lambda broker, rules: SimpleNamespace(exit_status=0, output="")
            )
        ),
        brokers_known_to=lambda broker: {1},
    )
    monkeypatch.setattr(module, "_CHECKPOINT_WITHIN_S", 0.0)
    with (
        contextlib.nullcontext()
        if reusable
        else pytest.raises(ClusterError, match="high watermark")
    ):
        module.renewed(cluster)
