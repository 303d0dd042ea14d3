"""Searches how a configuration can lose acked records, and for schedules that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.errors import ScenarioError
from ackproof.scenario.model import Scenario
from ackproof_model import adversary
from ackproof_model.adversary import AdversaryModel, AdversaryResult, Budgets
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    REPLICA_LAG_TIME_MAX_MS,
    SESSION_TIMEOUTS,
)
from ackproof_model.planning import Plan, covering_plans, realized, with_clean_stops


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of the search for a configuration.

    answer: the answer with the fewest perturbations whose loss a schedule can reproduce; otherwise
    an answer whose loss needs a race; otherwise the answer with all allowed perturbations. loss:
    the schedule that reproduces the loss. clean: the same with controlled shutdowns, if that loses
    nothing. lossless: if no loss is possible, the schedules that come closest to a loss.
    """

    answer: AdversaryResult
    loss: Plan | None
    clean: Plan | None
    lossless: tuple[Plan, ...]


def search(
    scenario: Scenario,
    budgets: Budgets,
    *,
    suite: int,
    max_states: int,
    workers: int = 0,
    keep: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> SearchResult:
    """Search with one perturbation, then with two, and so on up to `budgets`.

    suite: how many schedules to return at most if no loss is possible. max_states, workers: limit
    and processes of the search. keep: folder in which interrupted searches are stored.

    Raises ScenarioError for a configuration that the model does not support, and if `keep` cannot
    be used.
    """
    if problem := next(_not_predicted(scenario), None):
        raise ScenarioError(f"no plan for {scenario.name}: {problem}")
    answer: AdversaryResult | None = None
    race: AdversaryResult | None = None
    for asked in _questions(scenario, budgets):
        say(f"{asked.budgets.perturbations} perturbations")
        try:
            answer = adversary.search(asked, workers=workers, max_states=max_states, keep=keep)
        except (OSError, ValueError) as error:
            if keep is None:
                raise
            raise ScenarioError(
                f"--checkpoints {keep}: the search cannot be stored there: {error}",
                hint="Name a folder with enough space, or remove the damaged files.",
            ) from error
        if answer.lost:
            if loss := realized(answer):
                clean = with_clean_stops(loss)
                control = None if clean is None or clean.lost else clean
                return SearchResult(answer=answer, loss=loss, clean=control, lossless=())
            race = race or answer
        elif not answer.complete:
            break
    assert answer is not None
    lossless = covering_plans(answer.model, most=suite) if answer.impossible else ()
    return SearchResult(answer=race or answer, loss=None, clean=None, lossless=tuple(lossless))


def _questions(scenario: Scenario, budgets: Budgets) -> Iterator[AdversaryModel]:
    """Yield questions by number of perturbations, each first without power losses."""
    for perturbations in range(1, max(1, budgets.perturbations) + 1):
        if budgets.power_losses:
            without_power_loss = replace(budgets, power_losses=0, in_all=perturbations)
            if without_power_loss.perturbations == perturbations:
                yield question(scenario, without_power_loss)
        within = min(perturbations, budgets.perturbations)
        yield question(scenario, replace(budgets, in_all=within))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """Seconds until the cluster detects a dead broker (session) and a lagging follower (lag)."""

    session: float
    lag: float


def question(scenario: Scenario, budgets: Budgets) -> AdversaryModel:
    """Return the question for a scenario's configuration. Its faults are ignored.

    With ZooKeeper `budgets.shrinks` becomes 0, because no fault can make a follower lag: one of the
    brokers is the controller and uses the listener of replication. Replicas move between the first
    one's broker and another one. With elections or moves, metadata may be late, except with
    ZooKeeper, where a broker gets each change in a request of its own.

    Raises ScenarioError for a configuration that the model or the planner does not support.
    """
    if problem := next(_unsupported(scenario, budgets), None):
        raise ScenarioError(f"no plan for {scenario.name}: {problem}")
    if Profile.of(scenario.kafka).zookeeper:
        budgets = replace(budgets, shrinks=0)
    topic = scenario.topic
    moved = bool(budgets.reassignments)
    first, *others = range(topic.replication_factor)
    level = scenario.cluster.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION)
    try:
        return AdversaryModel(
            kafka_version=scenario.kafka,
            acks=scenario.workload.settings.acks,
            min_insync_replicas=topic.min_insync_replicas,
            replicas=topic.replication_factor,
            unclean_election=Profile.of(scenario.kafka).elects_uncleanly(
                topic.unclean_leader_election
            ),
            flush_every_record=scenario.flushes(scenario.workload.topic),
            elr_enabled=None if level is None else int(level) > 0,
            budgets=budgets,
            spare_brokers=int(moved),
            targets=((first, *others), (topic.replication_factor, *others)) if moved else (),
            misses_epochs=bool(budgets.leader_moves or moved)
            and not Profile.of(scenario.kafka).zookeeper,
        )
    except ValueError as error:
        raise ScenarioError(f"no plan for {scenario.name}: {error}") from None


def timers(scenario: Scenario) -> Timers:
    settings, profile = scenario.cluster.settings, Profile.of(scenario.kafka)
    session = SESSION_TIMEOUTS[profile.zookeeper]
    return Timers(
        session=float(settings.get(session, 1000 * profile.session_timeout_s)) / 1000,
        lag=float(settings.get(REPLICA_LAG_TIME_MAX_MS, 1000 * profile.lag_time_s)) / 1000,
    )


def _not_predicted(scenario: Scenario) -> Iterator[str]:
    """Yield what a schedule may depend on beside what the search knows of its topic."""
    if scenario.workload.transactions is not None:
        yield "the search does not support transactions; remove workload.transactions"
    if (directories := scenario.cluster.log_dirs) > 1:
        yield f"the search supports one log directory, not {directories}: set log_dirs to 1"


def _unsupported(scenario: Scenario, budgets: Budgets) -> Iterator[str]:
    cluster = scenario.cluster
    if budgets.reassignments and cluster.brokers <= scenario.topic.replication_factor:
        yield (
            f"replicas can only move to a broker without one, and all {cluster.brokers} have one; "
            "raise cluster.brokers, or leave out --reassignments"
        )
    if not scenario.cluster_kind.is_described:
        yield "an attached cluster cannot lose power; remove cluster.attach"
    if cluster.combined:
        yield (
            "with cluster.combined a lost broker is also a lost controller, which the model does "
            "not support; set it to false"
        )
    if unknown := sorted(set(cluster.features) - {ELIGIBLE_LEADER_REPLICAS_VERSION}):
        yield f"the search does not support cluster.features {unknown[0]}; remove it"
    limits = timers(scenario)
    if limits.session >= limits.lag:
        yield (
            f"a dead broker is detected after {limits.session:g}s, a lagging follower after "
            f"{limits.lag:g}s, but the search requires the first to be shorter; raise "
            f"{REPLICA_LAG_TIME_MAX_MS}"
        )
