"""Checks of what clients recorded: files, progress pages, tables, times.

A client counts rows on its progress page after it has written them: a table with fewer rows than
the page counts has lost some. A client that ended by itself has counted all of them. An application
has no page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.clients.shared_page import total
from ackproof.clients.specs import ENDED_BY, FENCED, in_force_path
from ackproof.errors import RunDirectoryError
from ackproof.judgement.evidence import Evidence, micros, number_of, row_count
from ackproof.judgement.reads import LastReads, merged, reads_of
from ackproof.judgement.sends import CORRECTED_US, sends_of, transactions
from ackproof.ledger import conversion, producer_ledger
from ackproof.runs import table_files
from ackproof.runs.verdict import StoppedProducer
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import Commit
from ackproof_spark.tables import (
    FOLLOWER_FETCH,
    LOCATION,
    PROBE,
    PROBE_PRODUCERS,
    Outcome,
)

#: The tables of each kind of client; each client writes one file of them.
_TABLES = {
    "producer": ("ledger", "transactions"),
    "consumer": ("reads", "consumer_events", "effects", "acquisitions", "acknowledgements"),
}
_FILE_NAME = re.compile(r"(?:in-force-)?(producer|consumer)-(\d+)\.(?:json|progress|parquet)")

#: The columns that name a record which a consumer read or processed, in the topic of its group.
_RECORD = ("partition", "offset", "producer", "sequence")
#: Multiplying 64-bit numbers by an odd number maps no two of them to the same number.
_ODD = 0x9E3779B97F4A7C15


def check_streams(evidence: Evidence) -> None:
    """Check that the streams of an interrupted run contain all sends that producers counted.

    Sends that a damaged stream hides would look like phantoms. Raises RunDirectoryError.
    """
    for number, page in evidence.producer_pages().items():
        stream = producer_ledger.stream_path(evidence.run_dir, number)
        if not stream.exists():
            continue
        rows, whole = producer_ledger.extent(stream)
        if rows < page.counted.sent or (page.done and not whole):
            raise RunDirectoryError(
                f"{stream} is damaged: {rows:,} of the {page.counted.sent:,} sends can be read "
                f"that producer {number} has recorded",
                hint="Restore the file from a copy.",
            )


def client_counts(evidence: Evidence) -> dict[str, int]:
    """Return the counts of client events that are no anomalies, as far as the scenario allows them.

    `stopped`: producers that ended by a fatal error in `may_stop_for`. `follower-fetch`: how often
    a consumer began to fetch a partition from a follower. Raises RunDirectoryError.
    """
    scenario, counts = evidence.scenario, {}
    if allowed := expected_errors(scenario):
        counts["stopped"] = sum(error in allowed for error in _fatal_errors(evidence).values())
    if scenario.rack_aware:
        events = evidence.rows("consumer_events")
        counts["follower-fetch"] = sum(row["event"] == FOLLOWER_FETCH for row in events)
    return counts


def expected_errors(scenario: Scenario) -> frozenset[str]:
    """Return the fatal errors for which a producer may stop."""
    return frozenset(error for sends in scenario.sends.values() for error in sends.may_stop_for)


def stopped_producers(evidence: Evidence) -> list[StoppedProducer]:
    """Return the producers that a fatal error ended. A fenced one has a successor, so it is none.

    Raises RunDirectoryError.
    """
    return [
        StoppedProducer(producer=number, error=error)
        for number, error in _fatal_errors(evidence).items()
        if error not in FENCED
    ]


def _fatal_errors(evidence: Evidence) -> dict[int, str]:
    errors = {
        number: _ended_by(in_force_path(evidence.clients / f"producer-{number}"))
        for number in sorted(_client_numbers(evidence)["producer"])
    }
    return {number: error for number, error in errors.items() if error}


def _ended_by(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes()).get(ENDED_BY, "")) if path.exists() else ""
    except (OSError, ValueError, AttributeError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from None


def ledgers(evidence: Evidence) -> Iterator[str]:
    scenario = evidence.scenario
    written = len(evidence.ledgers())
    # Successors of interrupted producers have a specification, too.
    specified = len(list(evidence.clients.glob("producer-*.json")))
    producers = max(scenario.producers, specified)
    producers += len(scenario.written) if scenario.workload.probe else 0
    if written != producers:
        yield f"{producers} producers left {written} ledgers"


def probe_coverage(evidence: Evidence) -> Iterator[str]:
    if evidence.scenario.workload.probe:
        for topic, partition in evidence.scenario.written:
            if (topic, partition) not in evidence.probed:
                yield f"the probe recorded nothing of {topic}-{partition}"


def tables_of_clients(evidence: Evidence) -> Iterator[str]:
    scenario, acked = evidence.scenario, evidence.observed["acked"]
    groups, shared = scenario.workload.consumers, set(scenario.share_groups)
    processing = {
        name for name, group in groups.items() if Commit(group.commit) is not Commit.TRANSACTION
    }
    implied: dict[str, str] = {}
    #: The groups that leave rows in a table.
    of_groups = {
        "reads": set(groups) - shared,
        "consumer_events": set(groups),
        "effects": processing,
        **dict.fromkeys(("acquisitions", "acknowledgements", "share_groups"), shared),
    }
    if scenario.workload.transactions is not None:
        implied["transactions"] = "transactional producers"
    implied |= {table: "consumers" for table, names in of_groups.items() if names}
    if any(map(scenario.dead_letters, shared)) and not evidence.files("dead_letters"):
        yield "the scenario has a topic for dead letters, and the table dead_letters is missing"
    for table, clients in implied.items():
        files = evidence.files(table)
        if not files:
            yield f"the scenario has {clients}, and the table {table} is missing"
        elif acked and not any(map(row_count, files)):
            yield f"the scenario has {clients}, and the table {table} is empty"
        elif acked and table != "transactions":
            recorded = set().union(*(table_files.distinct(file, "group") for file in files))
            for name in sorted(of_groups[table] - recorded):
                yield f"the table {table} has nothing of the consumer group {name}"


def producer_pages_and_ledger(evidence: Evidence) -> Iterator[str]:
    pages = evidence.producer_pages()
    if not pages:
        return
    for number, page in pages.items():
        sent = page.counted.sent
        rows = row_count(producer_ledger.table_path(evidence.run_dir, number))
        if rows < sent or (page.done and rows > sent):
            yield f"producer {number} counted {sent:,} sends, and its ledger has {rows:,}"
        open_sends = page.counted.in_flight
        if open_sends < 0 or (page.done and open_sends):
            yield (
                f"producer {number} counted {sent:,} sends, and {sent - open_sends:,} outcomes of "
                "them"
            )
    counted = total(page.counted for page in pages.values())
    exact = all(page.done for page in pages.values())
    # A transaction may change an ack afterwards. A killed producer has not counted its last sends.
    comparable = {Outcome.FAILED: counted.failed}
    if evidence.scenario.workload.transactions is None:
        comparable |= {Outcome.ACKED: counted.acked, Outcome.UNKNOWN: counted.unknown}
    for outcome, count in comparable.items():
        in_ledger = evidence.observed[outcome]
        if in_ledger < count or (exact and in_ledger > count):
            yield (
                f"the producers counted {count:,} {outcome} sends, and the ledger has {in_ledger:,}"
            )


def client_files(evidence: Evidence) -> Iterator[str]:
    """Yield the files of clients that are missing.

    A client creates its progress page, then its specification, and then begins to work. If either
    file is missing, the checks that read it cannot run.
    """
    folder, scenario, record = evidence.clients, evidence.scenario, evidence.record
    numbers = _client_numbers(evidence)
    if scenario.expect.stopped != "any":
        for number in sorted(numbers["producer"]):
            if not (folder / f"in-force-producer-{number}.json").exists():
                yield f"no file records whether producer-{number} stopped"
    # If a client could not start, the run has an entry in `troubles`.
    if record.troubles or not record.sealed:
        return
    for kind, known in numbers.items():
        for number in sorted(known):
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


def _client_numbers(evidence: Evidence) -> dict[str, set[int]]:
    """Return the numbers of all clients that the scenario implies or that left a file, by kind.

    A client that the scenario interrupts has a successor.
    """
    workload = evidence.scenario.workload
    transactions = workload.transactions
    interrupted = transactions is not None and (
        transactions.crash_in is not None or transactions.zombie_in is not None
    )
    producers = evidence.scenario.producers + (workload.producers if interrupted else 0)
    consumers = sum(
        group.members + (group.crash_after is not None) for group in workload.consumers.values()
    )
    numbers = {"producer": set(range(producers)), "consumer": set(range(consumers))}
    tables = [evidence.run_dir / LOCATION[table] for names in _TABLES.values() for table in names]
    for folder in (evidence.clients, *tables):
        for path in folder.glob("*"):
            if name := _FILE_NAME.fullmatch(path.name):
                numbers[name[1]].add(int(name[2]))
    if not evidence.scenario.senders.are_our_clients:
        numbers["producer"].clear()  # acked logs are numbered like producers
    return {
        kind: {number for number in known if number < PROBE_PRODUCERS}
        for kind, known in numbers.items()
    }


def consumer_tables(evidence: Evidence) -> Iterator[str]:
    # A forwarding consumer rereads records that it could not forward; its effects are in other
    # topics.
    forwards = any(group.into for group in evidence.scenario.workload.consumers.values())
    for name, page in evidence.pages("consumer-*").items():
        exact = page.done and not forwards
        shares = evidence.file("acquisitions", name).is_file()
        records = "acquisitions" if shares else "reads"
        counts = {records: page.counted.sent, "effects": page.counted.acked}
        if forwards:
            del counts["effects"]
        differing = [
            f"{name} counted {count:,} {table}, and its table has {rows:,}"
            for table, count in counts.items()
            if (rows := row_count(evidence.file(table, name))) < count or (exact and rows > count)
        ]
        reads, effects = evidence.file("reads", name), evidence.file("effects", name)
        same = shares or _fingerprint(reads) == _fingerprint(effects)
        if exact and not differing and not same:
            differing = [f"{name} has processed other records than it read"]
        yield from differing


def _fingerprint(path: Path) -> int:
    """Return a hash of the records in a table of a consumer, independent of their order."""
    total = 0
    if not path.is_file():
        return total
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=list(_RECORD)):
            mixed = np.zeros(batch.num_rows, np.uint64)
            for name in _RECORD:
                column = pc.fill_null(batch[name].cast("int64"), -1).to_numpy()
                mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(_ODD)
                mixed ^= mixed >> np.uint64(32)
            total += int(mixed.sum())
    return total % 2**64


def brokers_answers(evidence: Evidence) -> Iterator[str]:
    expect = evidence.scenario.expect
    wanted = [
        key.replace("_", "-")
        for key in ("delivered_after_accept", "redelivered")
        if getattr(expect, key) != "any"
    ]
    groups = evidence.scenario.workload.consumers.items()
    own = {name for name, group in groups if group.is_own}
    if not (own and wanted):
        return
    asked: set[str] = set()
    answered: set[str] = set()
    for path in evidence.files("acknowledgements"):
        rows = pq.read_table(path, columns=["group", "answered_at"])
        asked.update(rows["group"].unique().to_pylist())
        answered.update(rows.filter(pc.is_valid(rows["answered_at"]))["group"].to_pylist())
    for name in sorted(own & asked - answered):
        yield (
            f"the delivery logs of {name} have no answer of brokers, without which "
            f"{' and '.join(wanted)} cannot be judged: write lines `answered`, or expect any"
        )


def transaction_tables(evidence: Evidence) -> Iterator[str]:
    if evidence.scenario.workload.transactions is None:
        return
    for path in evidence.transactional_ledgers():
        page = evidence.pages(path.stem).get(path.stem)
        counted = page.counted.unknown if page and page.done else None
        yield from _of_producer(evidence, path, counted=counted)


def _of_producer(evidence: Evidence, ledger: Path, *, counted: int | None) -> Iterator[str]:
    """Compare the transactions of a producer with its ledger.

    `counted`: the sends that it counted as unknown, if it ended by itself. Committed transactions
    cannot have more unknown sends than that.
    """
    sends, table = sends_of(evidence, ledger), transactions(evidence, ledger.stem)
    first, end = (table[name].to_numpy() for name in ("first_sequence", "end_sequence"))
    if table["transaction"].to_pylist() != list(range(len(table))):
        yield f"the transactions of {ledger.stem} are not numbered from 0 without a gap"
    if (end[:-1] > first[1:]).any():
        yield f"the transactions of {ledger.stem} overlap"
    if sends.last_sequence + 1 != sends.rows:
        yield (
            f"{ledger.stem} has {sends.rows:,} sends in its ledger, and the last is number "
            f"{sends.last_sequence:,}"
        )
    if len(end) and end.max() > sends.last_sequence + 1:
        yield f"the transactions of {ledger.stem} have more sends than its ledger"
    if sends.contradicting:
        yield (
            f"{sends.contradicting} sends of {ledger.stem} have not the outcome of their "
            "transaction"
        )
    if counted is not None and sends.doubtful > counted:
        yield (
            f"{ledger.stem} counted {counted:,} unknown sends, and its committed transactions "
            f"have {sends.doubtful:,}"
        )


def probe_attempts_made(evidence: Evidence) -> Iterator[str]:
    if not evidence.scenario.workload.probe:
        return
    folder = evidence.run_dir / LOCATION["probe"]
    for ledger in evidence.ledgers():
        number = number_of(ledger)
        if number < PROBE_PRODUCERS:
            continue
        table = folder / f"writes-{number}.parquet"
        attempts = conversion.writes(ledger).sort_by("sequence")
        if not table.exists() or pq.read_table(table, schema=PROBE).sort_by("sequence") != attempts:
            yield f"the probe's writes {number} in the table probe are not those of its ledger"
    for page in evidence.pages("probe-[0-9]*").values():
        counted = page.counted
        if not counted.sent:  # the probe counts reads only when it ends by itself
            continue
        tables = [pq.read_table(path, schema=PROBE) for path in folder.glob("reads-*.parquet")]
        answers = [answer for table in tables for answer in table["ok"].to_pylist()]
        answered, missed = sum(answers), len(answers) - sum(answers)
        if (counted.sent, counted.acked, counted.unknown) != (len(answers), answered, missed):
            yield (
                f"the probe counted {counted.sent:,} attempts to read, {counted.acked:,} of them "
                f"answered, and recorded {len(answers):,} and {answered:,}"
            )


def consumed_ends(evidence: Evidence) -> Iterator[str]:
    """Yield the partitions that a consumer group which ended by itself has not read to their end.

    A consumer ends when it has consumed each assigned partition up to its closing record. Without
    the reads of a group, the count of unprocessed records would be 0.
    """
    if evidence.record.troubles:
        return  # a consumer that did not end by itself is an entry in `troubles`
    topic = evidence.scenario.workload.topic
    ends = {
        row["partition"]: row["end_offset"]
        for row in evidence.rows("partition_ends")
        if row["topic"] == topic and row["complete"] and row["end_offset"] > row["begin_offset"]
    }
    ended, read = _consumed(evidence)
    for group in sorted(ended):
        for partition, end in sorted(ends.items()):
            last = read.get((group, (topic, partition)))
            if last is None:
                yield f"{group} has consumed to the end, and read nothing of {topic}-{partition}"
            elif last.offset < end - 1:
                yield (
                    f"{group} has consumed to the end, and read {topic}-{partition} up to offset "
                    f"{last.offset} of {end - 1}"
                )


def _consumed(evidence: Evidence) -> tuple[set[str], LastReads]:
    """Return the groups in which a consumer ended by itself, and what all groups have read."""
    pages = evidence.pages("consumer-*")
    reads = {name: reads_of(evidence, evidence.file("reads", name)) for name in pages}
    ended = {group for name, page in pages.items() if page.done for group, _ in reads[name]}
    return ended, merged(reads.values())


def send_times(evidence: Evidence) -> Iterator[str]:
    if not evidence.scenario.senders.times_are_recorded:
        return
    for path in evidence.ledgers():
        yield from _times(path, evidence)


def sends_without_times(evidence: Evidence) -> int:
    """Return the acked sends that lack a time; 0 if a check asks for all times."""
    if evidence.scenario.senders.times_are_recorded:
        return 0
    return sum(sends_of(evidence, path).untimed for path in evidence.ledgers())


def _times(ledger: Path, evidence: Evidence) -> Iterator[str]:
    name, record, sends = ledger.stem, evidence.record, sends_of(evidence, ledger)
    if sends.untimed:
        yield f"{name} has {sends.untimed:,} acked sends without their times"
    if sends.backwards:
        yield f"{name} has {sends.backwards:,} sends that were acked before they were sent"
    first, last = sends.first_at, sends.last_at
    if first is None or last is None:
        return
    early = first < micros(record.started_at) - CORRECTED_US
    late = record.finished_at and last > micros(record.finished_at) + CORRECTED_US
    if early or late:
        yield f"{name} has sends that are dated outside the run"
