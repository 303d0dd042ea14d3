"""Holds the files that clients left against the clients that the scenario and the tables tell of.

Every client has a progress page before it has its specification, and both before it works. What is
compared with them cannot be compared without them. A run of an older ackproof has none at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ackproof.runs.directory import RunRecord
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS

#: What clients of each kind record, one file a client.
_TABLES = {
    "producer": ("ledger", "transactions"),
    "consumer": ("reads", "consumer_events", "effects"),
}

_NAME = re.compile(r"(?:in-force-)?(producer|consumer)-(\d+)\.(?:json|progress|parquet)")


def contradictions(run_dir: Path, scenario: Scenario, record: RunRecord) -> Iterator[str]:
    """Yield the files of clients that a run has lost."""
    folder = run_dir / "clients"
    numbers = _numbers(run_dir, scenario)
    if scenario.expect.stopped != "any":
        for number in sorted(numbers["producer"]):
            if not (folder / f"in-force-producer-{number}.json").exists():
                yield f"nothing tells whether producer-{number} stopped"
    # What kept clients from starting is a trouble of the run already.
    if record.troubles or not record.sealed or not _any(folder):
        return
    for kind, found in numbers.items():
        if found != set(range(len(found))):
            yield f"the {kind}s are not numbered from 0 without a gap"
        for number in sorted(found):
            yield from _missing(folder, f"{kind}-{number}")
    if scenario.workload.probe:
        yield from _missing(folder, "probe-0")
        for topic, partition in scenario.written:
            yield from _missing(folder, f"probe-{topic}-{partition}", files=("progress",))


def _missing(
    folder: Path, client: str, files: tuple[str, ...] = ("json", "progress")
) -> Iterator[str]:
    nouns = {"json": "specification", "progress": "progress page"}
    for suffix in files:
        if not (folder / f"{client}.{suffix}").exists():
            yield f"the {nouns[suffix]} of {client} is missing"


def _any(folder: Path) -> bool:
    return any(path.suffix in {".json", ".progress"} for path in folder.glob("*"))


def _numbers(run_dir: Path, scenario: Scenario) -> dict[str, set[int]]:
    """Return the numbers of all clients of which anything tells, by kind."""
    numbers = {kind: set(range(count)) for kind, count in _implied(scenario).items()}
    folders = [run_dir / "clients"]
    folders += [run_dir / LOCATION[table] for tables in _TABLES.values() for table in tables]
    for folder in folders:
        for path in folder.glob("*"):
            if name := _NAME.fullmatch(path.name):
                numbers[name[1]].add(int(name[2]))
    if scenario.workload.application is not None:
        return {**numbers, "producer": set()}  # its acked logs are numbered like producers
    return {
        kind: {one for one in found if one < PROBE_PRODUCERS} for kind, found in numbers.items()
    }


def _implied(scenario: Scenario) -> dict[str, int]:
    """Return the least number of clients of each kind: who is to be interrupted has a successor."""
    workload = scenario.workload
    transactions = workload.transactions
    interrupted = transactions is not None and (
        transactions.crash_in is not None or transactions.zombie_in is not None
    )
    groups = workload.consumers.values()
    return {
        "producer": scenario.producers + (workload.producers if interrupted else 0),
        "consumer": sum(group.members + (group.crash_after is not None) for group in groups),
    }
