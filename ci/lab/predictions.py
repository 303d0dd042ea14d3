"""Draw scenarios at random, predict them, run them on real brokers, and compare.

`ci/lab/predictions` calls it; its usage is there. tests/results/predictions.jsonl has one line a
run, with the scenario that was run. Predictions are not stored: they are made again each time, so
that a changed model is compared with all runs so far.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from predictions_draw import VERSIONS, draw
from predictions_page import PAGE, Result, compared, page, result, store, stored
from predictions_share_groups import VERSIONS as WITH_SHARE_GROUPS
from rich.console import Console

from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.execution.runner import record
from ackproof.judgement.judge import judge_run
from ackproof.prediction.predict import predict
from ackproof.progress import ConsoleReporter
from ackproof.runs import directory
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Scenario
from ackproof.spark_session import preflight, spark_session

#: So many seeds are run in the order of their clusters, so that one cluster serves several.
_CHUNK = 60

_STORING = threading.Lock()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("number", type=int, nargs="?", default=0, help="how many scenarios")
    options.add_argument("seed", type=int, nargs="?", default=1, help="the seed of the first one")
    options.add_argument("--kafka", action="append", help="draw only this version")
    options.add_argument("--share-groups", action="store_true", help="each with a share group")
    options.add_argument("--run", action="store_true", help="run those that are not stored yet")
    options.add_argument("--seconds", type=float, default=float("inf"), help="then begin no run")
    options.add_argument("--clusters", type=int, default=4, help="how many at the same time")
    options.add_argument("--page", action="store_true", help="predict stored runs, write the page")
    options.add_argument("--out", type=Path, default=Path("runs/predictions"))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    seeds = range(given.seed, given.seed + given.number)
    versions = given.kafka or (WITH_SHARE_GROUPS if given.share_groups else VERSIONS)
    drawn = partial(draw, versions=versions, folder=given.out, share_groups=given.share_groups)
    if given.run:
        until, stopped = time.monotonic() + given.seconds, threading.Event()
        # A run that has begun is finished and stored, and its cluster removed.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopped.set())
        run(
            seeds,
            given.out,
            drawn=drawn,
            clusters=given.clusters,
            may_begin=lambda: not stopped.is_set() and time.monotonic() < until,
        )
    elif given.number:
        print("\n".join(said(seeds, drawn)))
    if not given.page:
        return 0
    runs = compared(stored().values())
    PAGE.write_text(page(runs), encoding="utf-8")
    for one in runs:
        for finding in one.contradictions:
            print(f"seed {one.seed}, Kafka {one.kafka}: {finding}")
    return int(any(one.contradictions for one in runs))


def said(seeds: Sequence[int], drawn: Callable[[int], Path]) -> Iterator[str]:
    """Yield how often each word is said of these seeds."""
    words: Counter[tuple[str, str]] = Counter()
    methods: Counter[str] = Counter()
    for seed in seeds:
        found = predict(load(drawn(seed))[0].scenario)
        words.update(found.predicted.items())
        methods[found.prediction.bounds.partition(":")[0]] += 1
    yield f"{len(seeds)} scenarios predicted: {dict(methods)}"
    for (anomaly, word), count in sorted(words.items()):
        yield f"  {anomaly:16} {word:12} {count:5}"


def run(
    seeds: Sequence[int],
    out: Path,
    *,
    drawn: Callable[[int], Path],
    clusters: int,
    may_begin: Callable[[], bool],
) -> None:
    """Run the seeds that are not stored, on so many clusters at once, and store the results.

    Most of a run's time is waiting, so that clusters share processors well. Processes with a warm
    Spark session each judge the runs: a search for a prediction here does not hold them up.
    """
    preflight(print)
    with spark_session():
        pass  # workers share it; it must not be started twice
    waiting, taking = pending(seeds, stored(), drawn), threading.Lock()

    def take() -> tuple[Configured, Path] | None:
        with taking:
            configured = next(waiting, None) if may_begin() else None
            return None if configured is None else (configured, _run_dir(configured.scenario, out))

    with (
        ProcessPoolExecutor(
            max_workers=clusters,
            mp_context=get_context("spawn"),
            initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_IGN),
        ) as judge,
        ThreadPoolExecutor(max_workers=clusters) as pool,
    ):
        for worker in [pool.submit(_work, take, judge) for _ in range(clusters)]:
            worker.result()


def _work(take: Callable[[], tuple[Configured, Path] | None], judge: Executor) -> None:
    """Run what `take` returns until it returns None, if possible on one cluster."""
    client, reporter = connect(), ConsoleReporter(Console(quiet=True))
    with ClusterPool(client, reuse=True, say=_say) as pool:
        while taken := take():
            configured, run_dir = taken
            began = time.monotonic()
            try:
                record(configured, run_dir, client=client, reporter=reporter, pool=pool)
                recorded = time.monotonic()
                verdict = judge.submit(judge_run, run_dir).result()
            except AckproofError as error:
                _say(f"{run_dir.name}: not run: {error.message}")
                continue
            with _STORING:
                store(result(configured.path, verdict, recorded - began))
            _say(
                f"{run_dir.name}: Kafka {verdict.kafka_version}, {recorded - began:.1f} s, judged "
                f"after {time.monotonic() - began:.1f} s, {verdict.verdict}: {verdict.reason[:300]}"
            )
            for finding in verdict.findings:
                _say(f"  FINDING {finding.anomaly} {finding.predicted}: {finding.explanation}")


def _run_dir(scenario: Scenario, out: Path) -> Path:
    now = datetime.now(UTC)
    return directory.create(
        out, scenario=scenario.name, configuration="", seed=scenario.seed, now=now
    )


def pending(
    seeds: Sequence[int], done: Mapping[int, Result], drawn: Callable[[int], Path]
) -> Iterator[Configured]:
    """Yield the seeds without a result, those that can share a cluster one after the other."""
    for first in range(0, len(seeds), _CHUNK):
        waiting = [
            load(drawn(seed))[0] for seed in seeds[first : first + _CHUNK] if seed not in done
        ]
        yield from sorted(waiting, key=_cluster)


def _cluster(configured: Configured) -> tuple[str, str, int]:
    scenario = configured.scenario
    return scenario.kafka, scenario.cluster.model_dump_json(), scenario.seed


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
