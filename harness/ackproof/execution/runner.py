"""Runs one scenario on a real cluster and records everything that the judge needs.

Recording and judging are apart: `record` leaves a run directory, and `judge` needs nothing else.
What ends a run early (a broker that never rejoins, a fault that cannot be healed, Ctrl-C) becomes
a trouble in `run.json`: what was recorded stays, and the verdict is inconclusive.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.clients.supervisor import Crew
from ackproof.cluster.attached import NOT_OBSERVED, AnyCluster, attached
from ackproof.cluster.pool import ClusterPool, Lease
from ackproof.containers import doctor, images
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError, DiskError
from ackproof.execution.collection import take_node_logs, take_states
from ackproof.execution.fault_phase import exercise
from ackproof.execution.final_phase import settle
from ackproof.execution.live_view import followed
from ackproof.execution.run_state import Recording, now
from ackproof.judgement import spark
from ackproof.observation.leader_polling import Poll
from ackproof.prediction.attached import foresee_attached
from ackproof.prediction.replication import foresee
from ackproof.progress import Reporter
from ackproof.runs import directory as runs
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured, dump

if TYPE_CHECKING:
    from docker import DockerClient


def run(
    configured: Configured,
    *,
    out: Path,
    client: DockerClient | None,
    reporter: Reporter,
    pool: ClusterPool | None = None,
    live: bool = False,
    replays: str = "",
) -> tuple[Path, Verdict]:
    """Run one configuration of a scenario; return its run directory and its verdict.

    Its cluster comes from `pool`; without one it is booted and removed in the end. `client` may be
    None for a scenario that attaches to a cluster. `replays` names the run that is repeated.

    Raises AckproofError if the environment does not allow a run at all. A KeyboardInterrupt
    passes through when the cluster is gone and what was recorded is on disk; `ackproof check`
    judges it later.
    """
    spark.preflight()
    run_dir = runs.create(
        out,
        scenario=configured.scenario.name,
        configuration=configured.name,
        seed=configured.scenario.seed,
        now=now(),
    )
    with runs.disk_errors(run_dir), contextlib.ExitStack() as stack:
        clusters = pool or stack.enter_context(ClusterPool(client))
        record(
            configured,
            run_dir,
            client=client,
            reporter=reporter,
            pool=clusters,
            live=live,
            replays=replays,
        )
    with reporter.phase("comparing what was acked with what can be read"):
        verdict = spark.judge_run(run_dir)
    return run_dir, verdict


def record(
    configured: Configured,
    run_dir: Path,
    *,
    client: DockerClient | None,
    reporter: Reporter,
    pool: ClusterPool,
    live: bool = False,
    replays: str = "",
) -> None:
    """Run the scenario and leave everything the judge needs in `run_dir`.

    Raises AckproofError if the cluster does not come up. From then on troubles are recorded, not
    raised, except KeyboardInterrupt, which is recorded and raised.
    """
    from docker.errors import DockerException
    from requests import RequestException

    scenario = configured.scenario
    dump(scenario, run_dir / "scenario.yaml")
    recording = Recording(configured, run_dir, replays=replays)
    with recording, contextlib.ExitStack() as stack:
        cluster: AnyCluster
        places = [(name, n) for name, one in scenario.topics.items() for n in range(one.partitions)]
        lease: Lease | None = None
        if scenario.cluster.attach is not None:
            with reporter.phase(f"attaching to {scenario.cluster.attach.bootstrap}"):
                cluster = stack.enter_context(attached(scenario.cluster.attach, scenario.topics))
                prediction = foresee_attached(scenario, cluster)
                runs.write_model(run_dir / "prediction.json", prediction)
                recording.image = f"attached: {cluster.bootstrap_servers}"
                recording.unobserved = list(NOT_OBSERVED)
                cluster.create_topics(scenario.topics)
                recording.poll = stack.enter_context(Poll(cluster.admin.partitions, places))
        else:
            with reporter.phase("asking the model what may happen"):
                runs.write_model(run_dir / "prediction.json", foresee(scenario))
            image = images.ensure(scenario.kafka, client=client, say=reporter.note)
            recording.image = f"{image.reference} ({image.source})"
            doctor.require_needs(client or connect(), scenario.every_fault)
            booting = f"booting {scenario.cluster.brokers} brokers from {recording.image}"
            with reporter.phase(booting):
                lease = stack.enter_context(
                    pool.lease(
                        scenario,
                        image=image.reference,
                        # A run in another folder may have the same name, and begin this second.
                        run_id=f"{recording.run_id}-{os.getpid()}",
                        logs=run_dir / "logs",
                    )
                )
                cluster, recording.reused = lease.cluster, lease.reused
                stack.callback(take_node_logs, lease.cluster, recording)
                cluster.create_topics(scenario.topics)
        if live:
            recording.end_live = stack.enter_context(
                followed(
                    run_dir,
                    bootstrap_servers=cluster.bootstrap_servers,
                    settings=cluster.client_settings,
                    topics=list(scenario.topics),
                    windows=lambda: recording.schedule.windows if recording.schedule else [],
                    reporter=reporter,
                )
            )
        try:
            with Crew(
                scenario,
                run_dir,
                bootstrap_servers=cluster.bootstrap(scenario.workload.listener),
                secrets=cluster.client_settings,
            ) as crew:
                exercise(scenario, cluster, crew, recording, reporter)
                settle(scenario, cluster, crew, recording, reporter)
            take_states(list(scenario.sends), cluster, recording)
        except DiskError:
            raise  # nothing more can be written
        except AckproofError as error:
            recording.troubles.append(error.message)
        except (DockerException, RequestException) as error:
            recording.troubles.append(f"the container engine failed: {error}")
        if lease is not None and not recording.troubles:
            lease.allow_reuse()
