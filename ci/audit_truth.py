"""Compares the words of an audit with real brokers, for configurations drawn at random.

`ci/audit-truth` calls it. The configurations of one version share a cluster, each with a topic and
a producer of its own, and each schedule is carried out on all of them at once (`audit_attack`). A
schedule makes a set of failures. A configuration that survives the set must keep every acked
record. If the model loses records of a configuration by the schedule, and the audit calls that set
a loss, brokers must lose some in one of three tries.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit_attack import SETTINGS, Target, attack
from audit_schedules import (
    LOSES,
    RACKS,
    SURVIVES,
    VERSIONS,
    Claim,
    Schedule,
    chosen,
    claims_of,
    draw,
)

from ackproof.cluster.booted import booted
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.scenario.cluster import ClusterSpec
from ackproof_faults.conditions.durations import parse_duration
from ackproof_faults.evidence import FaultError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "results" / "audit_truth.jsonl"
#: The schedules of each version: finding them takes longer than an attack.
SCHEDULES = RESULTS.with_name("audit_schedules.jsonl")

_TRIES = 3
#: Fewer acked records decide nothing.
_LEAST_ACKED = 20

Result = dict[str, Any]


def stored(file: Path = RESULTS) -> list[Result]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def _append(file: Path, line: Result) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(line) + "\n")


def main() -> int:
    """Run the schedules that are not stored, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--kafka", action="append", choices=VERSIONS, help="only this version")
    parser.add_argument("--budget", default="", metavar="TIME", help="begin none after this time")
    parser.add_argument("--compile", action="store_true", help="only schedules, no brokers")
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    options = parser.parse_args()
    until = time.monotonic() + parse_duration(options.budget) if options.budget else math.inf
    for kafka in () if options.table else options.kafka or VERSIONS:
        numbers = [
            number
            for number in range(options.configurations)
            if draw(options.seed, number).kafka == kafka
        ]
        if options.compile:
            _compile(options.seed, kafka, numbers)
        elif time.monotonic() < until:
            _run(options.seed, kafka, numbers, until)
    print("\n".join(table(stored())))
    return 0


def _compile(seed: int, kafka: str, numbers: Sequence[int]) -> None:
    """Find the schedules of a version, and print the words that the model itself refutes."""
    for schedule in chosen(seed, numbers):
        claims = claims_of(seed, numbers, schedule)
        _append(SCHEDULES, {"kafka": kafka, "seed": seed, **schedule.document()})
        print(f"{kafka}: {schedule}: {dict(Counter(one.word for one in claims.values()))}")
        for number, one in claims.items():
            if one.contradicted:
                print(f"  contradicted: {one.failures} of {draw(seed, number)}", file=sys.stderr)


def _run(seed: int, kafka: str, numbers: Sequence[int], until: float) -> None:
    """Carry out the schedules of one version that are not stored, on one cluster."""
    done = {(one["kafka"], one["schedule"]) for one in stored()}
    known = [Schedule.of(one) for one in stored(SCHEDULES) if one["kafka"] == kafka]
    left = [one for one in known if (kafka, str(one)) not in done]
    while left and time.monotonic() < until:
        client, image = connect(), images.ensure(kafka).reference
        spec = ClusterSpec(brokers=3, racks=list(RACKS), settings=SETTINGS)
        run_id = f"audit-truth-{kafka}-{len(left)}"
        with booted(spec, client=client, image=image, run_id=run_id, kafka=kafka) as cluster:
            while left and time.monotonic() < until:
                schedule = left.pop(_next(seed, numbers, left))
                claims = claims_of(seed, numbers, schedule)
                begun = time.monotonic()
                try:
                    tries = list(_tried(cluster, seed, schedule, claims))
                except (AckproofError, FaultError) as error:
                    print(f"{kafka}: {schedule}: {error}", file=sys.stderr)
                    break  # the next schedule gets a new cluster
                line = {
                    "kafka": kafka,
                    "seed": seed,
                    "schedule": str(schedule),
                    "seconds": round(time.monotonic() - begun),
                    "tries": tries,
                }
                _append(RESULTS, line)


def _next(seed: int, numbers: Sequence[int], left: Sequence[Schedule]) -> int:
    """Return the place of the schedule that tests the most: configurations first, then words.

    A set that is survived counts twice.
    """
    tries = [one for result in stored() for one in result["tries"]]
    configurations = {one["number"] for one in tries}
    words = {(one["number"], one["word"], *one["failures"]) for one in tries}

    def gain(place: int) -> tuple[int, int]:
        claims = claims_of(seed, numbers, left[place])
        said = [
            1 + (one.word == SURVIVES)
            for number, one in claims.items()
            if (number, one.word, *one.failures) not in words
        ]
        return len(claims.keys() - configurations), sum(said)

    return max(range(len(left)), key=gain)


def _tried(
    cluster: Any, seed: int, schedule: Schedule, claims: Mapping[int, Claim]
) -> Iterator[Result]:
    """Yield the result of each configuration; a loss that did not happen is tried again."""
    left = dict(claims)
    for _ in range(_TRIES):
        targets = [
            Target(
                number=number,
                topic=f"t{number}-{time.monotonic_ns()}",
                plan=one.plan,
                settings=draw(seed, number).topic,
                acks=draw(seed, number).acks,
                idempotence=draw(seed, number).idempotence,
            )
            for number, one in left.items()
        ]
        lost = attack(
            cluster, targets, schedule.operations, wiped=schedule.wiped, extra=schedule.extra
        )
        for target in targets:
            said, count = left[target.number], lost[target.topic]
            yield {
                "number": target.number,
                "word": said.word,
                "failures": said.failures,
                "acked": len(target.acked),
                "lost": count,
                **({"astray": target.astray} if target.astray else {}),
            }
            if count or (said.word == SURVIVES and count is not None):
                del left[target.number]
        cluster.admin.delete_topics([target.topic for target in targets])
        if not left:
            return


def _decided(one: Mapping[str, Any]) -> bool:
    return one["lost"] is not None and one["acked"] >= _LEAST_ACKED


def table(results: Collection[Result]) -> Iterator[str]:
    """Yield a row for each word and set of failures."""
    by_claim: defaultdict[tuple[str, str, int], list[Result]] = defaultdict(list)
    for one in (one for result in results for one in result["tries"]):
        by_claim[one["word"], " + ".join(one["failures"]), one["number"]].append(one)
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (word, failures, _), tries in by_claim.items():
        decided = [one for one in tries if _decided(one)]
        lost = sum(one["lost"] > 0 for one in decided)
        counts = {
            "configurations": int(bool(decided)),
            "runs": len(decided),
            "lost": lost,
            "right": int(bool(decided) and (lost > 0) == (word == LOSES)),
            "undecided": int(not decided),
        }
        rows[word, failures].update(counts)
        rows[word, "all"].update(counts)
    columns = ("configurations", "runs", "lost", "right", "undecided")
    numbers = {number for _, _, number in by_claim}
    losses = rows[LOSES, "all"]
    yield (
        f"{len(numbers)} configurations, {len(results)} schedules; "
        f"{losses['lost']} of {losses['runs']} tries of a loss lost"
    )
    yield "| word | failures | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    for (word, failures), row in sorted(rows.items()):
        yield f"| {word} | {failures} | {' | '.join(str(row[one]) for one in columns)} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("audit-truth: interrupted; schedules that ended are stored\n")
        sys.exit(130)
