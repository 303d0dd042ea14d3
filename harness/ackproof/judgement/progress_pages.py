"""Holds the ledger against what the producers counted on their progress pages.

A page counts an outcome once it is in the ledger: a ledger with fewer sends or outcomes than the
pages count has lost some. A producer that ended by itself has counted all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ackproof.clients.shared_page import Progress, State, recorded, total
from ackproof.errors import RunDirectoryError
from ackproof.ledger import producer_ledger
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import PROBE_PRODUCERS, Outcome


def check_streams(run_dir: Path, scenario: Scenario) -> None:
    """Check the streams of an interrupted run: what a producer has recorded must be readable.

    Sends that damage of a stream hides would be phantoms of Kafka's. Raises RunDirectoryError.
    """
    for number, (state, progress) in sorted(_pages(run_dir, scenario)):
        path = producer_ledger.stream_path(run_dir, number)
        if not path.exists():
            continue
        rows, whole = producer_ledger.extent(path)
        if rows < progress.sent or (state is State.DONE and not whole):
            raise RunDirectoryError(
                f"{path} is damaged: {rows:,} of the {progress.sent:,} sends can be read that "
                f"producer {number} has recorded",
                hint="Restore the file from a copy.",
            )


def contradictions(run_dir: Path, scenario: Scenario, observed: Mapping[str, int]) -> Iterator[str]:
    """Yield in what the ledger differs from the pages. Raises RunDirectoryError."""
    pages = dict(_pages(run_dir, scenario))
    if not pages:
        return  # a run of an older ackproof
    for number, (state, progress) in sorted(pages.items()):
        rows = _rows(producer_ledger.table_path(run_dir, number))
        if rows < progress.sent or (state is State.DONE and rows > progress.sent):
            yield (
                f"producer {number} counted {progress.sent:,} sends, and its ledger has {rows:,}"
            )
        open_sends = progress.in_flight
        if open_sends < 0 or (state is State.DONE and open_sends):
            yield (
                f"producer {number} counted {progress.sent:,} sends, and "
                f"{progress.sent - open_sends:,} outcomes of them"
            )
    counted = total(progress for _, progress in pages.values())
    exact = all(state is State.DONE for state, _ in pages.values())
    for outcome, count in _comparable(counted, scenario):
        found = observed[outcome]
        if found < count or (exact and found > count):
            yield f"the producers counted {count:,} {outcome} sends, and the ledger has {found:,}"


def _comparable(counted: Progress, scenario: Scenario) -> Iterator[tuple[str, int]]:
    """Yield the counts of outcomes that are final: a transaction may change an ack afterwards.

    What was unknown when its producer died is not on its page, and what it acked last may be
    unknown in the ledger: both have but one direction.
    """
    yield str(Outcome.FAILED), counted.failed
    if scenario.workload.transactions is None:
        yield str(Outcome.ACKED), counted.acked
        yield str(Outcome.UNKNOWN), counted.unknown


def paths(run_dir: Path, scenario: Scenario) -> dict[int, Path]:
    """Return the page of each producer, by its number, and of each writer of the probe."""
    folder = run_dir / "clients"
    found = {_number(path): path for path in folder.glob("producer-*.progress")}
    for number, (topic, partition) in enumerate(scenario.written, PROBE_PRODUCERS):
        path = folder / f"probe-{topic}-{partition}.progress"
        if path.exists():
            found[number] = path
    return found


def _pages(run_dir: Path, scenario: Scenario) -> Iterator[tuple[int, tuple[State, Progress]]]:
    for number, path in paths(run_dir, scenario).items():
        yield number, read(path)


def _number(path: Path) -> int:
    try:
        return int(path.stem.removeprefix("producer-"))
    except ValueError:
        raise RunDirectoryError(f"{path} is of no producer: its name has no number") from None


def read(path: Path) -> tuple[State, Progress]:
    """Return phase and counts of a stored page. Raises RunDirectoryError if it is damaged."""
    try:
        return recorded(path)
    except (ValueError, OSError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from None


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows) if path.is_file() else 0
