"""Compares the words of an audit with real brokers, for configurations drawn at random.

`ci/audit-truth` calls it. A loss that the audit calls possible becomes a schedule (as in
`ackproof plan`), which must lose in one of three tries. A set of failures that it calls survived
becomes the schedules that lose under weaker settings, which must lose nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from ruamel.yaml import YAML

from ackproof.audit.risks import found_sets, question_of
from ackproof.audit.setup import Setup
from ackproof.audit.setups import setups
from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.execution.runner import run
from ackproof.own_config.configuration import Client, Given, OwnConfig, Topic
from ackproof.planning.compiler import write_all
from ackproof.planning.search import SearchResult
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured, load
from ackproof_faults.conditions.durations import parse_duration
from ackproof_model import adversary
from ackproof_model.adversary import Budgets
from ackproof_model.bounds.losing import Question
from ackproof_model.bounds.losing import stored as stored_minima
from ackproof_model.exposure import Budget
from ackproof_model.planning import Plan, carried_out, realized

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "results" / "audit_truth.jsonl"

VERSIONS = ("2.6.2", "3.2.0", "3.5.1", "3.7.0", "3.8.1", "4.1.2", "4.3.1", "4.4.0")
#: Configurations that are run side by side, so that those of one version share a cluster.
_SIDE_BY_SIDE = 16
_TRIES = 3
#: The most schedules for each set of failures that is survived.
_ATTACKS = 1
_MOST_STATES = 300_000
_RECORDS = 200
#: Failures that are perturbations of the adversary, whose schedules can be compiled.
_KINDS = {
    "crash": "kills",
    "power_loss": "power_losses",
    "disk_replaced": "power_losses",
    "clean_restart": "clean_stops",
    "lost_session": "fencings",
    "lag": "shrinks",
}
LOSES, SURVIVES = "loses", "survives"

Result = dict[str, Any]


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
        topic = {
            "min.insync.replicas": self.minimum,
            "unclean.leader.election.enable": self.unclean,
        }
        client = {"acks": self.acks, "enable.idempotence": self.idempotence}
        return OwnConfig(
            kafka=_given(self.kafka),
            brokers=_given(3),
            controllers=_given(1),
            racks={broker: _given(rack) for broker, rack in racks.items()},
            topics=(
                Topic(
                    name="orders",
                    replication_factor=_given(self.replicas),
                    settings={key: _given(value) for key, value in topic.items()},
                ),
            ),
            producers=(
                Client(
                    name="drawn",
                    library="librdkafka",
                    settings={key: _given(value) for key, value in client.items()},
                ),
            ),
        )

    def document(self) -> dict[str, Any]:
        """Return the scenario of its cluster, topic and producer, without faults."""
        return {
            "version": 1,
            "name": "truth",
            "kafka": self.kafka,
            "cluster": {
                "settings": {
                    "replica.lag.time.max.ms": 8000,
                    "broker.session.timeout.ms": 4000,
                    "broker.heartbeat.interval.ms": 500,
                    "zookeeper.session.timeout.ms": 6000,
                }
            },
            "topics": {
                "orders": {
                    "assignment": [[1, 2, 3][: self.replicas]],
                    "settings": {
                        "min.insync.replicas": self.minimum,
                        "unclean.leader.election.enable": self.unclean,
                    },
                }
            },
            "workload": {
                "topic": "orders",
                "rate": "500/s",
                "tail": _RECORDS,
                "settings": {
                    "acks": self.acks,
                    "enable.idempotence": self.idempotence,
                    "delivery.timeout.ms": 60000,
                },
            },
        }


def _given(value: object) -> Given:
    return Given(str(value).lower() if isinstance(value, bool) else str(value), "drawn")


def draw(seed: int, number: int) -> Drawn:
    """Return a configuration that its client and its brokers accept."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311
    replicas = chance.choice((1, 2, 3, 3, 3))
    acks = chance.choice(("0", "1", "all", "all", "all"))
    return Drawn(
        kafka=chance.choice(VERSIONS),
        replicas=replicas,
        minimum=chance.randint(1, replicas),
        acks=acks,
        idempotence=acks == "all" and chance.random() < 0.5,
        unclean=chance.random() < 0.3,
        racks=chance.choice((0, 0, 3)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A word of the audit about a set of failures, and the schedules that test it.

    contradicted: the model itself loses records where the audit says that they survive.
    """

    word: str
    failures: tuple[str, ...]
    plans: tuple[Plan, ...]
    contradicted: bool = False


def trials(setup: Setup, *, chance: random.Random, most: int) -> Iterator[Trial]:
    """Yield what the audit says of a setup, with the schedules that the planner finds.

    Of each word at most `most` sets of failures, drawn at random, get schedules.
    """
    found, question = found_sets(setup), question_of(setup)
    losing, survived = list(found.losing), list(found.survived)
    chance.shuffle(losing)
    chance.shuffle(survived)
    planned = 0
    for loss in losing:
        budget = _budget(question, loss.failures) if planned < most else None
        plan = _losing(question, budget) if budget else None
        planned += plan is not None
        yield Trial(word=LOSES, failures=loss.failures, plans=(plan,) if plan else ())
    planned = 0
    for failures in survived:
        budget = _budget(question, failures) if planned < most else None
        plans = tuple(islice(_attacks(question, budget), _ATTACKS)) if budget else ()
        planned += bool(plans)
        lost = any(plan.lost for plan in plans)
        yield Trial(word=SURVIVES, failures=failures, plans=plans, contradicted=lost)


def _budget(question: Question, failures: Sequence[str]) -> Budget | None:
    """Return the perturbations of failures; None if a schedule cannot make them."""
    counts: Counter[str] = Counter()
    for failure in failures:
        kind = _KINDS.get(failure)
        if kind is None or (kind == "shrinks" and question.model().profile.zookeeper):
            return None
        counts[kind] += question.replicas - 1 if kind == "shrinks" else 1
    return Budget(**counts)


@cache
def _losing(question: Question, budget: Budget) -> Plan | None:
    """Return the schedule of the shortest stored way to a loss within a budget."""
    known = stored_minima().get(question.key)
    found = known.lost_by(budget) if known else None
    if found is None or found.budget.leader_moves:
        return None
    total = int(found.budget.total)
    model = question.model(budgets=Budgets(**asdict(found.budget), in_all=total))
    return realized(adversary.search(model, max_states=_MOST_STATES))


def _attacks(question: Question, budget: Budget) -> Iterator[Plan]:
    """Yield schedules of these failures that lose records under weaker settings."""
    seen = set()
    for weaker in _weaker(question):
        plan = _losing(weaker, budget)
        here = carried_out(question.model(), plan.operations) if plan else None
        if here is not None and here.operations not in seen:
            seen.add(here.operations)
            yield here


def _weaker(question: Question) -> Iterator[Question]:
    """Yield settings under which more is lost, those that differ least first."""
    yield replace(question, elr=False)
    yield replace(question, min_insync_replicas=1)
    yield replace(question, elr=False, min_insync_replicas=1)
    yield replace(question, unclean=True)
    yield replace(question, acks="1")


def _write(drawn: Drawn, trial: Trial, folder: Path) -> list[Path]:
    """Write the scenarios of a trial; a replaced disk is emptied in place of a power loss."""
    folder.mkdir(parents=True, exist_ok=True)
    yaml, base = YAML(), folder / "base.yaml"
    yaml.dump(drawn.document(), base)
    scenario = load(base)[0].scenario
    answer = adversary.search(trial.plans[0].model, max_states=1)  # not written
    loses = trial.word == LOSES
    result = SearchResult(
        answer=answer,
        loss=trial.plans[0] if loses else None,
        clean=None,
        lossless=() if loses else trial.plans,
    )
    name = "-".join((trial.word, *trial.failures)).replace("_", "-")
    written = []
    for path, _ in write_all(scenario, result, name=name, records=_RECORDS, out=folder):
        document = yaml.load(path)
        wiped = trial.failures.count("disk_replaced")
        for fault in document["faults"]:
            if fault["fault"] == "power_loss" and wiped:
                fault |= {"fault": "wipe_partition", "partitions": "orders-0"}
                wiped -= 1
        yaml.dump(document, path)
        written.append(path)
    return written


def stored() -> dict[int, Result]:
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return {one["number"]: one for one in map(json.loads, lines)}


def main() -> int:
    """Run the configurations that are not stored, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", default="", metavar="TIME", help="begin none after this time")
    parser.add_argument("--most", type=int, default=3, help="sets of failures of each word to run")
    parser.add_argument("--compile", action="store_true", help="only compile, run no broker")
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "audit-truth")
    chosen = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    numbers = range(chosen.first, chosen.first + chosen.configurations)
    if not chosen.table:
        (_compile if chosen.compile else _run)(chosen, numbers)
    print("\n".join(table(list(stored().values()))))
    return 0


def _ordered(seed: int, numbers: Sequence[int]) -> list[int]:
    """Return the numbers, those of one version side by side within each group."""
    return sorted(numbers, key=lambda one: (one // _SIDE_BY_SIDE, draw(seed, one).kafka))


def _trials(drawn: Drawn, number: int, most: int) -> Iterator[Trial]:
    ((setup,),) = setups(drawn.own())
    return trials(setup, chance=random.Random(number), most=most)  # noqa: S311


def _compile(chosen: argparse.Namespace, numbers: Sequence[int]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        drawn = draw(chosen.seed, number)
        for trial in _trials(drawn, number, chosen.most):
            state = "contradicted" if trial.contradicted else "compiled" if trial.plans else "none"
            counts[trial.word, state] += 1
            if trial.contradicted:
                print(f"{number} {drawn}: {trial.word} {trial.failures}", file=sys.stderr)
    for (word, state), count in sorted(counts.items()):
        print(f"{word}: {state} {count}")


def _run(chosen: argparse.Namespace, numbers: Sequence[int]) -> None:
    until = time.monotonic() + parse_duration(chosen.budget) if chosen.budget else None
    engine, known = connect(), stored()
    with ClusterPool(engine, reuse=True) as pool:
        begin = partial(
            run,
            out=chosen.out,
            pool=pool,
            client=engine,
            reporter=ConsoleReporter(Console(stderr=True)),
        )
        for number in _ordered(chosen.seed, [one for one in numbers if one not in known]):
            if until is not None and time.monotonic() > until:
                break
            drawn = draw(chosen.seed, number)
            line: Result = {"number": number, "seed": chosen.seed, **asdict(drawn), "trials": []}
            for trial in _trials(drawn, number, chosen.most):
                tries: list[Result] = []
                if trial.plans:
                    for path in _write(drawn, trial, chosen.out / f"{number:03}"):
                        tries += _tried(path, trial, begin)
                line["trials"].append(
                    {
                        "word": trial.word,
                        "failures": trial.failures,
                        "schedules": len(trial.plans),
                        "contradicted": trial.contradicted,
                        "tries": tries,
                    }
                )
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _tried(
    path: Path, trial: Trial, begin: Callable[[Configured], tuple[Path, Verdict]]
) -> Iterator[Result]:
    """Yield the runs of a schedule: until it loses, or one that must lose nothing."""
    configured = load(path)[0]
    for _ in range(_TRIES):
        try:
            run_dir, verdict = begin(configured)
        except AckproofError as error:
            yield {"schedule": path.stem, "error": str(error)}
            continue
        lost = verdict.observed.get("lost", 0)
        yield {
            "schedule": path.stem,
            "run": run_dir.name,
            "verdict": verdict.verdict,
            "acked": verdict.observed.get("acked", 0),
            "lost": lost,
            "reason": verdict.reason,
        }
        if lost or (trial.word == SURVIVES and verdict.verdict != "inconclusive"):
            return


def _decided(one: Result) -> bool:
    return bool(one.get("lost")) or one.get("verdict") not in (None, "inconclusive")


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a row for each word and set of failures."""
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for result in results:
        for trial in result["trials"]:
            row = rows[trial["word"], " + ".join(trial["failures"])]
            row["said"] += 1
            row["scheduled"] += trial["schedules"] > 0
            tries = [one for one in trial["tries"] if _decided(one)]
            row["run"] += bool(tries)
            row["runs"] += len(tries)
            row["lost"] += sum(bool(one["lost"]) for one in tries)
            lost = any(one["lost"] for one in tries)
            row["true"] += bool(tries) and lost == (trial["word"] == LOSES)
            row["contradicted"] += trial["contradicted"]
    columns = ("said", "scheduled", "run", "true", "runs", "lost", "contradicted")
    yield f"{len(results)} configurations"
    yield "| word | failures | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    for (word, failures), row in sorted(rows.items()):
        counts = " | ".join(str(row[column]) for column in columns)
        yield f"| {word} | {failures} | {counts} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("audit-truth: interrupted; configurations that ended are stored\n")
        sys.exit(130)
