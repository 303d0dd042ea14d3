"""Draw scenarios at random, predict them, run them on real brokers, and compare.

`ci/predictions` calls it; its usage is there. Results are stored in docs/predictions.json, one line
a run, with the scenario that was run. Predictions are not stored: they are made again each time, so
that a changed model is held against all runs so far.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from predictions_draw import VERSIONS, draw
from predictions_page import RESULTS, Result, compared, page, result, store, stored
from rich.console import Console

from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.execution.runner import record
from ackproof.judgement.judge import judge_run
from ackproof.judgement.spark import preflight
from ackproof.prediction import replication
from ackproof.progress import ConsoleReporter
from ackproof.runs import directory
from ackproof.scenario.loader import Configured, load

if TYPE_CHECKING:
    from ackproof.runs.verdict import Verdict

PAGE = RESULTS.with_suffix(".md")

#: So many seeds are run in the order of their clusters, so that one cluster serves several.
_CHUNK = 60


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("number", type=int, nargs="?", default=0, help="how many scenarios")
    options.add_argument("seed", type=int, nargs="?", default=1, help="the seed of the first one")
    options.add_argument("--run", action="store_true", help="run those that are not stored yet")
    options.add_argument("--seconds", type=float, default=float("inf"), help="then begin no run")
    options.add_argument("--page", action="store_true", help="predict stored runs, write the page")
    options.add_argument("--out", type=Path, default=Path("runs/predictions"))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    seeds = range(given.seed, given.seed + given.number)
    if given.run:
        until = time.monotonic() + given.seconds
        for one in run(seeds, given.out, lambda: time.monotonic() < until):
            store(one)
    elif given.number:
        print("\n".join(said(seeds, given.out)))
    if not given.page:
        return 0
    runs = compared(stored().values())
    PAGE.write_text(page(runs), encoding="utf-8")
    for one in runs:
        for finding in one.contradictions:
            print(f"seed {one.seed}, Kafka {one.kafka}: {finding}")
    return int(any(one.contradictions for one in runs))


def said(seeds: Sequence[int], out: Path) -> Iterator[str]:
    """Yield how often each word is said of these seeds."""
    words: Counter[tuple[str, str]] = Counter()
    methods: Counter[str] = Counter()
    for seed in seeds:
        found = replication.predict(load(draw(seed, VERSIONS, out))[0].scenario)
        words.update(found.predicted.items())
        methods[found.prediction.bounds.partition(":")[0].partition(",")[0]] += 1
    yield f"{len(seeds)} scenarios predicted: {dict(methods)}"
    for (anomaly, word), count in sorted(words.items()):
        yield f"  {anomaly:16} {word:12} {count:5}"


def run(seeds: Sequence[int], out: Path, may_begin: Callable[[], bool]) -> Iterator[Result]:
    """Run the seeds that are not stored; yield each result.

    A run is judged while the next one is on the brokers: most of a run's time is waiting.
    """
    preflight()
    reporter = ConsoleReporter(Console(stderr=True))
    with (
        ClusterPool(connect(), reuse=True, say=_say) as pool,
        ThreadPoolExecutor(max_workers=1) as judge,
    ):
        judged: list[tuple[Configured, float, Future[Verdict]]] = []
        for configured in pending(seeds, stored(), out):
            if not may_begin():
                break
            scenario, began = configured.scenario, time.monotonic()
            run_dir = directory.create(
                out,
                scenario=scenario.name,
                configuration="",
                seed=scenario.seed,
                now=datetime.now(UTC),
            )
            try:
                record(configured, run_dir, client=connect(), reporter=reporter, pool=pool)
            except AckproofError as error:
                _say(f"seed {scenario.seed} was not run: {error.message}")
                continue
            judged.append((configured, time.monotonic() - began, judge.submit(judge_run, run_dir)))
            while judged and (judged[0][2].done() or len(judged) > 2):
                yield _result(*judged.pop(0))
        for one in judged:
            yield _result(*one)


def pending(seeds: Sequence[int], done: Mapping[int, Result], out: Path) -> Iterator[Configured]:
    """Yield the seeds without a result, those that can share a cluster one after the other."""
    for first in range(0, len(seeds), _CHUNK):
        drawn = [
            load(draw(seed, VERSIONS, out))[0]
            for seed in seeds[first : first + _CHUNK]
            if seed not in done
        ]
        yield from sorted(drawn, key=_cluster)


def _cluster(configured: Configured) -> tuple[str, str, int]:
    scenario = configured.scenario
    return scenario.kafka, scenario.cluster.model_dump_json(), scenario.seed


def _result(configured: Configured, seconds: float, judged: Future[Verdict]) -> Result:
    verdict = judged.result()
    _say(f"{verdict.run_id}: {verdict.kafka_version} {seconds:.1f} s, {verdict.verdict}: "
         f"{verdict.reason[:300]}")  # fmt: skip
    for finding in verdict.findings:
        _say(f"  FINDING {finding.anomaly} {finding.predicted}: {finding.explanation}")
    return result(configured.path, verdict, seconds)


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
