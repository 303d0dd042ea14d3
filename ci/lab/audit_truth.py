"""Compares the words of an audit with real brokers, for configurations drawn at random.

`ci/lab/audit-truth` calls it. The configurations of one version share a cluster, each with a topic
and a producer of its own, and each schedule is carried out on all of them at once (`audit_attack`).
A schedule makes a set of failures. A configuration that survives the set must keep every acked
record. If the model loses records of a configuration by the schedule, and the audit calls that set
a loss, brokers must lose some in one of three tries.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import truth
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
from truth import Result, store, stored

from ackproof.cluster.booted import booted
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.scenario.cluster import ClusterSpec
from ackproof_faults.conditions.durations import parse_duration
from ackproof_faults.evidence import FaultError

RESULTS = truth.RESULTS / "audit_truth.jsonl"
#: The schedules of each version: finding them takes longer than an attack.
SCHEDULES = RESULTS.with_name("audit_schedules.jsonl")

_TRIES = 3
#: Fewer acked records decide nothing.
_LEAST_ACKED = 20


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
    print("\n".join(table(stored(RESULTS))))
    return 0


def _compile(seed: int, kafka: str, numbers: Sequence[int]) -> None:
    """Find the schedules of a version, and print the words that the model itself refutes."""
    for schedule in chosen(seed, numbers):
        claims = claims_of(seed, numbers, schedule)
        store(SCHEDULES, [{"kafka": kafka, "seed": seed, **schedule.document()}])
        print(f"{kafka}: {schedule}: {dict(Counter(one.word for one in claims.values()))}")
        for number, one in claims.items():
            if one.contradicted:
                print(f"  contradicted: {one.failures} of {draw(seed, number)}", file=sys.stderr)


def _run(seed: int, kafka: str, numbers: Sequence[int], until: float) -> None:
    """Carry out the schedules of one version that have open words, on one cluster."""
    known = [Schedule.of(one) for one in stored(SCHEDULES) if one["kafka"] == kafka]
    chosen = _next(seed, kafka, numbers, known)
    while chosen and time.monotonic() < until:
        client, image = connect(), images.ensure(kafka).reference
        spec = ClusterSpec(brokers=3, racks=list(RACKS), settings=SETTINGS)
        run_id = f"audit-truth-{kafka}-{len(known)}"
        with booted(spec, client=client, image=image, run_id=run_id, kafka=kafka) as cluster:
            while chosen and time.monotonic() < until:
                schedule, claims = chosen
                begun = time.monotonic()
                try:
                    tries = _tried(cluster, seed, schedule, claims)
                except (AckproofError, FaultError) as error:
                    print(f"{kafka}: {schedule}: {error}", file=sys.stderr)
                    known.remove(schedule)
                    chosen = _next(seed, kafka, numbers, known)
                    break  # the next schedule gets a new cluster
                line = {
                    "kafka": kafka,
                    "seed": seed,
                    "schedule": str(schedule),
                    "seconds": round(time.monotonic() - begun),
                    "tries": tries,
                }
                store(RESULTS, [line])
                chosen = _next(seed, kafka, numbers, known)


def _next(
    seed: int, kafka: str, numbers: Sequence[int], known: Sequence[Schedule]
) -> tuple[Schedule, dict[int, Claim]] | None:
    """Return the schedule that tests the most, and its open words.

    A loss that did not happen is tried again first; then count configurations without a test, then
    words without one. A set that is survived counts twice.
    """
    results = stored(RESULTS)
    tries = [one for result in results for one in result["tries"]]
    configurations = {one["number"] for one in tries}
    words = {(one["number"], one["word"], *one["failures"]) for one in tries}

    def gain(schedule: Schedule) -> tuple[bool, int, int]:
        claims = left[schedule]
        new = [
            1 + (one.word == SURVIVES)
            for number, one in claims.items()
            if (number, one.word, *one.failures) not in words
        ]
        return not new, len(claims.keys() - configurations), sum(new)

    left = {}
    for schedule in known:
        made = [
            one
            for result in results
            if (result["kafka"], result["schedule"]) == (kafka, str(schedule))
            for one in result["tries"]
        ]
        if claims := open_words(claims_of(seed, numbers, schedule), made):
            left[schedule] = claims
    best = max(left, key=gain, default=None)
    return (best, left[best]) if best else None


def open_words(claims: Mapping[int, Claim], tries: Sequence[Result]) -> dict[int, Claim]:
    """Return the words that no try has decided; a loss that did not happen has three tries."""

    def is_open(number: int, claim: Claim) -> bool:
        own = [one for one in tries if one["number"] == number]
        shown = any(one["lost"] or (claim.word == SURVIVES and _decided(one)) for one in own)
        return not shown and len(own) < _TRIES

    return {number: one for number, one in claims.items() if is_open(number, one)}


def _tried(
    cluster: Any, seed: int, schedule: Schedule, claims: Mapping[int, Claim]
) -> list[Result]:
    """Carry out a schedule once; return the result of each configuration."""
    targets = [
        Target(
            number=number,
            topic=f"t{number}-{time.monotonic_ns()}",
            plan=one.plan,
            settings=draw(seed, number).topic,
            acks=draw(seed, number).acks,
            idempotence=draw(seed, number).idempotence,
        )
        for number, one in claims.items()
    ]
    lost = attack(cluster, targets, schedule.operations, wiped=schedule.wiped, extra=schedule.extra)
    cluster.admin.delete_topics([target.topic for target in targets])
    return [
        {
            "number": target.number,
            "word": claims[target.number].word,
            "failures": claims[target.number].failures,
            "acked": len(target.acked),
            "lost": lost[target.topic],
            **({"astray": target.astray} if target.astray else {}),
        }
        for target in targets
    ]


def _decided(one: Mapping[str, Any]) -> bool:
    return one["lost"] is not None and one["acked"] >= _LEAST_ACKED


def table(results: Collection[Result]) -> Iterator[str]:
    """Yield a row for each word and set of failures.

    A loss that did not happen is undecided until it has three tries.
    """
    by_claim: defaultdict[tuple[str, str, int], list[Result]] = defaultdict(list)
    for one in (one for result in results for one in result["tries"]):
        by_claim[one["word"], " + ".join(one["failures"]), one["number"]].append(one)
    rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for (word, failures, _), tries in by_claim.items():
        decided = [one for one in tries if _decided(one)]
        lost = sum(one["lost"] > 0 for one in decided)
        is_open = not decided or (word == LOSES and not lost and len(tries) < _TRIES)
        counts = {
            "configurations": int(bool(decided)),
            "runs": len(decided),
            "lost": lost,
            "right": int(not is_open and (lost > 0) == (word == LOSES)),
            "undecided": int(is_open),
        }
        rows[word, failures].update(counts)
        rows[word, "all"].update(counts)
    columns = ("configurations", "runs", "lost", "right", "undecided")
    numbers = {number for _, _, number in by_claim}
    schedules = {(one["kafka"], one["schedule"]) for one in results}
    losses = rows[LOSES, "all"]
    yield (
        f"{len(numbers)} configurations, {len(schedules)} schedules; "
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
