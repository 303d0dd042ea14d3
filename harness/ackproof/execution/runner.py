"""Runs one scenario on a real cluster: predict, record, judge.

`record` writes a run directory, and the judge reads nothing else. If a run ends early (a broker
never rejoins, a fault cannot be healed, Ctrl-C), `run.json` has the reason in `troubles`, the
recorded data is not removed, and the verdict is inconclusive.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

from ackproof import doctor
from ackproof.clients import java_client, librdkafka_wheel
from ackproof.clients.application_process import supervisor_of
from ackproof.cluster.attached import NOT_OBSERVED, AttachedCluster, attached
from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.pool import ClusterPool, Lease
from ackproof.cluster.preflight import require_in_force
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.containers.own_image import own_image
from ackproof.errors import AckproofError, DiskError, ScenarioError
from ackproof.execution.fault_phase import run_fault_phase
from ackproof.execution.final_phase import run_final_phase, take_node_logs, take_states
from ackproof.execution.live_view import followed
from ackproof.execution.run_state import RunCluster, RunState, now
from ackproof.judgement.judge import judge_run
from ackproof.prediction.predict import predict, predict_attached
from ackproof.progress import Reporter
from ackproof.runs import directory as runs
from ackproof.runs.verdict import Verdict
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.cluster_kinds import Attached
from ackproof.scenario.loader import Configured, dump
from ackproof.scenario.model import Scenario
from ackproof.spark_session import preflight, start_early

if TYPE_CHECKING:
    from docker import DockerClient


def engine_of(configurations: Iterable[Configured]) -> DockerClient | None:
    """Return a client of the container engine, None if no cluster of these needs it."""
    needed = any(one.scenario.cluster_kind.needs_engine for one in configurations)
    return connect() if needed else None


class How(TypedDict, total=False):
    """How to run a configuration.

    `client` may be None if the scenario attaches to a cluster. `live` shows the run in progress.
    `replays` is the id of the run that is replayed. `then` is the next configuration in the same
    pool: its cluster boots while this run is read and judged.
    """

    client: Required[DockerClient | None]
    reporter: Required[Reporter]
    live: bool
    replays: str
    then: Configured | None


def run(
    configured: Configured, *, out: Path, pool: ClusterPool | None = None, **how: Unpack[How]
) -> tuple[Path, Verdict]:
    """Run one configuration of a scenario; return its run directory and its verdict.

    The cluster comes from `pool`; without a pool it is booted and removed. Raises AckproofError if
    the environment does not allow a run. A KeyboardInterrupt is raised again after the cluster is
    removed and the recorded data is on disk; `ackproof check` can judge it later.
    """
    with contextlib.ExitStack() as stack:
        pool = pool or stack.enter_context(ClusterPool(how["client"]))
        run_dir = recorded(configured, out=out, pool=pool, **how)
        with how["reporter"].phase("comparing acked records with the final log"):
            return run_dir, judge_run(run_dir)


def recorded(
    configured: Configured, *, out: Path, pool: ClusterPool | None = None, **how: Unpack[How]
) -> Path:
    """Run one configuration without judging it; return its run directory. Raises as `run` does."""
    preflight(how["reporter"].note)
    scenario = configured.scenario
    run_dir = runs.create(
        out,
        scenario=scenario.name,
        configuration=configured.name,
        seed=scenario.seed,
        now=now(),
    )
    with runs.disk_errors(run_dir), contextlib.ExitStack() as stack:
        pool = pool or stack.enter_context(ClusterPool(how["client"]))
        record(configured, run_dir, pool=pool, **how)
    return run_dir


def record(
    configured: Configured,
    run_dir: Path,
    *,
    client: DockerClient | None,
    reporter: Reporter,
    pool: ClusterPool,
    live: bool = False,
    replays: str = "",
    then: Configured | None = None,
) -> None:
    """Run the scenario, and write everything that the judge needs to `run_dir`.

    CPU-intensive work is done before the clients start and after they have ended: Spark starts
    while the brokers boot, and the cluster of `then` boots while the final log is read.

    Raises AckproofError if the cluster does not come up, DiskError if nothing more can be written.
    Any later error becomes a trouble of the run. KeyboardInterrupt is recorded and raised again.
    """
    from docker.errors import DockerException
    from requests import RequestException

    scenario = configured.scenario
    dump(scenario, run_dir / "scenario.yaml")
    state = RunState(configured, run_dir, replays=replays)
    spark = start_early()

    def meanwhile() -> None:
        if then is not None:
            pool.boot_ahead(then.scenario, run_id=f"{state.run_id}-next-{os.getpid()}")

    with state, contextlib.ExitStack() as stack:
        lease: Lease | None = None
        cluster: RunCluster
        if isinstance(kind := scenario.cluster_kind, Attached):
            cluster = _attach(kind.attach, state, stack, reporter)
        else:
            lease = _boot(state, stack, reporter, client=client, pool=pool)
            cluster = lease.cluster
        if live:
            state.live = stack.enter_context(
                followed(
                    run_dir,
                    bootstrap_servers=cluster.bootstrap_servers,
                    settings=cluster.client_settings,
                    topics=list(scenario.topics),
                    faults=lambda: state.schedule.in_force if state.schedule else [],
                    reporter=reporter,
                )
            )
        try:
            if scenario.cluster.image or scenario.cluster.distribution:
                require_in_force(
                    scenario.cluster,
                    scenario.kafka,
                    bootstrap_servers=cluster.bootstrap_servers,
                    settings=cluster.client_settings,
                )
            spark.join()
            with supervisor_of(scenario)(
                scenario,
                run_dir,
                bootstrap_servers=cluster.bootstrap(scenario.workload.listener),
                secrets=cluster.client_settings,
            ) as clients:
                run_fault_phase(scenario, cluster, clients, state, reporter)
                run_final_phase(scenario, cluster, clients, state, reporter, meanwhile=meanwhile)
            take_states(list(scenario.sends), cluster, state)
        except DiskError:
            raise  # nothing more can be written
        except AckproofError as error:
            state.troubles.append(error.message)
        except (DockerException, RequestException) as error:
            state.troubles.append(f"the container engine failed: {error}")
        if lease is not None and not state.troubles:
            lease.reusable = True


def _attach(
    spec: AttachSpec, state: RunState, stack: contextlib.ExitStack, reporter: Reporter
) -> AttachedCluster:
    scenario = state.configured.scenario
    _prepare_clients(scenario, reporter)
    with reporter.phase(f"attaching to {spec.bootstrap}"):
        cluster = stack.enter_context(attached(spec, scenario.topics))
        prediction = predict_attached(scenario, cluster)
        runs.write_model(state.run_dir / "prediction.json", prediction)
        state.image = f"attached: {cluster.bootstrap_servers}"
        state.unobserved = list(NOT_OBSERVED)
        cluster.create_topics(scenario.topics)
    return cluster


def _prepare_clients(scenario: Scenario, reporter: Reporter) -> None:
    """Install and compile what the clients need, before anything boots."""
    supervisor_of(scenario).require_startable(scenario)
    for client in scenario.clients:
        if client.java is not None:
            java_client.class_path(client.java, reporter.note)
        if client.librdkafka is not None:
            librdkafka_wheel.folder(client.librdkafka, reporter.note)


def _boot(
    state: RunState,
    stack: contextlib.ExitStack,
    reporter: Reporter,
    *,
    client: DockerClient | None,
    pool: ClusterPool,
) -> Lease:
    """Predict, boot a cluster or lease one from the pool, and create the topics."""
    scenario = state.configured.scenario
    with reporter.phase("predicting with the model"):
        runs.write_model(state.run_dir / "prediction.json", predict(scenario))
    _prepare_clients(scenario, reporter)
    spec = scenario.cluster
    image = own_image(
        image=spec.image,
        distribution=spec.distribution,
        kafka=scenario.kafka,
        client=client or connect(),
        say=reporter.note,
    ) or images.ensure(scenario.kafka, client=client, say=reporter.note)
    state.image = f"{image.reference} ({image.source})"
    doctor.require_needs(client or connect(), scenario.every_fault)
    with reporter.phase(f"booting {scenario.cluster.brokers} brokers from {state.image}"):
        lease = stack.enter_context(
            pool.lease(
                scenario,
                image=image.reference,
                # A run in another directory may have the same name and start time.
                run_id=f"{state.run_id}-{os.getpid()}",
                logs=state.run_dir / "logs",
            )
        )
        state.reused = lease.reused
        stack.callback(take_node_logs, lease.cluster, state)
        lease.cluster.create_topics(scenario.topics)
        for name in scenario.share_groups:
            settings = scenario.workload.consumers[name].share_settings
            lease.cluster.admin.set_group(name, settings)
    return lease


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

    Each run has its own cluster, or with `reuse` that of the previous run if possible. `live`
    shows each run in progress. `keep` leaves the cluster of the last run up. Raises the errors of
    `run`, and ScenarioError if that cluster cannot be kept.
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
    scenario = configured.scenario
    if not scenario.cluster_kind.is_described:
        raise ScenarioError("--keep is for clusters that ackproof starts; this one is attached")
    if scenario.cluster.proxied:
        raise ScenarioError(
            "--keep is not possible with cluster.proxied: the Kafka proxy ends with this command"
        )


def _how_to_reach(cluster: KafkaCluster) -> str:
    first = min(cluster.nodes)
    name = cluster.nodes[first].container.name
    lines = [
        f"the cluster is left up: bootstrap.servers={cluster.bootstrap_servers}",
        f"  a shell in broker {first}: docker exec -it {name} bash",
        f"  end it: ackproof clean {cluster.run_id}",
    ]
    if cluster.client_settings:
        lines.insert(1, f"  clients also need {', '.join(sorted(cluster.client_settings))}")
    return "\n".join(lines)
