"""Each invariant of the judge holds for legal evidence and fires for damaged evidence.

A world is legal evidence of a small run. A case damages it and names the invariant that fires.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from ackproof.clients.shared_page import State
from ackproof.errors import RunDirectoryError
from ackproof.judgement import expectations, invariants
from ackproof.judgement.cluster_checks import ended_nodes, read_to_the_end, reported_errors
from ackproof.judgement.invariants import INVARIANTS, Consequence
from ackproof.judgement.judge import with_times
from ackproof.ledger import conversion
from ackproof.runs.verdict import Latency, Metrics
from ackproof.scenario.topics import OFFSETS, TRANSACTIONS
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS
from spark_histories import parse
from support.run_directories import START, TOPIC, RunDirectory, at, store

SENDS = 10
OBSERVED = {"sent": SENDS, "acked": SENDS, "failed": 0, "unknown": 0, "unseen": 0}
METRICS = Metrics(
    duration_s=1, acked_per_s=1, unavailability_s=0, unavailability_gap_s=1, ack_latency_ms=None
)
TIMES = ("injected_at", "verified_at", "healed_at", "recovered_at")
KILL = {"fault": "kill", "target": "leader of orders-0", "when": "3 acked", "heal_after": "1s"}
ORDERS_0 = {"topic": TOPIC, "partition": 0}
Change = Callable[[RunDirectory], object]


def window(**changes: Any) -> dict[str, Any]:
    times = {name: at(second) for second, name in enumerate(TIMES, 1)}
    kill = {"fault": "kill", "target": "leader of orders-0", "nodes": [1], "parameters": "{}"}
    return {**kill, **times, "verified": True, "evidence": "broker 1 ended by SIGKILL", **changes}


# Worlds.


def plain(run: RunDirectory) -> None:
    """Ten acked sends of a run that was not sealed."""


def produced(run: RunDirectory) -> None:
    """The producer left its page and its specification."""
    run.page("producer-0", State.DONE, SENDS, SENDS)
    run.clients("producer-0.json")
    run.change_record(sealed=True, readers=["kafka"]).seal()


def killed(run: RunDirectory) -> None:
    run.change_scenario(faults=[KILL]).write("fault_windows", [window()])


def looped(run: RunDirectory) -> None:
    run.change_scenario(faults=[{"sequence": [KILL], "repeat": 2}])
    run.write("fault_windows", [window(), window(window=1)])


def at_brokers(run: RunDirectory) -> None:
    run.change_scenario(faults=[{**KILL, "target": [1, 3]}])
    run.write("fault_windows", [window(target="broker 1, 3", nodes=[1, 3])])


def drawn(run: RunDirectory) -> None:
    run.change_scenario(faults=[{**KILL, "target": "any broker"}])
    run.write("fault_windows", [window(target="broker 2", nodes=[2])])


def consumed(run: RunDirectory) -> None:
    run.change_scenario(workload={"consumers": {"g": {"commit": "after"}}})
    consume(run, 0, "g", SENDS)


def consume(
    run: RunDirectory,
    number: int,
    group: str,
    reads: int,
    effects: int | None = None,
    *,
    state: State = State.DONE,
    counted: tuple[int, int] = (SENDS, SENDS),
    **how: Any,
) -> None:
    """Have a consumer read and process the first records of orders-0."""
    name, effects = f"consumer-{number}", reads if effects is None else effects
    common = {**ORDERS_0, "consumer": number, "group": group}
    rows = [{**common, "offset": offset} for offset in range(max(reads, effects))]
    run.write("reads", rows[:reads], name=name, **how)
    run.write("effects", rows[:effects], name=name, **how)
    run.write("consumer_events", [{**common, "event": "started"}], name=name, **how)
    run.page(name, state, *counted)


def shared(run: RunDirectory) -> None:
    run.change_scenario(workload={"consumers": {"g": {"via": "share"}}})
    acquire(run, SENDS, 6)
    run.write("share_groups", [{**ORDERS_0, "group": "g", "start_offset": SENDS, "lag": 0}])


def acquire(run: RunDirectory, records: int, processed: int) -> None:
    """Have a share consumer acquire the first records of orders-0, and accept some of them."""
    common = {**ORDERS_0, "consumer": 0, "group": "g"}
    numbered = [{**common, "offset": offset} for offset in range(records)]
    run.write("acquisitions", numbered, name="consumer-0")
    run.write("acknowledgements", numbered, name="consumer-0")
    run.write("effects", numbered[:processed], name="consumer-0")
    run.write("consumer_events", [{**common, "event": "started"}], name="consumer-0")
    run.page("consumer-0", State.DONE, SENDS, 6)


def transacted(run: RunDirectory) -> None:
    """Two committed transactions of five sends; the log ends with a marker."""
    run.change_scenario(workload={"transactions": {"size": 5}})
    transact(run, (0, 0, 5, "committed"), (1, 5, 10, "committed"))
    run.change_row("partition_ends", end_offset=SENDS + 1)


def transact(run: RunDirectory, *transactions: tuple[int, int, int, str]) -> None:
    names = ("transaction", "first_sequence", "end_sequence", "outcome")
    rows = [dict(zip(names, each, strict=True)) for each in transactions]
    run.write("transactions", rows, name="producer-0")


def probed(run: RunDirectory) -> None:
    """The probe wrote ten records and read four times."""
    run.change_scenario(workload={"probe": True})
    probe = f"producer-{PROBE_PRODUCERS}"
    rows = [{**row, "producer": PROBE_PRODUCERS} for row in run.rows("ledger", "producer-0")]
    run.write("ledger", rows, name=probe)
    attempts = conversion.writes(run.file("ledger", probe)).to_pylist()
    run.write("probe", attempts, name=f"writes-{PROBE_PRODUCERS}")
    read = {**ORDERS_0, "action": "read", "at": START, "answered_at": START, "ok": True}
    run.write("probe", [read] * 4, name=f"reads-{PROBE_PRODUCERS}")
    run.page("probe-0", State.DONE, 4, 4)


def grown(run: RunDirectory) -> None:
    """A fault added orders-1, which got the last send and was read by the group."""
    add = {"fault": "add_partitions", "topic": TOPIC, "partitions": 2}
    run.change_scenario(faults=[add], workload={"consumers": {"g": {"commit": "after"}}})
    facts = json.dumps({"added": {TOPIC: [1]}})
    parameters = json.dumps({"topic": TOPIC, "partitions": 2})
    named = {"fault": "add_partitions", "target": "all", "parameters": parameters}
    run.write("fault_windows", [window(**named, facts=facts)])
    consume(run, 0, "g", SENDS)
    files = {"ledger": "producer-0", "final_log": "part-0"}
    files |= dict.fromkeys(("reads", "effects"), "consumer-0")
    for table, name in files.items():
        run.change_row(table, SENDS - 1, name=name, partition=1, offset=0)
    ends = [{**ORDERS_0, "end_offset": SENDS - 1}, {**ORDERS_0, "partition": 1, "end_offset": 1}]
    run.write("partition_ends", [{**end, "complete": True} for end in ends])


def moved(run: RunDirectory) -> None:
    """Orders-0 got other replicas while the group read it."""
    run.change_scenario(
        faults=[{"fault": "reassign", "topic": TOPIC, "to": [2]}],
        workload={"consumers": {"g": {"commit": "after"}}},
    )
    run.write("fault_windows", [window(**reassigned(TOPIC, 0), injected_at=at(0.2))])
    consume(run, 0, "g", SENDS)
    run.change_row("reads", SENDS - 1, name="consumer-0", read_at=at(2))


def reassigned(topic: str, *partitions: int) -> dict[str, Any]:
    parameters, facts = json.dumps({"topic": topic}), json.dumps({"moved": {topic: partitions}})
    return {"fault": "reassign", "target": "all", "parameters": parameters, "facts": facts}


def offsets_moved(run: RunDirectory) -> None:
    """The group committed in the third partition of its coordinators' topic after it was moved."""
    consumed(run)
    run.change_scenario(faults=[{"fault": "reassign", "topic": OFFSETS, "to": [2]}])
    run.write("fault_windows", [window(**reassigned(OFFSETS, 1, 3), injected_at=at(1))])
    run.change_row("consumer_events", name="consumer-0", event="committed", at=at(2))


def transactions_moved(run: RunDirectory) -> None:
    """The producer ended a transaction in partition 0 of its coordinators' topic afterwards."""
    killed_in_transactions(run)
    run.change_scenario(faults=[{"fault": "reassign", "topic": TRANSACTIONS, "to": [2]}])
    run.write(
        "fault_windows",
        [window(**reassigned(TRANSACTIONS, 0), healed_at=at(6), recovered_at=at(7))],
    )
    specified(run, "t")
    run.page("producer-0", State.DONE, SENDS, SENDS)


def specified(run: RunDirectory, transactional_id: str) -> None:
    specification = {"transactions": {"transactional_id": transactional_id}}
    run.clients("producer-0.json")
    (run.path / "clients" / "producer-0.json").write_text(json.dumps(specification))


def killed_in_transactions(run: RunDirectory) -> None:
    """The second transaction began at 5 s, while broker 1 was down."""
    transacted(run)
    run.change_scenario(faults=[KILL])
    run.write("fault_windows", [window(healed_at=at(6), recovered_at=at(7))])
    for number, ended_at in enumerate((at(0.5), at(9))):
        run.change_row("transactions", number, name="producer-0", ended_at=ended_at)


def replicated(run: RunDirectory) -> None:
    """The replicas of brokers 1 and 2, both in sync, were compared to their ends."""
    run.change_scenario(expect={"diverged": "none"})
    run.write("partition_states", [{**ORDERS_0, "replicas": [1, 2], "isr": [1, 2]}])
    whole = {**ORDERS_0, "end_offset": SENDS, "complete": True}
    run.write("replica_logs", [{**whole, "broker": broker} for broker in (1, 2)])
    batches = [{**ORDERS_0, "broker": broker, "last_offset": SENDS - 1} for broker in (1, 2)]
    run.write("replica_batches", batches)


WORLDS: dict[str, tuple[Callable[[RunDirectory], None], Mapping[str, int]]] = {
    build.__name__: (build, observed)
    for build, observed in (
        *((build, {}) for build in (plain, produced, killed, looped, at_brokers, drawn, consumed)),
        *((build, {}) for build in (transacted, grown, moved, killed_in_transactions, shared)),
        *((build, {}) for build in (offsets_moved, transactions_moved)),
        (probed, {"sent": 2 * SENDS, "acked": 2 * SENDS}),
        (replicated, {"diverged": 0}),
    )
}


def build(world: str, folder: Path) -> RunDirectory:
    sends = [f"0/{n} to 0: acked at {n}" for n in range(SENDS)]
    log = [f"0@{n}: 0/{n}" for n in range(SENDS)]
    history = parse({"sends": sends, "log": log, "ends": [f"0: 0-{SENDS}"]})
    run = RunDirectory(path=store(folder / "run", history))
    WORLDS[world][0](run)
    return run


def reasons(
    run: RunDirectory,
    world: str = "plain",
    *,
    unacked: Sequence[str] = (),
    duration_s: float = 1,
    **observed: int | None,
) -> dict[str, list[str]]:
    """Return the reasons of each invariant that fires; a count of None was not observed."""
    counts = {**OBSERVED, **WORLDS[world][1], **observed}
    known = {key: count for key, count in counts.items() if count is not None}
    metrics = METRICS.model_copy(
        update={"unacked_partitions": list(unacked), "duration_s": duration_s}
    )
    evidence = replace(run.evidence(**known), metrics=metrics)
    audit = invariants.audit(evidence)
    return {invariant.name: list(said) for invariant, said in audit.answers if said}


# Damage.

CASES: list[tuple[str, str, Change, Sequence[str], Mapping[str, Any]]] = []


def case(world: str, invariant: str, change: Change, *said: str, **observed: Any) -> None:
    """Add a case: the damaged world gives exactly these reasons; `observed` replaces counts."""
    CASES.append((world, invariant, change, said, observed))


def rows(table: str, *given: Mapping[str, Any], name: str = "part-0", **how: Any) -> Change:
    return lambda run: run.write(table, list(given), name=name, **how)


def changed(table: str, *, index: int = 0, name: str = "part-0", **changes: Any) -> Change:
    return lambda run: run.change_row(table, index, name=name, **changes)


def emptied(table: str) -> Change:
    def remove(run: Any) -> None:
        for path in (run.path / LOCATION[table]).glob("*"):
            path.unlink()

    return remove


def removed(*paths: str) -> Change:
    def remove(run: Any) -> None:
        for path in paths:
            (run.path / path).unlink()

    return remove


def page(client: str, state: State, *counts: int, **times: float) -> Change:
    return lambda run: run.page(client, state, *counts, **times)


def scenario(**changes: Any) -> Change:
    return lambda run: run.change_scenario(**changes)


def each(*changes: Change) -> Change:
    return lambda run: [change(run) for change in changes]


def nothing(_: RunDirectory) -> None:
    """Change no file: the case differs in its counts."""


# The run and its faults.

case("plain", "troubles", lambda run: run.change_record(troubles=["t"]), "t")
case(
    "plain",
    "schedule",
    lambda run: run.change_record(troubles=["t"], schedule_troubles=["t"]),
    "t",
)
case(
    "killed",
    "verification",
    changed("fault_windows", verified=False, evidence="broker 1 still answers"),
    "kill of leader of orders-0: broker 1 still answers",
)

NAMED = "kill of leader of orders-0"
ONCE = "the scenario injects kill once, and fault_windows records it"
for changes, problem in (
    ({"verified_at": None}, "is called verified without a time"),
    ({"evidence": ""}, "is called verified without evidence"),
    ({"nodes": []}, "has hit no node"),
    ({"nodes": [1, 2]}, "has hit 1, 2"),
    ({"healed_at": None, "recovered_at": None}, "was never healed"),
    ({"healed_at": START}, "has times that are not in order"),
    ({"injected_at": START - timedelta(days=1)}, "is dated outside the run"),
    ({name: START.replace(year=2030) for name in TIMES}, "is dated outside the run"),
):
    case("killed", "faults", changed("fault_windows", **changes), f"{NAMED} {problem}")
for world, windows, said in (
    ("killed", [], [f"{ONCE} 0 times"]),
    ("killed", [{}, {"window": 1}], [f"{ONCE} 2 times"]),
    (
        "killed",
        [{"fault": "pause"}],
        [f"{ONCE} 0 times", "fault_windows records pause, which the scenario does not inject"],
    ),
    (
        "killed",
        [{"window": 1}],
        ["the windows in fault_windows are not numbered from 0 without a gap"],
    ),
    (
        "killed",
        [{"target": "broker 7"}],
        [f"kill of broker 7 is none that the scenario injects: it injects {NAMED}"],
    ),
    ("looped", [], ["the scenario injects faults, and fault_windows records none"]),
    (
        "looped",
        [{"window": number} for number in range(3)],
        ["the scenario injects kill at most 2 times, and fault_windows records it 3 times"],
    ),
    (
        "at_brokers",
        [{"target": "broker 1, 3", "nodes": [1, 2]}],
        ["kill of broker 1, 3 has hit 1, 2"],
    ),
    ("drawn", [], [f"{ONCE} 0 times"]),
):
    change = rows("fault_windows", *(window(**changes) for changes in windows))
    case(world, "faults", change, *said)

# Whether the clients met the faults.

REFRESHED = (
    "learn of new partitions when they refresh their metadata, at the latest after "
    "topic.metadata.refresh.interval.ms=300000: lower it, or raise workload.tail)"
)
unread = changed("reads", index=SENDS - 1, name="consumer-0", partition=0, offset=0)
unsent = changed("ledger", index=SENDS - 1, name="producer-0", outcome="unknown")
ADDED, ASIDE = "add_partitions of topic orders", "afterwards"
case(
    "grown",
    "exercise",
    unsent,
    f"{ADDED}: no send was acked in orders-1 {ASIDE} (producers {REFRESHED}",
)
case(
    "grown",
    "exercise",
    each(unsent, scenario(workload={"partition": 0})),
    f"{ADDED}: no send was acked in orders-1 {ASIDE} (workload.partition is 0: remove it)",
)
case(
    "grown",
    "exercise",
    unread,
    f"{ADDED}: g read no record of orders-1 {ASIDE} (consumers {REFRESHED}",
)
# The closing record is no record of the run.
case(
    "grown",
    "exercise",
    changed("reads", index=SENDS - 1, name="consumer-0", offset=1),
    f"{ADDED}: g read no record of orders-1 {ASIDE} (consumers {REFRESHED}",
)
# Members whose partitions are assigned never get it: its records count as unprocessed.
assigned = {"g": {"commit": "after", "via": "assign"}}
case("grown", "exercise", each(unread, scenario(workload={"consumers": assigned})))
case(
    "grown",
    "ends",
    rows("partition_ends", {**ORDERS_0, "end_offset": SENDS - 1, "complete": True}),
    "partition_ends has 0 rows of orders-1 instead of one",
)
MOVED = "reassign of topic orders"
case(
    "moved",
    "exercise",
    changed("reads", index=SENDS - 1, name="consumer-0", read_at=at(0)),
    f"{MOVED}: g read no record of orders-0 {ASIDE}",
)
case(
    "moved",
    "exercise",
    changed("fault_windows", injected_at=at(50)),
    f"{MOVED}: no send was acked in orders-0 {ASIDE}",
)
for moved_to, said in ((1, f"{OFFSETS}-1"), (0, f"{OFFSETS}-0")):
    case(
        "offsets_moved",
        "exercise",
        rows("fault_windows", window(**reassigned(OFFSETS, moved_to), injected_at=at(1))),
        f"reassign of topic {OFFSETS}: no offset was committed in {said} {ASIDE}",
    )
case(
    "offsets_moved",
    "exercise",
    changed("consumer_events", name="consumer-0", at=at(0)),
    f"reassign of topic {OFFSETS}: no offset was committed in {OFFSETS}-1, {OFFSETS}-3 {ASIDE}",
)
ENDED = f"reassign of topic {TRANSACTIONS}: no transaction ended in {TRANSACTIONS}-0 {ASIDE}"
case("transactions_moved", "exercise", lambda run: specified(run, "u"), ENDED)
case(
    "transactions_moved",
    "exercise",
    changed("transactions", index=1, name="producer-0", ended_at=None),
    ENDED,
)
case(
    "killed_in_transactions",
    "exercise",
    changed("fault_windows", healed_at=at(3), recovered_at=at(4)),
    f"{NAMED}: no transaction was open while it held",
)
# The fault struck in a transaction that its producer never ended.
case(
    "killed_in_transactions",
    "exercise",
    changed("transactions", index=1, name="producer-0", ended_at=None),
)

# The final log and its ends.

case("plain", "look-up", nothing, "2 acked sends could not be looked up", unseen=2)
case(
    "plain",
    "extent",
    changed("partition_ends", complete=False, reason="cut", end_offset=12),
    "orders-0 was not read to its end: cut",
)
case(
    "plain",
    "extent",
    changed("partition_ends", begin_offset=7),
    "orders-0 begins at offset 7: retention or a fault removed the records before it, which cannot "
    "be looked up",
)
case(
    "produced",
    "seal",
    removed("manifest.json"),
    "manifest.json is missing, so nothing shows that the recorded files are as the run left them",
)
case(
    "produced",
    "seal",
    lambda run: run.change_record(readers=[]),
    "run.json names no reader of the final log",
)

END = {**ORDERS_0, "end_offset": SENDS, "complete": True}
BEHIND = "and its final log has nothing after offset 9"
for statistics in (True, False):
    unread = {"write_statistics": statistics}
    for ends, said in (
        ([], "partition_ends has 0 rows of orders-0 instead of one"),
        ([END, END], "partition_ends has 2 rows of orders-0 instead of one"),
        (
            [END, {**END, "partition": 7, "end_offset": 0, "complete": False}],
            "partition_ends has orders-7, which the scenario does not write to",
        ),
        ([{**END, "end_offset": 5}], "orders-0 ends at offset 5, and its final log has offset 9"),
        ([{**END, "end_offset": -1}], "orders-0 ends at offset -1, and its final log has offset 9"),
        ([{**END, "end_offset": 11}], f"orders-0 ends at offset 11, {BEHIND}"),
        ([{**END, "end_offset": 2**63 - 1}], f"orders-0 ends at offset {2**63 - 1}, {BEHIND}"),
    ):
        rewritten = lambda run, how=unread: run.write("final_log", run.rows("final_log"), **how)  # noqa: E731
        case("plain", "ends", each(rows("partition_ends", *ends), rewritten), said)

for observed, said in (
    ({"acked": 0, "unknown": 10}, "nothing was acked, so nothing could be lost"),
    ({"acked": 9}, "1 sends have an outcome other than acked, failed, unknown"),
    ({"unacked": ["orders-1"]}, "nothing was acked in orders-1"),
    ({"sent": 35_270, "acked": 1, "unknown": 35_269}, "only 1 of 35,270 sends were acked"),
):
    case("plain", "outcomes", nothing, said, **observed)

DISPUTED = {**ORDERS_0, "offset": 3, "reader": "kafka"}
for records, said in (
    (
        [{**DISPUTED, "state": "intact", "producer": 0, "sequence": 3}],
        "kafka has producer 0 sequence 3 alone",
    ),
    (
        [{**DISPUTED, "reader": reader, "state": "corrupt"} for reader in ("kafka", "python")],
        "kafka has a corrupt record; python has a corrupt record",
    ),
):
    disagreement = f"readers disagree about 1 offsets: orders-0 offset 3 ({said})"
    case("plain", "readers", rows("disagreements", *records), disagreement)

# Replicas.

NOT_COMPARED = "is expected, and the replicas' segments were not compared"
case("plain", "replicas", scenario(expect={"diverged": "some"}), f"diverged: some {NOT_COMPARED}")
case("plain", "replicas", scenario(expect={}), f"diverged: none {NOT_COMPARED}")
case(
    "replicated",
    "replicas",
    changed("replica_logs", index=1, complete=False, reason="more than 2 GiB"),
    "diverged: none is expected, and orders-0 on broker 2 was not compared to its end: more than "
    "2 GiB",
    diverged=None,
)
case("replicated", "replicas", nothing, "replicas hold 2 batches that were not read", gap=2)
for change, said in (
    (changed("partition_states", isr=[]), "partition_states ends without an ISR of orders-0"),
    (
        each(rows("replica_logs"), rows("replica_batches")),
        "replica_logs has no replica of orders-0",
    ),
    (
        rows("replica_logs", {**END, "broker": 1}),
        "replica_logs lacks the replicas of orders-0 in its ISR on brokers 2",
    ),
    (
        rows("replica_batches", {**ORDERS_0, "broker": 2, "last_offset": 9}),
        "replica_batches has no batch of orders-0 on broker 1, whose segments end at offset 10",
    ),
):
    case("replicated", "replicas", change, said)

# Producers.

COUNTED = "the producers counted {} sends, and the ledger has {}"
for state, counts, said, observed in (
    (State.PRODUCING, (15, 8), ["producer 0 counted 15 sends, and its ledger has 10"], {}),
    (
        State.DONE,
        (9, 9),
        ["producer 0 counted 9 sends, and its ledger has 10", COUNTED.format("9 acked", 10)],
        {},
    ),
    (State.PRODUCING, (10, 9), [COUNTED.format("9 acked", 8)], {"acked": 8, "unknown": 2}),
    (
        State.DONE,
        (10, 7, 1, 2),
        [COUNTED.format("7 acked", 8), COUNTED.format("2 unknown", 1)],
        {"acked": 8, "failed": 1, "unknown": 1},
    ),
    (
        State.PRODUCING,
        (10, 7, 2, 1),
        [COUNTED.format("2 failed", 1)],
        {"acked": 8, "failed": 1, "unknown": 1},
    ),
    (
        State.DONE,
        (10, 9),
        ["producer 0 counted 10 sends, and 9 outcomes of them", COUNTED.format("9 acked", 10)],
        {},
    ),
    (
        State.PRODUCING,
        (10, 10, 1),
        ["producer 0 counted 10 sends, and 11 outcomes of them", COUNTED.format("1 failed", 0)],
        {},
    ),
):
    case("plain", "pages of producers", page("producer-0", state, *counts), *said, **observed)

case("plain", "ledgers", removed("ledger/producer-0.parquet"), "1 producers left 0 ledgers")
case(
    "plain",
    "ledgers",
    lambda run: run.clients("producer-0.json", "producer-1.json"),
    "2 producers left 1 ledgers",
)

UNTIMED = "producer-0 has 10 acked sends without their times"
OUTSIDE = "producer-0 has sends that are dated outside the run"
ALL = range(SENDS)


def timed(**times: float | None) -> Change:
    """Give every send the same times, in seconds."""
    moments = {key: None if time is None else at(time) for key, time in times.items()}

    def change(run: RunDirectory) -> object:
        sends = [{**row, **moments} for row in run.rows("ledger", "producer-0")]
        return run.write("ledger", sends, name="producer-0")

    return change


for change, said in (
    (timed(sent_at=None, resolved_at=None), UNTIMED),
    (timed(sent_at=None), UNTIMED),
    (timed(resolved_at=None), UNTIMED),
    (
        timed(sent_at=5, resolved_at=1),
        "producer-0 has 10 sends that were acked before they were sent",
    ),
    (timed(resolved_at=62.0), OUTSIDE),
    (timed(sent_at=-2.0), OUTSIDE),
):
    case("plain", "times", change, said)

# Files of clients.


def lacking(*clients: str) -> list[str]:
    files = ("specification", "progress page")
    return [f"the {file} of {client} is missing" for client in clients for file in files]


def clients(*names: str) -> list[str]:
    return [f"{client}.{suffix}" for client in names for suffix in ("json", "progress")]


def only(*names: str) -> Change:
    """Leave these files of clients instead of those of the world."""

    def change(run: RunDirectory) -> object:
        for path in (run.path / "clients").glob("*"):
            path.unlink()
        return run.clients(*names)

    return change


for names, said in (
    (clients("producer-1"), lacking("producer-0")),
    (clients("producer-0", "producer-1")[1:], lacking("producer-0")[:1]),
    (clients("producer-0", "producer-1")[:3], lacking("producer-1")[1:]),
    ([*clients("producer-0"), "in-force-producer-1.json"], lacking("producer-1")),
    ([*clients("producer-0"), "consumer-0.progress"], lacking("consumer-0")[:1]),
):
    case("produced", "files of clients", only(*names), *said)
for table, client in (
    ("ledger", "producer-1"),
    ("transactions", "producer-1"),
    *((table, "consumer-0") for table in ("reads", "consumer_events", "effects")),
):
    case("produced", "files of clients", rows(table, name=client), *lacking(client))

SUCCESSOR = {"size": 5, "crash_in": 2}
for workload, missing in (
    ({"producers": 2}, ["producer-1"]),
    ({"consumers": {"a": {"members": 2, "commit": "after"}}}, ["consumer-0", "consumer-1"]),
    ({"consumers": {"a": {"commit": "after", "crash_after": 5}}}, ["consumer-0", "consumer-1"]),
    ({"transactions": SUCCESSOR}, ["producer-1"]),
    ({"transactions": {"size": 5, "zombie_in": 2}}, ["producer-1"]),
):
    case("produced", "files of clients", scenario(workload=workload), *lacking(*missing))
case(
    "produced",
    "files of clients",
    scenario(workload={"probe": True}),
    *lacking("probe-0"),
    "the progress page of probe-orders-0 is missing",
)
for expected in ("none", "some"):
    may_stop = scenario(expect={"stopped": expected}, workload={"may_stop_for": ["_FATAL"]})
    case("plain", "files of clients", may_stop, "no file records whether producer-0 stopped")

# Tables of clients.

GROUPS = {"a": {"commit": "after"}, "b": {"commit": "after"}}
FORWARDS = {"c": {"commit": "transaction", "into": ["copies"]}}
NONE_OF_B = "the table {} has nothing of the consumer group b"
for statistics in (True, False):
    whole = {"write_statistics": statistics}
    without_b = each(
        scenario(workload={"consumers": {**GROUPS, **FORWARDS}}, topics={"copies": {}}),
        lambda run, how=whole: consume(run, 0, "a", SENDS, **how),
        lambda run, how=whole: consume(run, 2, "c", SENDS, 0, **how),
        rows("consumer_events", {"group": "b", "event": "started"}, name="consumer-1", **whole),
    )
    said = [NONE_OF_B.format(table) for table in ("reads", "effects")]
    case("plain", "tables of clients", without_b, *said)
CLIENT_TABLES = ("reads", "consumer_events", "effects")
with_group = scenario(workload={"consumers": {"g": {"commit": "after"}}})
case(
    "plain",
    "tables of clients",
    with_group,
    *(f"the scenario has consumers, and the table {table} is missing" for table in CLIENT_TABLES),
)
case(
    "plain",
    "tables of clients",
    each(with_group, *(rows(table, name="consumer-0") for table in CLIENT_TABLES)),
    *(f"the scenario has consumers, and the table {table} is empty" for table in CLIENT_TABLES),
)
case(
    "plain",
    "tables of clients",
    scenario(workload={"transactions": {"size": 10}}),
    "the scenario has transactional producers, and the table transactions is missing",
)

for state, reads, effects, said in (
    (State.DONE, 7, 8, ["consumer-0 counted 8 reads, and its table has 7"]),
    (State.DONE, 9, 8, ["consumer-0 counted 8 reads, and its table has 9"]),
    (State.DONE, 8, 7, ["consumer-0 counted 8 effects, and its table has 7"]),
    (State.CONSUMING, 9, 7, ["consumer-0 counted 8 effects, and its table has 7"]),
    (State.CONSUMING, 9, 9, []),  # killed: its tables may be ahead of its page
):
    change = lambda run, *given, state=state: consume(  # noqa: E731
        run, 0, "g", *given, state=state, counted=(8, 8)
    )
    case(
        "consumed",
        "pages of consumers",
        lambda run, change=change, given=(reads, effects): change(run, *given),
        *said,
    )
for table in ("reads", "effects"):
    for changes in ({"offset": 99}, {"partition": 1}, {"producer": 0}):
        case(
            "consumed",
            "pages of consumers",
            changed(table, name="consumer-0", **changes),
            "consumer-0 has processed other records than it read",
        )
    reversed_ = lambda run, table=table: run.write(  # noqa: E731
        table, run.rows(table, "consumer-0")[::-1], name="consumer-0"
    )
    case("consumed", "pages of consumers", reversed_)
forwarding = scenario(workload={"consumers": FORWARDS}, topics={"copies": {}})
for reads, said in ((11, []), (9, ["consumer-0 counted 10 reads, and its table has 9"])):
    change = each(forwarding, lambda run, reads=reads: consume(run, 0, "c", reads, 0))
    case("consumed", "pages of consumers", change, *said)

for records, processed, said in (
    (SENDS, 6, []),  # a record that it releases or rejects is not processed
    (SENDS - 1, 6, ["consumer-0 counted 10 acquisitions, and its table has 9"]),
    (SENDS, 5, ["consumer-0 counted 6 effects, and its table has 5"]),
    (SENDS, 7, ["consumer-0 counted 6 effects, and its table has 7"]),
):
    change = lambda run, given=(records, processed): acquire(run, *given)  # noqa: E731
    case("shared", "pages of consumers", change, *said)
SHARE_TABLES = ("acquisitions", "acknowledgements", "share_groups")
case("shared", "tables of clients", lambda run: None)
case(
    "plain",
    "tables of clients",
    scenario(workload={"consumers": {"g": {"via": "share"}}}),
    *(
        f"the scenario has consumers, and the table {table} is missing"
        for table in ("consumer_events", "effects", *SHARE_TABLES)
    ),
)
case(
    "shared",
    "tables of clients",
    scenario(workload={"consumers": {"g": {"via": "share"}, "b": {"via": "share"}}}),
    *map(NONE_OF_B.format, ("consumer_events", "effects", *SHARE_TABLES)),
)

OWN_WORKERS = {"consumers": {"g": {"via": "share", "application": {"command": ["worker"]}}}}
NO_ANSWERS = (
    "the delivery logs of g have no answer of brokers, without which {} cannot be judged: write "
    "lines `answered`, or expect any"
)
for workload, expect, answered, said in (
    (OWN_WORKERS, {}, None, [NO_ANSWERS.format("delivered-after-accept")]),
    (
        OWN_WORKERS,
        {"redelivered": "none"},
        None,
        [NO_ANSWERS.format("delivered-after-accept and redelivered")],
    ),
    (OWN_WORKERS, {"delivered_after_accept": "any"}, None, []),
    (OWN_WORKERS, {}, START, []),  # one answer is enough: a killed member gets none
    ({}, {}, None, []),  # ackproof's consumers record all answers
):
    change = each(
        scenario(workload=workload, expect=expect),
        changed("acknowledgements", index=0, name="consumer-0", answered_at=answered),
    )
    case("shared", "answers", change, *said)

CONSUMED = "{} has consumed to the end, and read"
for change, said in (
    (
        lambda run: consume(run, 0, "g", 9, counted=(9, 9)),
        [f"{CONSUMED.format('g')} orders-0 up to offset 8 of 9"],
    ),
    (
        changed("reads", index=9, name="consumer-0", partition=1),
        [f"{CONSUMED.format('g')} orders-0 up to offset 8 of 9"],
    ),
    (
        rows("reads", {**ORDERS_0, "partition": 1, "group": "g"}, name="consumer-0"),
        [f"{CONSUMED.format('g')} nothing of orders-0"],
    ),
    (lambda run: consume(run, 0, "g", 3, state=State.CONSUMING, counted=(3, 3)), []),
    (  # killed, and replaced
        each(
            lambda run: consume(run, 0, "g", 4, state=State.CONSUMING),
            lambda run: consume(run, 1, "g", SENDS),
        ),
        [],
    ),
    (
        each(lambda run: consume(run, 0, "g", 3), lambda run: run.change_record(troubles=["t"])),
        [],
    ),
):
    case("consumed", "consumed ends", change, *said)

# Transactions.

OTHER_OUTCOME = "{} sends of producer-0 have not the outcome of their transaction"
FIRST_FIVE = (0, 0, 5, "committed")


def outcome(sequence: int, word: str) -> Change:
    return changed("ledger", index=sequence, name="producer-0", outcome=word)


for transactions, said in (
    ([FIRST_FIVE], OTHER_OUTCOME.format(5)),
    ([], OTHER_OUTCOME.format(10)),
    ([FIRST_FIVE, (1, 5, 10, "aborted")], OTHER_OUTCOME.format(5)),
    (
        [FIRST_FIVE, (2, 5, 10, "committed")],
        "the transactions of producer-0 are not numbered from 0 without a gap",
    ),
    (
        [(0, 0, 6, "committed"), (1, 5, 10, "committed")],
        "the transactions of producer-0 overlap",
    ),
    (
        [FIRST_FIVE, (1, 5, 11, "committed")],
        "the transactions of producer-0 have more sends than its ledger",
    ),
):
    change = lambda run, given=transactions: transact(run, *given)  # noqa: E731
    case("transacted", "transactions", change, said)
LAST_ABORTED = [FIRST_FIVE, (1, 5, 9, "committed"), (2, 9, 10, "aborted")]
for word in ("acked", "unknown", "aborted"):
    change = each(lambda run: transact(run, *LAST_ABORTED), outcome(9, word))
    said = [] if word == "aborted" else [OTHER_OUTCOME.format(1)]
    case("transacted", "transactions", change, *said)
for state, said in (
    (State.DONE, ["producer-0 counted 0 unknown sends, and its committed transactions have 1"]),
    (State.PRODUCING, []),  # killed: its page may be behind
):
    change = each(outcome(9, "unknown"), page("producer-0", state, 10, 10))
    case("transacted", "transactions", change, *said)
for change, said in (
    (each(outcome(3, "failed"), outcome(9, "unknown")), []),
    (outcome(2, "aborted"), [OTHER_OUTCOME.format(1)]),
    (removed("transactions/producer-0.parquet"), [OTHER_OUTCOME.format(10)]),
    (
        each(
            lambda run: transact(run, *LAST_ABORTED),
            outcome(9, "aborted"),
            changed("ledger", index=9, name="producer-0", sequence=99),
        ),
        ["producer-0 has 10 sends in its ledger, and the last is number 99"],
    ),
    (  # producers of other topics have no transactions
        each(
            removed("transactions/producer-0.parquet"),
            lambda run: run.write(
                "ledger",
                [{**row, "topic": "others"} for row in run.rows("ledger", "producer-0")],
                name="producer-0",
            ),
        ),
        [],
    ),
):
    case("transacted", "transactions", change, *said)

# The probe.

WRITES = f"writes-{PROBE_PRODUCERS}"
NOT_WRITTEN = f"the probe's writes {PROBE_PRODUCERS} in the table probe are not those of its ledger"


def rewritten_by(new: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Change:
    return lambda run: run.write("probe", new(run.rows("probe", WRITES)), name=WRITES)


for change, said in (
    (rewritten_by(lambda _: []), [NOT_WRITTEN]),
    (rewritten_by(lambda writes: writes[1:]), [NOT_WRITTEN]),
    (rewritten_by(lambda writes: [*writes, writes[0]]), [NOT_WRITTEN]),
    (rewritten_by(lambda writes: [{**writes[0], "ok": False}, *writes[1:]]), [NOT_WRITTEN]),
    (rewritten_by(lambda writes: writes[::-1]), []),
    (removed(f"probe/{WRITES}.parquet"), [NOT_WRITTEN]),
    *(
        (
            page("probe-0", State.DONE, *counts),
            [
                f"the probe counted {counts[0]} attempts to read, {counts[1]} of them answered, "
                "and recorded 4 and 4"
            ],
        )
        for counts in ((5, 5), (4, 3))
    ),
    (page("probe-0", State.SETTLING), []),  # killed
):
    case("probed", "attempts of the probe", change, *said)
case(
    "probed",
    "probe",
    emptied("probe"),
    "the probe recorded nothing of orders-0",
)

# Expected availability.

SLOW = "producer 0 was busy 99% of the time"
AVAILABLE = scenario(expect={"diverged": "any", "availability": ">= 99 %"})
case(
    "plain",
    "bottlenecks",
    each(AVAILABLE, lambda run: run.change_record(bottlenecks=[SLOW])),
    f"the cluster's latency and availability, as {SLOW}",
)
LATE = "producer 0 took 6% of the acks late"
case(
    "plain",
    "bottlenecks",
    each(AVAILABLE, lambda run: run.change_record(late=[LATE])),
    f"exact latency and unavailability, only upper bounds, as {LATE}",
)
case(
    "plain",
    "duration",
    AVAILABLE,
    "the cluster's availability is unknown: all sends in the ledger have the same timestamp",
    duration_s=0,
)
case(
    "probed",
    "steps",
    each(
        scenario(
            faults=[{**KILL, "id": "alone"}],
            expect={"diverged": "any", "steps": {"alone": {"readable": True}}},
        ),
        rows("fault_windows", window(parameters='{"id":"alone"}', healed_at=at(1.2))),
    ),
    "step alone: perhaps readable",
)


@pytest.mark.parametrize(
    ("times", "answered", "exact", "bound"),
    [
        ("measured", True, True, False),
        ("at most", True, False, True),
        ("unknown", True, False, False),
        ("measured", False, False, False),
        ("at most", False, False, False),
    ],
)
def test_a_latency_is_exact_a_bound_or_left_out(
    times: Literal["measured", "at most", "unknown"], answered: bool, exact: bool, bound: bool
) -> None:
    latency = Latency(p50=1, p95=2, p99=3, p999=4, max=5)
    metrics = METRICS.model_copy(update={"ack_latency_ms": latency})
    made = with_times(metrics, times, answered=answered)
    assert (made.ack_latency_ms == latency, made.ack_latency_at_most_ms == latency) == (
        exact,
        bound,
    )


@pytest.mark.parametrize("world", WORLDS)
def test_legal_evidence_gives_no_reason(world: str, tmp_path: Path) -> None:
    assert reasons(build(world, tmp_path), world) == {}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=f"{damage[1]}: {damage[3][0] if damage[3] else f'legal {number}'}")
        for number, damage in enumerate(CASES)
    ],
)
def test_damaged_evidence_gives_its_reasons(damage: tuple[Any, ...], tmp_path: Path) -> None:
    world, invariant, change, said, observed = damage
    run = build(world, tmp_path)
    change(run)
    assert reasons(run, world, **observed).get(invariant, []) == list(said)


def test_every_invariant_has_a_case_in_which_it_fires() -> None:
    fired = {invariant for _, invariant, _, said, _ in CASES if said}
    assert fired == {invariant.name for invariant in INVARIANTS}


def test_the_table_has_a_line_for_every_question() -> None:
    lines = invariants.table().splitlines()
    questions: list[Any] = [*invariants.ADMISSIONS, *INVARIANTS]
    assert len(lines) == 2 + len(questions)
    for line, asked in zip(lines[2:], questions, strict=True):
        assert line == f"| {asked.name} | {asked.question} | {asked.consequence} |"


def test_clients_of_an_interrupted_or_troubled_run_may_lack_files(tmp_path: Path) -> None:
    run = build("produced", tmp_path)
    only("ends.log")(run)
    assert "files of clients" in reasons(run)
    for record in ({"sealed": False}, {"sealed": True, "troubles": ["broker 1 never started"]}):
        run.change_record(**record)
        assert "files of clients" not in reasons(run)


@pytest.mark.parametrize(
    ("settings", "removed", "fires"),
    [
        ({"retention.ms": 1000}, "some", False),
        ({"retention.ms": 1000}, "any", True),
        ({}, "some", True),  # no setting of the topic explains it
    ],
)
def test_retention_that_is_expected_may_remove_the_head(
    settings: dict[str, int], removed: str, fires: bool, tmp_path: Path
) -> None:
    run = build("plain", tmp_path)
    run.change_row("partition_ends", begin_offset=7)
    run.change_scenario(
        topics={TOPIC: {"settings": settings}}, expect={"loss": "any", "removed": removed}
    )
    assert ("extent" in reasons(run)) is fires


def test_sends_that_are_not_acked_need_no_times(tmp_path: Path) -> None:
    run = build("plain", tmp_path)
    run.change_row("ledger", 9, name="producer-0", outcome="unknown", resolved_at=None)
    assert reasons(run) == {}


@pytest.mark.parametrize(
    ("expect", "inconclusive"),
    [
        ({}, False),  # counts of records depend on no time
        ({"availability": ">= 99 %"}, True),
        ({"write_availability": ">= 99 %"}, True),
        ({"steps": {"alone": {"readable": True}}}, True),
    ],
)
def test_impossible_times_are_inconclusive_if_the_scenario_expects_times(
    expect: dict[str, Any], inconclusive: bool, tmp_path: Path
) -> None:
    run = build("plain", tmp_path)
    timed(sent_at=None, resolved_at=None)(run)
    run.change_scenario(
        expect={"diverged": "any", **expect},
        workload={"probe": True},
        faults=[{**KILL, "id": "alone"}],
    )
    evidence = run.evidence(**OBSERVED)
    audit = invariants.audit(evidence)
    assert audit.of(Consequence.UNTIMED) == [UNTIMED]
    with_times = expectations.of_times(evidence.scenario.expect)
    assert (UNTIMED in audit.inconclusive(with_times=with_times)) is inconclusive


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "has 100 bytes"),
        (lambda path: path.rename(path.with_stem("producer-x")), "its name has no number"),
    ],
)
def test_a_damaged_page_is_refused(
    damage: Callable[[Path], object], error: str, tmp_path: Path
) -> None:
    run = build("plain", tmp_path).page("producer-0", State.DONE, 10, 10)
    damage(run.path / "clients" / "producer-0.progress")
    with pytest.raises(RunDirectoryError, match=error):
        reasons(run)


def test_nodes_that_ended_by_themselves_are_reported_once_until_they_work_again(
    tmp_path: Path,
) -> None:
    run = build("plain", tmp_path)
    seen = (
        *((1, "ended", "full"), (1, "ended", "full"), (1, "unfenced", ""), (1, "ended", "x" * 301)),
        *((2, "shutting-down", ""), (2, "unfenced", ""), (100, "ended", "old")),
    )
    rows = [
        {"at": at(second), "broker": node, "kind": kind, "text": text}
        for second, (node, kind, text) in enumerate(seen)
    ]
    run.write("broker_events", rows)
    ended = ended_nodes(run.evidence(**OBSERVED))
    assert [str(node).partition(" UTC")[0] + node.why for node in ended] == [
        f"{name} ended by itself at {at(second):%H:%M:%S}{why}"
        for name, second, why in (
            ("broker 1", 0, "full"),
            ("broker 1", 3, "x" * 300 + " …"),
            ("controller 100", 6, "old"),
        )
    ]


@pytest.mark.parametrize(
    ("direction", "truth"), [("response", "had carried out"), ("request", "refused")]
)
def test_reported_errors_have_the_anomalies_of_their_window(
    direction: str, truth: str, tmp_path: Path
) -> None:
    run = build("plain", tmp_path)
    link = {"fault": "link", "target": 1, "api": "Produce", "direction": direction}
    error = {**link, "action": "error", "error": "NOT_LEADER_OR_FOLLOWER"}
    parameters = (*map(json.dumps, (error, {**link, "action": "cut"})), "damaged")
    windows = [
        window(window=number, fault="link", parameters=text, **changes)
        for number, (text, changes) in enumerate(
            (*((text, {}) for text in parameters), (parameters[0], {"verified": False}))
        )
    ]
    run.write("fault_windows", windows)
    line = (
        "Reported error: fault 1 made brokers report NOT_LEADER_OR_FOLLOWER to Produce requests "
        f"that they {truth}. Meanwhile: "
    )

    def errors(seen: Sequence[tuple[str, int | None]], **observed: int) -> list[str]:
        run.write("anomalies", [{"anomaly": kind, "window": number} for kind, number in seen])
        return reported_errors(replace(run.evidence(**OBSERVED | observed), metrics=METRICS))

    seen = [("duplicated", 0), ("duplicated", 0), ("lost", 0), ("duplicated", 1), ("phantom", None)]
    assert errors(seen) == [f"{line}2 duplicated"]
    assert errors(seen[2:]) == []
    assert errors(seen[2:], failed=1) == []  # other faults may have caused them
    run.write("fault_windows", windows[:1])
    assert errors([], failed=1) == [f"{line}failed sends or time without acks"]
    assert errors([]) == []


def test_partitions_that_end_early_for_one_reason_are_one_sentence() -> None:
    rows = [
        {"topic": topic, "partition": number, "begin_offset": 0, "complete": done, "reason": reason}
        for topic, number, done, reason in (
            *(("orders", number, False, "cut") for number in range(1000)),
            ("orders", 1000, True, None),
            ("orders", 1001, False, "gone"),
            ("payments", 3, False, "cut"),
        )
    ]
    senders = SimpleNamespace(create_topics=False)
    evidence: Any = SimpleNamespace(
        scenario=SimpleNamespace(senders=senders), rows=lambda table: iter(rows)
    )
    assert list(read_to_the_end(evidence)) == [
        "orders-0 and 999 more were not read to their end: cut",
        "orders-1001 was not read to its end: gone",
        "payments-3 was not read to its end: cut",
    ]
