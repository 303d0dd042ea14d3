"""ackproof as a library: a cluster, faults, ledgers and predictions from Python.

::

    import ackproof as ap

    with ap.start_cluster(topics={"orders": {"settings": {"min.insync.replicas": 2}}}) as kafka:
        ledger = ap.Ledger(kafka)
        ...  # produce with on_delivery=ledger.on_delivery
        with ap.inject(kafka, "kill", target="leader of orders-0"):
            ...  # go on producing
        print(ledger.verify().evidence())
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ackproof.errors import ClusterError, ScenarioError
from ackproof.runs.directory import PredictionRecord
from ackproof.waiting import wait_for
from ackproof_faults import FaultError, Guard, registered
from ackproof_faults import inject as inject_fault

if TYPE_CHECKING:
    import pyarrow as pa

    from ackproof.cluster.cluster import KafkaCluster
    from ackproof.runs.verdict import Verdict

_RECOVER_S = 90.0


@contextlib.contextmanager
def start_cluster(
    topics: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    kafka: str = "",
    **spec: Any,
) -> Iterator[KafkaCluster]:
    """Boot a cluster with these topics, and remove it in the end.

    `topics` and `spec` have the keys of `topics` and `cluster` in a scenario file; `kafka` is a
    version. Raises ScenarioError if they are wrong, EngineError, ImageError or ClusterError if no
    cluster can be had.
    """
    from uuid import uuid4

    from ackproof.cluster.cluster import booted
    from ackproof.containers import images
    from ackproof.containers.engine import connect
    from ackproof.kafka_versions import DEFAULT_KAFKA
    from ackproof.scenario.cluster import ClusterSpec
    from ackproof.scenario.model import TopicSpec

    version = kafka or DEFAULT_KAFKA
    with _legal("a cluster"):
        wanted = ClusterSpec.model_validate(spec)
        made = {name: TopicSpec.model_validate(topic) for name, topic in (topics or {}).items()}
    client = connect()
    image = images.ensure(version, client=client)
    with booted(
        wanted,
        client=client,
        image=image.reference,
        run_id=f"library-{uuid4().hex[:12]}",
        sidecar=lambda: images.ensure_sidecar(client=client),
        kafka=version,
    ) as kafka_cluster:
        kafka_cluster.create_topics(made)
        yield kafka_cluster


@contextlib.contextmanager
def inject(cluster: KafkaCluster, fault: str, **fields: Any) -> Iterator[Guard]:
    """Hold a fault in force; in the end heal it and wait until all it struck works again.

    `fault` and `fields` are those of a scenario's `faults`. The guard has the fault's `window`,
    and `heal()` for an earlier end. Raises ScenarioError if there is no such fault, FaultError if
    it did not take effect, ClusterError if what it struck does not recover.
    """
    kinds = registered()
    if fault not in kinds:
        legal = ", ".join(sorted(kinds))
        raise ScenarioError(f"{fault!r} is not a fault ({legal})")
    with _legal(fault):
        made = kinds[fault].model_validate({"fault": fault, **fields})
    guard = inject_fault(made, cluster, clock=lambda: datetime.now(UTC))
    with guard:
        if not guard.window.verified:
            raise FaultError(f"{fault} of {guard.window.target}: {guard.window.evidence}")
        yield guard
    wait_for(
        guard.recovered,
        bool,
        within_s=_RECOVER_S,
        failure=lambda _: ClusterError(
            f"{fault} is healed, but not recovered after {_RECOVER_S:g} s"
        ),
    )


@contextlib.contextmanager
def _legal(what: str) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
        )
        raise ScenarioError(f"{what}: {problems}") from None


def predict(scenario: Path | str) -> dict[str, PredictionRecord]:
    """Return what the model allows, for each configuration of a scenario file; needs no cluster."""
    from ackproof.prediction.replication import predict
    from ackproof.scenario.loader import load

    return {one.name or one.scenario.name: predict(one.scenario) for one in load(Path(scenario))}


def run(scenario: Path | str, *, out: Path | str = "runs") -> list[tuple[Path, Verdict]]:
    """Run every configuration of a scenario file; return run directories and verdicts."""
    from rich.console import Console

    from ackproof.containers.engine import connect
    from ackproof.execution.suite import run_suite
    from ackproof.progress import ConsoleReporter
    from ackproof.scenario.loader import load

    configurations = load(Path(scenario))
    ours = any(one.scenario.cluster.attach is None for one in configurations)
    runs = run_suite(
        configurations,
        out=Path(out),
        client=connect() if ours else None,
        reporter=ConsoleReporter(Console(stderr=True)),
    )
    return list(runs)


def read_ledger(run_dir: Path | str) -> pa.Table:
    """Return every send of a stored run: `tables.LEDGER`'s columns."""
    import pyarrow.parquet as pq

    from ackproof.runs.directory import read_record
    from ackproof_spark.tables import LOCATION

    read_record(Path(run_dir))
    return pq.read_table(Path(run_dir) / LOCATION["ledger"])
