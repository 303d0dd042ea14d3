"""Compares the words of an audit with real brokers, for configurations drawn at random.

`ci/audit-truth` calls it. Configurations of one version are topics of one cluster, each with its
own producer, so that a schedule of failures tests all of them. The schedules are those that lose
records of one of them, or under the weakest settings (`ackproof plan`). A topic for which the audit
and the model call a schedule a loss must lose in one of three tries. A topic whose audit says that
these failures are survived must lose nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from ruamel.yaml import YAML

from ackproof.audit.risks import found_sets, question_of
from ackproof.audit.setup import Setup
from ackproof.audit.setups import setups
from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.execution import runner
from ackproof.kafka_versions import uses_zookeeper
from ackproof.own_config.configuration import Client, Given, OwnConfig, Topic
from ackproof.planning.compiler import write_all
from ackproof.planning.search import SearchResult
from ackproof.prediction.predict import predict
from ackproof.progress import ConsoleReporter
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_faults.conditions.durations import parse_duration
from ackproof_model import adversary
from ackproof_model.adversary import Budgets
from ackproof_model.bounds.failure_sets import EVENTS, Failures, FailureSets
from ackproof_model.bounds.losing import Question
from ackproof_model.bounds.losing import stored as stored_minima
from ackproof_model.configuration import Acks
from ackproof_model.exposure import Budget
from ackproof_model.planning import Operation, OperationKind, carried_out, realized

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "results" / "audit_truth.jsonl"
PAGE = ROOT / "docs" / "audit-truth.md"

VERSIONS = (
    *("4.4.0", "2.6.2", "3.8.1", "4.2.2", "3.2.0"),
    *("4.3.1", "3.5.1", "4.1.2", "3.7.0", "3.9.1"),
)
#: The configurations that are topics of one cluster.
_FLEET = 8
_TRIES = 3
_BROKERS = 3
#: The most failures of a set that the audit knows.
_MOST_FAILURES = 3
_MOST_PERTURBATIONS = 4
#: The losing sets of each configuration, drawn at random, that get a schedule.
_PLANNED = 5
_MOST_STATES = 150_000
#: Records that a schedule waits for in each stage, over all topics, and a topic's rate.
_RECORDS, _RATE = 200, 60
#: Without `LAG` no follower leaves the ISR because the machine is slow.
_LAG_MS, _NO_LAG_MS = 12_000, 60_000
#: The failure of each operation; slow followers (`WITHHOLD`) and heals are none.
_FAILURES = {
    OperationKind.KILL: "crash",
    OperationKind.LOSE_POWER: "power_loss",
    OperationKind.STOP: "clean_restart",
    OperationKind.CUT_OFF: "lost_session",
    OperationKind.LAG: "lag",
}
#: Settings under which most schedules lose: acks, unclean elections.
_WEAKEST: tuple[tuple[Acks, bool], ...] = (("1", False), ("all", True), ("all", False))
LOSES, SURVIVES, UNDECIDED = "loses", "survives", "undecided"

Result = dict[str, Any]
#: The number of a configuration, the failures that it sees, and the audit's word.
Test = tuple[int, Failures, str]
#: The row of a table with all tests of a word.
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A configuration drawn at random."""

    kafka: str
    replicas: int
    minimum: int
    acks: str
    idempotence: bool
    unclean: bool
    racks: int

    def own(self) -> OwnConfig:
        """Return it as if files stated all of it."""
        racks = {str(one): f"rack-{one % self.racks}" for one in range(3)} if self.racks else {}
        return OwnConfig(
            kafka=_given(self.kafka),
            brokers=_given(3),
            controllers=_given(1),
            racks={broker: _given(rack) for broker, rack in racks.items()},
            topics=(
                Topic(
                    name="orders",
                    replication_factor=_given(self.replicas),
                    settings={key: _given(value) for key, value in self.topic.items()},
                ),
            ),
            producers=(
                Client(
                    name="drawn",
                    library="librdkafka",
                    settings={key: _given(value) for key, value in self.producer.items()},
                ),
            ),
        )

    @property
    def topic(self) -> dict[str, Any]:
        return {
            "min.insync.replicas": self.minimum,
            "unclean.leader.election.enable": self.unclean,
        }

    @property
    def producer(self) -> dict[str, Any]:
        return {"acks": self.acks, "enable.idempotence": self.idempotence}


def _given(value: object) -> Given:
    return Given(str(value).lower() if isinstance(value, bool) else str(value), "drawn")


def draw(seed: int, number: int) -> Drawn:
    """Return a configuration that its client and its brokers accept."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311
    replicas = chance.choice((1, 2, 2, 3, 3, 3, 3))
    acks = chance.choice(("0", "1", "all", "all", "all"))
    return Drawn(
        kafka=VERSIONS[number // _FLEET % len(VERSIONS)],
        replicas=replicas,
        minimum=chance.randint(1, replicas),
        acks=acks,
        idempotence=acks == "all" and chance.random() < 0.5,
        unclean=chance.random() < 0.3,
        racks=chance.choice((0, 0, 3)),
    )


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Operations on brokers; of the power losses the last `wiped` ones empty the disk instead.

    controllers: the only controller is dead when the operations begin, and soon starts again.
    """

    operations: tuple[Operation, ...]
    wiped: int = 0
    controllers: bool = False

    def on(self, replicas: int) -> tuple[Operation, ...]:
        """Return the operations on the first brokers, which have a topic's replicas."""
        return tuple(one for one in self.operations if one.broker < replicas)

    def failures(self, replicas: int) -> Failures:
        """Return the failures that a topic sees; lag covers all of its followers."""
        kinds = Counter(_FAILURES[one.kind] for one in self.on(replicas) if one.kind in _FAILURES)
        kinds["lag"] = -(-kinds["lag"] // max(replicas - 1, 1))
        emptied = [one for one in self._power_losses[-self.wiped :] if one.broker < replicas]
        if self.wiped:
            kinds["power_loss"] -= len(emptied)
            kinds["disk_replaced"] = len(emptied)
        kinds["controllers"] = int(self.controllers)
        return tuple(one for one in EVENTS for _ in range(kinds[one]))

    @cached_property
    def _power_losses(self) -> list[Operation]:
        return [one for one in self.operations if one.kind is OperationKind.LOSE_POWER]

    def __str__(self) -> str:
        text = ", ".join(f"{one.kind} {one.broker + 1}" for one in self.operations)
        text += f" ({self.wiped} with the disk)" if self.wiped else ""
        return f"controller, {text}" if self.controllers else text


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A configuration and what the audit says of it."""

    number: int
    drawn: Drawn

    @cached_property
    def setup(self) -> Setup:
        ((setup,),) = setups(self.drawn.own())
        return setup

    @cached_property
    def found(self) -> FailureSets:
        return found_sets(self.setup)

    @cached_property
    def question(self) -> Question:
        return question_of(self.setup)

    def word(self, failures: Failures) -> str:
        """Return the audit's word for exactly these failures."""
        if any(_contains(failures, loss.failures) for loss in self.found.losing):
            return LOSES
        return SURVIVES if self.found.keeps(failures) else UNDECIDED

    def names(self, failures: Failures) -> Iterator[Failures]:
        """Yield the failures, and with racks of one broker the racks that lose power."""
        yield failures
        if self.drawn.racks and "power_loss" in failures:
            racks = ("rack" if one == "power_loss" else one for one in failures)
            yield tuple(sorted(racks, key=EVENTS.index))

    def smallest(self, failures: Failures) -> bool:
        """Whether these failures are one of the smallest sets that lose."""
        return any(loss.failures == failures for loss in self.found.losing)

    def loses(self, schedule: Schedule) -> bool | None:
        """Whether the model's prompt brokers lose acked records; None if it has no answer."""
        if self.drawn.acks == "0":
            return True if schedule.on(1) else None
        try:
            plan = carried_out(self.question.model(), schedule.on(self.drawn.replicas))
        except RuntimeError:
            return None
        return None if plan is None else bool(plan.lost)


def _contains(failures: Failures, others: Failures) -> bool:
    return not Counter(others) - Counter(failures)


def subjects(seed: int, numbers: Sequence[int]) -> list[Subject]:
    return [Subject(number=number, drawn=draw(seed, number)) for number in numbers]


def schedules(fleet: Sequence[Subject]) -> Iterator[tuple[Schedule, Question]]:
    """Yield schedules that lose records of a topic, or under the weakest settings."""
    for subject in fleet:
        losing = list(subject.found.losing)
        random.Random(subject.number).shuffle(losing)  # noqa: S311
        for loss in losing[:_PLANNED]:
            disks = loss.failures.count("disk_replaced")
            if subject.drawn.acks == "0":
                yield from _one_operation(subject, loss.failures)
                continue
            budget = loss.found.budget if loss.found else Budget(power_losses=len(loss.failures))
            if operations := _losing(subject.question, budget):
                yield Schedule(operations=operations, wiped=disks), subject.question
    first = fleet[0].question
    for acks, unclean in _WEAKEST:
        weak = replace(
            first, replicas=3, min_insync_replicas=1, acks=acks, unclean=unclean, elr=False
        )
        known = stored_minima().get(weak.key)
        for minimum in known.losing if known else ():
            if minimum.budget.total <= 2 and (operations := _losing(weak, minimum.budget)):
                yield Schedule(operations=operations), weak


def _one_operation(subject: Subject, failures: Failures) -> Iterator[tuple[Schedule, Question]]:
    kinds = {failure: kind for kind, failure in _FAILURES.items()}
    if len(failures) == 1 and failures[0] in kinds:
        operation = Operation(kind=kinds[failures[0]], broker=0)
        if carried_out(subject.question.model(), [operation]):
            yield Schedule(operations=(operation,)), subject.question


#: Schedules by the key of the rules, which several versions have, and the budget.
_known: dict[tuple[str, Budget], tuple[Operation, ...]] = {}


def _losing(question: Question, budget: Budget) -> tuple[Operation, ...]:
    """Return the shortest schedule that loses records within a budget; empty if there is none."""
    lag_in_zookeeper_mode = budget.shrinks and uses_zookeeper(question.kafka_version)
    if budget.leader_moves or lag_in_zookeeper_mode or budget.total > _MOST_PERTURBATIONS:
        return ()
    key = question.key, budget
    if key not in _known:
        counts: dict[str, Any] = {kind: int(count) for kind, count in asdict(budget).items()}
        model = question.model(budgets=Budgets(**counts, in_all=int(budget.total)))
        plan = realized(adversary.search(model, max_states=_MOST_STATES))
        _known[key] = plan.operations if plan else ()
    return _known[key]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A schedule, the configuration whose loss it shows, and what it tests.

    tests: numbers of configurations, each with the failures that it sees and the audit's word.
    """

    schedule: Schedule
    question: Question
    tests: frozenset[Test]


def trials(fleet: Sequence[Subject], most: int, done: Collection[Test] = ()) -> Iterator[Trial]:
    """Yield at most `most` schedules, each with the most words that no earlier one tests.

    done: what stored runs have tested.
    """
    found: dict[Schedule, Trial] = {}
    planned = list(schedules(fleet))
    if not uses_zookeeper(fleet[0].drawn.kafka):
        planned += [
            (replace(schedule, controllers=True), question)
            for schedule, question in planned
            if len(schedule.failures(_BROKERS)) < _MOST_FAILURES
        ]
    for schedule, question in planned:
        if schedule not in found:
            found[schedule] = Trial(
                schedule=schedule,
                question=question,
                tests=frozenset(tested(fleet, schedule)),
            )
    seen = {*done}

    def worth(trial: Trial) -> float:
        """Return the new words, fewer for power losses, each of which reads and cuts every log."""
        cuts = sum(one.kind is OperationKind.LOSE_POWER for one in trial.schedule.operations)
        return sum(3 if word == LOSES else 1 for *_, word in trial.tests - seen) / (1 + cuts)

    for _ in range(most):
        best = max(found.values(), key=worth, default=None)
        if best is None or not worth(best):
            return
        yield best
        seen |= best.tests


def tested(fleet: Sequence[Subject], schedule: Schedule) -> Iterator[Test]:
    """Yield the words that a schedule tests: smallest losing sets, and survived sets."""
    for subject in fleet:
        for failures in subject.names(schedule.failures(subject.drawn.replicas)):
            word = subject.word(failures)
            if failures and (
                word == SURVIVES
                or (word == LOSES and subject.smallest(failures) and subject.loses(schedule))
            ):
                yield subject.number, failures, word


_LEADING = "orders"


def write(fleet: Sequence[Subject], trial: Trial, folder: Path, name: str) -> Path:
    """Write the scenario: the schedule's own topic, and one for each configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    yaml, base = YAML(), folder / "base.yaml"
    own = trial.question
    leading = Drawn(
        kafka=fleet[0].drawn.kafka,
        replicas=own.replicas,
        minimum=own.min_insync_replicas,
        acks=own.acks,
        idempotence=False,
        unclean=own.unclean,
        racks=0,
    )
    lags = any(one.kind is OperationKind.LAG for one in trial.schedule.operations)
    document = _document(leading, lag_ms=_LAG_MS if lags else _NO_LAG_MS)
    yaml.dump(document, base)
    scenario = load(base)[0].scenario
    plan = carried_out(own.model(), trial.schedule.operations)
    assert plan is not None
    answer = adversary.search(plan.model, max_states=1)  # not written
    result = SearchResult(answer=answer, loss=plan, clean=None, lossless=())
    [(path, _)] = write_all(scenario, result, name=name, records=_RECORDS, out=folder)
    document = yaml.load(path)
    document["topics"] |= {f"c{one.number}": _topic(one.drawn) for one in fleet}
    document["workload"]["beside"] = {f"c{one.number}": _sends(one.drawn) for one in fleet}
    document["expect"] = {"loss": "any"}
    document["faults"] = list(_steps(document["faults"]))
    if trial.schedule.controllers:
        document["faults"].insert(1, _NO_CONTROLLER)
    replicas = {_LEADING: own.replicas} | {f"c{s.number}": s.drawn.replicas for s in fleet}
    power_losses = [one for one in document["faults"] if one["fault"] == "power_loss"]
    for step in power_losses[len(power_losses) - trial.schedule.wiped :]:
        having = [f"{topic}-0" for topic, count in replicas.items() if step["target"] <= count]
        step |= {"fault": "wipe_partition", "partitions": having}
    yaml.dump(document, path)
    load(path)
    return path


#: After the first acks.
_NO_CONTROLLER = {
    "fault": "kill",
    "id": "controller",
    "target": "active controller",
    "heal_after": "8s",
}


def _steps(faults: Sequence[Result]) -> Iterator[Result]:
    """Yield the faults, with time to send in each stage in which the leading topic acks nothing."""
    names = {one["id"] for one in faults}
    waits = {
        f"rest-{number}": f"sent-{number}"
        for number in range(len(faults))
        if f"rest-{number}" in names and f"acked-{number}" not in names
    }
    for step in faults:
        if "heal_when" in step:
            ends = [one.removesuffix(" began") for one in step["heal_when"]]
            step["heal_when"] = [f"{waits.get(end, end)} began" for end in ends]
        yield step
        if wait := waits.get(step["id"]):
            yield {
                "fault": "none",
                "id": wait,
                "when": f"{5 * _RECORDS} more sent",
                "or_after": "5s",
            }


def _topic(drawn: Drawn) -> Result:
    return {"assignment": [[1, 2, 3][: drawn.replicas]], "settings": drawn.topic}


def _sends(drawn: Drawn) -> Result:
    settings = {**drawn.producer, "delivery.timeout.ms": 60000}
    may_stop_for = ["_INCONSISTENT", "OUT_OF_ORDER_SEQUENCE_NUMBER", "_FATAL"]
    return {
        "rate": f"{_RATE}/s",
        "records": 60_000,
        "settings": settings,
        "may_stop_for": may_stop_for,
    }


def _document(leading: Drawn, *, lag_ms: int) -> Result:
    return {
        "version": 1,
        "name": "truth",
        "kafka": leading.kafka,
        "cluster": {
            "settings": {
                "replica.lag.time.max.ms": lag_ms,
                "broker.session.timeout.ms": 6000,
                "broker.heartbeat.interval.ms": 500,
                "zookeeper.session.timeout.ms": 6000,
            }
        },
        "topics": {_LEADING: _topic(leading)},
        "workload": {"topic": _LEADING, "tail": _RECORDS, **_sends(leading)},
    }


def stored() -> list[Result]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    """Run the schedules that are not stored, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", default="", metavar="TIME", help="begin none after this time")
    parser.add_argument("--most", type=int, default=6, help="schedules of each cluster")
    parser.add_argument("--compile", action="store_true", help="only compile, run no broker")
    parser.add_argument("--page", action="store_true", help="only write the page of what is stored")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "audit-truth")
    chosen = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    if not chosen.page:
        _run(chosen)
    if not chosen.compile:
        PAGE.write_text("\n".join(page(stored())) + "\n", encoding="utf-8")
    return 0


def _run(chosen: argparse.Namespace) -> None:
    until = time.monotonic() + parse_duration(chosen.budget) if chosen.budget else None
    done = outcomes(stored())
    last = chosen.first + chosen.configurations
    engine = connect() if not chosen.compile else None
    with ClusterPool(engine, reuse=True) as pool, patch.object(runner, "predict", _predicted):
        for first in range(chosen.first, last, _FLEET):
            numbers = range(first, min(first + _FLEET, last))
            fleet = subjects(chosen.seed, numbers)
            for at, trial in enumerate(trials(fleet, chosen.most, done)):
                if until is not None and time.monotonic() > until:
                    return
                words = Counter(word for *_, word in trial.tests)
                name = f"truth-{first}-{len(done)}-{at}"
                kafka = fleet[0].drawn.kafka
                print(f"{name} {kafka}: {trial.schedule}: {dict(words)}", flush=True)
                path = write(fleet, trial, chosen.out, name)
                if engine is not None:
                    begin = partial(
                        runner.run, load(path)[0], out=chosen.out, pool=pool, client=engine
                    )
                    for line in _tried(begin, fleet, trial, chosen.seed):
                        with RESULTS.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(line) + "\n")


def _predicted(scenario: Scenario) -> PredictionRecord:
    """Predict the leading topic only: nothing here reads the prediction, and each takes minutes."""
    workload = scenario.workload.model_copy(update={"beside": {}})
    return predict(scenario.model_copy(update={"workload": workload}))


def _tried(
    begin: Callable[..., tuple[Path, Verdict]], fleet: Sequence[Subject], trial: Trial, seed: int
) -> Iterator[Result]:
    """Yield the runs of a schedule, until each topic that must lose records has lost some."""
    reporter = ConsoleReporter(Console(stderr=True))
    open_ = {number for number, _, word in trial.tests if word == LOSES}
    for _ in range(_TRIES):
        line: Result = {
            "seed": seed,
            "kafka": fleet[0].drawn.kafka,
            "schedule": str(trial.schedule),
            "failures": {
                str(replicas): trial.schedule.failures(replicas) for replicas in (1, 2, 3)
            },
            "must_lose": sorted({number for number, _, word in trial.tests if word == LOSES}),
        }
        try:
            run_dir, verdict = begin(reporter=reporter)
        except AckproofError as error:
            yield {**line, "verdict": "inconclusive", "reason": str(error), "acked": {}, "lost": {}}
            continue
        counts = {s.number: verdict.by_topic.get(f"c{s.number}", {}) for s in fleet}
        yield {
            **line,
            "run": run_dir.name,
            "verdict": verdict.verdict,
            "reason": verdict.reason,
            "acked": {number: one.get("acked", 0) for number, one in counts.items()},
            "lost": {number: one.get("lost", 0) for number, one in counts.items()},
        }
        if verdict.verdict != "inconclusive":
            open_ -= {number for number, one in counts.items() if one.get("lost")}
            if not open_:
                return


def outcomes(results: Sequence[Result]) -> dict[Test, list[bool]]:
    """Return whether records were lost in each run, by today's word, failures and configuration."""
    found: defaultdict[Test, list[bool]] = defaultdict(list)
    known: dict[tuple[int, int], Subject] = {}
    for result in results:
        if result["verdict"] == "inconclusive":
            continue
        for number, lost in ((int(key), count) for key, count in result["lost"].items()):
            drawn = draw(result["seed"], number)
            subject = known.setdefault(
                (result["seed"], number), Subject(number=number, drawn=drawn)
            )
            for failures in subject.names(tuple(result["failures"][str(drawn.replicas)])):
                word = subject.word(failures) if failures else UNDECIDED
                if word == SURVIVES or (
                    word == LOSES and number in result["must_lose"] and subject.smallest(failures)
                ):
                    found[number, failures, word].append(lost > 0)
    return found


_COLUMNS = ("tests", "true", "runs", "runs that lost")

_INTRO = """\
# The audit's words, compared with real brokers

Made by `ci/audit-truth --page` from tests/results/audit_truth.jsonl; the words are those of the
audit as it is now. Configurations are drawn at random and are topics of one cluster, each with its
own producer. Each schedule loses records of one of them, or under weaker settings; on the others it
is an attack.

A test is a word about one configuration and the failures that it sees. *loses* is true if records
were lost in one of three runs; only smallest losing sets count, for which the model's prompt
brokers lose records, too. *survives* is true if no run lost any. The failures are an operator's
([audits](reference/audit.md#failures)); a test counts under each of its failures. No schedule makes
`leader_move`, nor `lag` in ZooKeeper mode. A `rack` has one broker here, so it is a `power_loss`,
too; `controllers`: the only controller is killed before the operations, and starts again.
"""


def page(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of the page: words by failure, by version and by set of failures."""
    conclusive = [one for one in results if one["verdict"] != "inconclusive"]
    found = outcomes(results)
    numbers = {number for number, *_ in found}
    yield _INTRO
    yield (
        f"{len(numbers)} configurations, {len(results)} runs, {len(conclusive)} of them conclusive."
    )
    yield from _table("failure", found, lambda test: sorted({*test[1]}))
    versions = {int(key): one["kafka"] for one in results for key in one["lost"]}
    yield from _table("Kafka", found, lambda test: [versions[test[0]]])
    yield from _table("set of failures", found, lambda test: [" + ".join(test[1])])
    yield from ("", "## Contradictions", "")
    against = [test for test, runs in found.items() if any(runs) != (test[2] == LOSES)]
    for number, failures, word in against:
        yield f"- {draw(41, number)}: {word} {' + '.join(failures)}"
    if not against:
        yield "None."


def _table(
    title: str, found: Mapping[Test, Sequence[bool]], keys: Callable[[Test], Sequence[str]]
) -> Iterator[str]:
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for test, runs in found.items():
        for key in (*keys(test), _ALL):
            row = rows[key, test[2]]
            row["tests"] += 1
            row["true"] += any(runs) == (test[2] == LOSES)
            row["runs"] += len(runs)
            row["runs that lost"] += sum(runs)
    yield from ("", f"## By {title}", "", f"| {title} | word | {' | '.join(_COLUMNS)} |")
    yield f"|---|---|{'---:|' * len(_COLUMNS)}"
    for (key, word), row in sorted(rows.items()):
        yield f"| {key} | {word} | {' | '.join(str(row[column]) for column in _COLUMNS)} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("audit-truth: interrupted; runs that ended are stored\n")
        sys.exit(130)
