"""The Python API: clusters, faults, ledgers and predictions.

::

    import ackproof as ap
    from ackproof_faults import Kill, acked, isr, leader

    orders = ap.TopicSpec(settings={"min.insync.replicas": 2})
    with ap.start_cluster({"orders": orders}) as kafka:
        ledger = ap.Ledger(kafka)
        ...  # a thread produces with on_delivery=ledger.on_delivery
        kill = Kill(target=leader("orders", 0), when=acked(3000) & (isr("orders", 0) == 3))
        with ap.inject(kafka, kill, ledger=ledger):
            ...  # the leader is down
        print(ledger.verify().evidence())
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from pydantic import ValidationError

from ackproof.cluster.admin import RunningCluster
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import AckproofError, ClusterError, ScenarioError
from ackproof.ledger.application_ledger import Ledger as DeliveryLedger
from ackproof.ledger.application_ledger import LedgerCluster, Verification
from ackproof.runs.directory import PredictionRecord
from ackproof.scenario.cluster import BrokerSpec, ClusterSpec, SecuritySpec
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults import Fault, FaultError, Guard, ScheduleContext, SendCounts, registered
from ackproof_faults import inject as inject_fault
from ackproof_faults.conditions.kinds import LeaderChanges, ProgressIs

if TYPE_CHECKING:
    import pyarrow as pa

    from ackproof.audit.answer import Audit
    from ackproof.runs.verdict import Verdict
    from ackproof_spark.spark.functions import SparkSession

__all__ = [
    "AckproofError",
    "BrokerSpec",
    "ClusterSpec",
    "KafkaCluster",
    "Ledger",
    "SecuritySpec",
    "TopicSpec",
    "Verification",
    "audit_files",
    "check",
    "inject",
    "predict",
    "read_ledger",
    "run",
    "start_cluster",
]

_BEGIN_S = 300.0
_RECOVER_S = 90.0


class Ledger(DeliveryLedger):
    """Compares the delivery reports of an application's producers with the final log.

    `Ledger(cluster)` stores them in memory. `Ledger("acked.jsonl", bootstrap_servers=…)` appends
    them to an acked log, crash-safe and in bounded memory, and needs no cluster object;
    `client_settings` are librdkafka's, for `verify`.

    Raises ScenarioError if a path has no `bootstrap_servers`, DiskError if it cannot be written.
    """

    def __init__(
        self,
        target: LedgerCluster | Path | str,
        *,
        bootstrap_servers: str = "",
        client_settings: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(target, Path | str):
            super().__init__(target)
            return
        if not bootstrap_servers:
            raise ScenarioError(f"Ledger({str(target)!r}) needs bootstrap_servers=")
        cluster = RunningCluster(bootstrap_servers, client_settings or {})
        super().__init__(cluster, path=Path(target))


@contextlib.contextmanager
def start_cluster(
    topics: Mapping[str, TopicSpec | Mapping[str, Any]] | None = None,
    cluster: ClusterSpec | None = None,
    *,
    kafka: str = "",
    image: str = "",
    **cluster_fields: Any,
) -> Iterator[KafkaCluster]:
    """Boot a cluster with these topics; remove it at the end of the block.

    A topic is a `TopicSpec` or a mapping of its fields. The cluster is a `ClusterSpec`, or its
    fields as keyword arguments. Set either `kafka`, a version, or `image`: `apache/kafka:VERSION`.

    Raises ScenarioError if a field is wrong; EngineError, ImageError or ClusterError if the cluster
    cannot be booted.
    """
    from uuid import uuid4

    from ackproof.cluster.booted import booted
    from ackproof.containers import images
    from ackproof.containers.engine import connect
    from ackproof.kafka_versions import DEFAULT_KAFKA

    if cluster is not None and cluster_fields:
        fields = ", ".join(cluster_fields)
        raise ScenarioError(f"both a ClusterSpec and fields of one ({fields}): pass one of them")
    version = kafka or (images.version_of(image) if image else DEFAULT_KAFKA)
    with _scenario_errors("a cluster"):
        spec = cluster or ClusterSpec.model_validate(cluster_fields)
        topic_specs = {
            name: TopicSpec.model_validate(topic) for name, topic in (topics or {}).items()
        }
    client = connect()
    broker_image = images.ensure(version, client=client)
    with booted(
        spec,
        client=client,
        image=broker_image.reference,
        run_id=f"library-{uuid4().hex[:12]}",
        kafka=version,
    ) as kafka_cluster:
        kafka_cluster.create_topics(topic_specs)
        yield kafka_cluster


@overload
def inject(
    cluster: KafkaCluster,
    fault: Fault,
    *,
    ledger: DeliveryLedger | None = None,
    within_s: float = _BEGIN_S,
) -> contextlib.AbstractContextManager[Guard]: ...


@overload
def inject(
    cluster: KafkaCluster,
    fault: str,
    *,
    ledger: DeliveryLedger | None = None,
    within_s: float = _BEGIN_S,
    **fields: Any,
) -> contextlib.AbstractContextManager[Guard]: ...


def inject(
    cluster: KafkaCluster,
    fault: Fault | str,
    *,
    ledger: DeliveryLedger | None = None,
    within_s: float = _BEGIN_S,
    **fields: Any,
) -> contextlib.AbstractContextManager[Guard]:
    """Inject a fault; at the end of the block heal it and wait for recovery.

    `fault` is a fault of `ackproof_faults`, or its name in a scenario with its `fields`. It begins
    on its `when` or `or_after`, within `within_s`; `ledger` counts acks for them. The end of the
    `with` block heals, so `heal_when` and `heal_after` are refused. The guard has the fault's
    `window`, and `heal()` for an earlier end.

    Raises ScenarioError if the fault is wrong, FaultError if it does not take effect, ClusterError
    if it cannot begin in time or the cluster does not recover.
    """
    if isinstance(fault, str):
        fault = _named_fault(fault, fields)
    elif fields:
        raise TypeError(f"{fault.name} has its fields already; not taken: {', '.join(fields)}")
    if fault.ends_by_itself:
        raise ScenarioError(
            f"{fault.name}: the end of the 'with' block heals: leave out heal_when and heal_after"
        )
    return _in_force(cluster, fault, _send_counter(fault, ledger), within_s)


def _named_fault(name: str, fields: Mapping[str, Any]) -> Fault:
    kinds = registered()
    if name not in kinds:
        close = get_close_matches(name, kinds, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f" ({', '.join(sorted(kinds))})"
        raise ScenarioError(f"{name!r} is not a fault{hint}")
    with _scenario_errors(name):
        return kinds[name].model_validate({"fault": name, **fields})


def _send_counter(fault: Fault, ledger: DeliveryLedger | None) -> Callable[[], SendCounts]:
    for condition in fault.when.simple:
        if not isinstance(condition, ProgressIs):
            continue
        if condition.outcome == "sent":
            raise ScenarioError(f"'{condition}': a Ledger knows acks, not sends: use 'acked'")
        if ledger is None:
            raise ScenarioError(f"'{condition}' needs the Ledger that counts acks: pass ledger=")
    return lambda: SendCounts(sent=0, acked=0 if ledger is None else ledger.acked)


@contextlib.contextmanager
def _in_force(
    cluster: KafkaCluster, fault: Fault, sends: Callable[[], SendCounts], within_s: float
) -> Iterator[Guard]:
    context = ScheduleContext(
        cluster=cluster.interfaces,
        partitions=[
            (condition.topic, condition.partition)
            for condition in fault.when.simple
            if isinstance(condition, LeaderChanges)
        ],
        sends=sends,
        clock=lambda: datetime.now(UTC),
        monotonic=time.monotonic,
    )
    start = context.reference(context.leaders({}))
    trigger = wait_for(
        lambda: context.due(fault.when, fault.or_after, reference=start),
        lambda due: due is not None,
        within_s=within_s,
        failure=lambda _: ClusterError(
            f"{fault} did not begin within {within_s:g} s ({fault.when})"
        ),
    )
    guard = inject_fault(fault, context.cluster, trigger=str(trigger), clock=context.clock)
    with guard:
        if not guard.window.verified:
            raise FaultError(f"{fault}: {guard.window.evidence}")
        yield guard
    wait_for(
        guard.recovered,
        bool,
        within_s=_RECOVER_S,
        failure=lambda _: ClusterError(
            f"{fault.name} is healed, but not recovered after {_RECOVER_S:g} s"
        ),
    )


@contextlib.contextmanager
def _scenario_errors(subject: str) -> Iterator[None]:
    """Turn pydantic's errors into a ScenarioError about `subject`."""
    try:
        yield
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        )
        raise ScenarioError(f"{subject}: {problems}") from None


def audit_files(
    *files: Path | str,
    kafka: str = "",
    topic: str = "",
    fail_on: Sequence[str] = (),
    survive: Sequence[str] = (),
    against: str = "",
) -> Audit:
    """Return the audit of configuration files and folders, as `ackproof audit --json` prints it.

    `fails` says whether it has a risk that `fail_on` counts, or breaks a promise of `survive`.
    Raises ScenarioError.
    """
    from ackproof.audit import request

    return request.audit(
        request.Request(
            files=tuple(map(Path, files)),
            kafka=kafka,
            topic=topic,
            fail_on=tuple(fail_on),
            survive=tuple(survive),
            against=against,
        )
    )


def predict(scenario: Path | str) -> dict[str, PredictionRecord]:
    """Return the model's prediction for each configuration of a scenario file."""
    from ackproof.prediction.predict import predict
    from ackproof.scenario.loader import load

    return {
        configured.name or configured.scenario.name: predict(configured.scenario)
        for configured in load(Path(scenario))
    }


def run(scenario: Path | str, *, out: Path | str = "runs") -> list[tuple[Path, Verdict]]:
    """Run every configuration of a scenario file; return the run directories and verdicts."""
    from ackproof.console import Console
    from ackproof.execution.runner import engine_of, run_suite
    from ackproof.progress import ConsoleReporter
    from ackproof.scenario.loader import load

    configurations = load(Path(scenario))
    runs = run_suite(
        configurations,
        out=Path(out),
        client=engine_of(configurations),
        reporter=ConsoleReporter(Console(stderr=True)),
    )
    return list(runs)


def check(run_dir: Path | str, *, spark: SparkSession | None = None) -> Verdict:
    """Judge a stored run, in a folder or at an address that Spark knows; return its verdict.

    spark: the session to use, such as that of a notebook; afterwards it has its own settings again.
    Raises AckproofError.
    """
    from ackproof.judgement.judge import judge_run
    from ackproof.runs import addresses
    from ackproof_spark.spark.session import given

    with contextlib.ExitStack() as stack:
        if spark is not None:
            stack.enter_context(given(spark))
        place = str(run_dir)
        if addresses.is_elsewhere(place):
            return judge_run(stack.enter_context(addresses.opened(place)))
        return judge_run(addresses.path(place))


def read_ledger(run_dir: Path | str) -> pa.Table:
    """Return every send of a stored run, with the schema `ackproof_spark.tables.LEDGER`."""
    import pyarrow.parquet as pq

    from ackproof.runs.directory import read_record
    from ackproof_spark.tables import LOCATION

    read_record(Path(run_dir))
    return pq.read_table(Path(run_dir) / LOCATION["ledger"])
