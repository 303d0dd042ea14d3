"""What a scenario asks of the adversary's search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ackproof.errors import ScenarioError
from ackproof.kafka_versions import numbers, uses_zookeeper
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import AdversaryModel, Budgets

_LAG_TIME = "replica.lag.time.max.ms"
_SESSION = "broker.session.timeout.ms"
_ZOOKEEPER_SESSION = "zookeeper.session.timeout.ms"
#: KIP-537: longer defaults from here on.
_LONGER = (2, 5)

_ELR = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """How long the cluster takes to notice, in seconds: a dead broker, a follower that lags."""

    session: float
    lag: float


def question(scenario: Scenario, budgets: Budgets) -> AdversaryModel:
    """Return what a scenario's configuration is asked; its faults do not matter.

    With ZooKeeper a follower cannot be made to lag: one of the brokers is the controller, and talks
    to the others where they replicate. So `budgets.shrinks` is 0 then.

    Raises ScenarioError for what the model or the planner does not know.
    """
    if problem := next(_not_known(scenario), None):
        raise ScenarioError(f"no plan for {scenario.name}: {problem}")
    if uses_zookeeper(scenario.kafka):
        budgets = replace(budgets, shrinks=0)
    topic = scenario.topic
    level = scenario.cluster.features.get(_ELR)
    try:
        return AdversaryModel(
            kafka_version=scenario.kafka,
            acks=scenario.workload.settings.acks,
            min_insync_replicas=topic.min_insync_replicas,
            replicas=topic.replication_factor,
            unclean_election=topic.unclean_leader_election,
            flush_every_record=_flushes(scenario),
            elr_enabled=None if level is None else int(level) > 0,
            budgets=budgets,
        )
    except ValueError as error:
        raise ScenarioError(f"no plan for {scenario.name}: {error}") from None


def timers(scenario: Scenario) -> Timers:
    """Return how long the cluster's timers are."""
    settings, longer = scenario.cluster.settings, numbers(scenario.kafka) >= _LONGER
    session = settings.get(_SESSION, 9_000)
    if uses_zookeeper(scenario.kafka):
        session = settings.get(_ZOOKEEPER_SESSION, 18_000 if longer else 6_000)
    lag = settings.get(_LAG_TIME, 30_000 if longer else 10_000)
    return Timers(session=float(session) / 1000, lag=float(lag) / 1000)


def _flushes(scenario: Scenario) -> bool:
    """Whether every record is fsynced before it is acked."""
    own = scenario.topic.settings.get("flush.messages")
    return (
        str(scenario.cluster.settings.get("log.flush.interval.messages") if own is None else own)
        == "1"
    )


def _not_known(scenario: Scenario) -> Iterator[str]:
    cluster = scenario.cluster
    if cluster.attach is not None:
        yield "power cannot be taken from an attached cluster; leave cluster.attach out"
    if cluster.combined:
        yield (
            "with cluster.combined the loss of brokers takes controllers, too, of which the model "
            "knows nothing: set it to false"
        )
    if scenario.workload.transactions is not None:
        yield "the model's search has no transactions; leave workload.transactions out"
    if cluster.log_dirs > 1:
        yield "the model knows brokers with one log directory; leave cluster.log_dirs out"
    if unknown := sorted(set(cluster.features) - {_ELR}):
        yield f"the model does not know what cluster.features {unknown[0]} changes; leave it out"
    limits = timers(scenario)
    if limits.session >= limits.lag:
        yield (
            f"a dead broker is noticed after {limits.session:g}s, a follower that lags after "
            f"{limits.lag:g}s: the model takes the first to be shorter (raise {_LAG_TIME})"
        )
