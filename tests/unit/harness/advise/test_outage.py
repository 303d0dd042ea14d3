"""A past outage from disks and log lines, an acked log against it, and extracted records."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.advise.acked import look_up
from ackproof.advise.bundle import Evidence, document, read_evidence, write
from ackproof.advise.dead_cluster import Settings
from ackproof.advise.disks import read_disks
from ackproof.advise.outage import Outage, outages
from ackproof.advise.outage_screen import print_outages
from ackproof.advise.records import read_records
from ackproof.errors import ScenarioError
from ackproof.observation import broker_log, clocks, metadata_log
from ackproof_model.advice import Offsets
from command_line import invoked
from segment_files import batch
from support.dead_disks import DUMP, changed, created, disk, payload
from support.snapshots import plain

REAL = Path(__file__).parents[2] / "spark_analysis" / "forensics" / "batches_4.3.1.log"
#: Broker 2, which was not in the ISR, is elected in epoch 5 and writes offsets 5 to 7.
UNCLEAN = DUMP + changed(leader=2, isr=[2])
CLEAN = DUMP + changed(isr=[1, 2]) + changed(leader=2, isr=[2])
LINES = [
    "[2026-11-25 02:00:00,000] INFO [Broker] Follower orders-0 starts at leader epoch 4 from "
    "offset 2 with partition epoch 2 and high watermark 2. Current leader is 1. (state.change)",
    "[2026-11-25 02:00:09,000] INFO [Broker] Follower orders-0 starts at leader epoch 5 from "
    "offset 9 with partition epoch 3 and high watermark 3. Current leader is 2. (state.change)",
    "[2026-11-25 02:00:10,000] INFO [UnifiedLog partition=orders-0, dir=/d] "
    "Truncating to offset 5 (kafka.log.UnifiedLog)",
]


def varint(number: int) -> bytes:
    value, out = (number << 1) ^ (number >> 63), b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def records(*values: str) -> bytes:
    """Return records with these values and the key k."""
    out = b""
    for delta, value in enumerate(values):
        text = value.encode()
        body = b"\0" + varint(0) + varint(delta) + varint(1) + b"k"
        body += varint(len(text)) + text + varint(0)
        out += varint(len(body)) + body
    return out


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Broker 1 has offsets 5 to 8 of epoch 4; broker 2 has those of epoch 5, as leader."""
    old = batch(0, count=2, epoch=2, payload=records("0", "1"))
    shared = batch(2, count=3, epoch=4, payload=records("2", "3", "4"))
    for node, end in ((1, 5), (2, 5)):
        at = disk(tmp_path / str(node), node, records=end) / "orders-0" / f"{0:020}.log"
        tail = (
            batch(5, count=4, epoch=4, payload=records("5", "6", "7", "8"))
            if node == 1
            else batch(5, count=3, epoch=5, payload=records("x", "y", "z"))
        )
        at.write_bytes(old + shared + tail)
    return tmp_path


def past(disks: Path, dump: str = UNCLEAN, lines=(), power_lost=(), kafka="3.9.1") -> Outage:
    events = list(broker_log.parse(lines, broker=1))
    settings = Settings(kafka=kafka, properties={}, acks="all", power_lost=frozenset(power_lost))
    return outages(read_disks([disks]), dump, events, settings)["orders", 0]


def test_an_unclean_election_and_the_disk_that_still_has_the_records(disks: Path, snapshot) -> None:
    found = past(disks)
    assert (found.compared, found.undecided) == (2, ())
    assert [(one.epoch, one.leader, one.start) for one in found.terms] == [(4, 1, 2), (5, 2, 5)]
    (gone,) = found.gone
    assert (gone.offsets, gone.epoch, gone.disks) == (Offsets(5, 8), 4, (1,))
    assert gone.acks == ("1", "all")
    assert "(B4)" in gone.reason
    assert gone.reason == snapshot
    assert not gone.committed


def test_after_a_clean_election_only_acks_1_was_told_of_the_records(disks: Path, snapshot) -> None:
    (gone,) = past(disks, CLEAN).gone
    assert gone.acks == ("1",)
    assert "(B2)" in gone.reason
    assert gone.reason == snapshot
    # Unless the elected broker had lost the end of its log.
    (gone,) = past(disks, CLEAN, power_lost=[2]).gone
    assert gone.acks == ("1", "all")
    assert "(B9)" in gone.reason


def test_a_leader_that_did_not_stop_cleanly_may_have_had_more(disks: Path, snapshot) -> None:
    (gone,) = past(disks).gone
    (disks / "1" / ".kafka_cleanshutdown").touch()
    (clean,) = past(disks).gone
    assert gone.reason.removeprefix(clean.reason) == snapshot


def test_a_committed_offset_was_acked_whatever_the_election(disks: Path) -> None:
    (disks / "1" / "replication-offset-checkpoint").write_text("0\n1\norders 0 9\n")
    (gone,) = past(disks, CLEAN).gone
    assert (gone.committed, gone.acks) == (True, ("1", "all"))


def test_a_checkpoint_inside_a_range_divides_it_and_belies_the_clean_election(disks: Path) -> None:
    (disks / "1" / "replication-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    assert [(one.offsets, one.committed, one.acks) for one in past(disks, CLEAN).gone] == [
        (Offsets(5, 6), True, ("1", "all")),
        (Offsets(7, 8), False, ("1", "all")),
    ]


def test_an_unclean_election_between_that_wrote_nothing_is_not_overlooked(disks: Path) -> None:
    # Broker 2 is elected uncleanly in epoch 5, of which nothing is left, and cleanly in epoch 6.
    segment = disks / "2" / "orders-0" / f"{0:020}.log"
    later = batch(5, count=3, epoch=6, payload=records("x", "y", "z"))
    segment.write_bytes(segment.read_bytes()[: -len(later)] + later)
    found = past(disks, UNCLEAN + changed(leader=2))
    assert [(one.epoch, one.start) for one in found.terms] == [(4, 2), (5, None), (6, 5)]
    (gone,) = found.gone
    assert gone.acks == ("1", "all")


def test_a_truncation_in_a_log_line_tells_of_offsets_that_no_disk_has(
    disks: Path, snapshot
) -> None:
    segment = disks / "1" / "orders-0" / f"{0:020}.log"
    segment.write_bytes((disks / "2" / "orders-0" / f"{0:020}.log").read_bytes())
    silent = past(disks)
    assert silent.gone == ()
    assert "\n".join(silent.undecided) == snapshot
    found = past(disks, lines=LINES)
    (cut,) = found.truncations
    assert (cut.broker, cut.end, cut.to, cut.epoch) == (1, 9, 5, 4)
    (gone,) = found.gone
    assert (gone.offsets, gone.epoch, gone.disks) == (Offsets(5, 8), 4, ())
    assert gone.reason == snapshot


def test_without_disks_the_lines_of_all_brokers_tell_what_was_truncated() -> None:
    led = [
        "[2026-11-25 02:00:08,000] INFO [Broker] Leader orders-0 with topic id Some(a) starts at "
        "leader epoch 5 from offset 5 with partition epoch 3, high watermark 3, ISR [2], adding "
        "replicas [] and removing replicas [] . (state.change)"
    ]
    events = [*broker_log.parse(LINES, broker=1), *broker_log.parse(led, broker=2)]
    settings = Settings(kafka="3.9.1", properties={}, acks="all")
    found = outages({}, UNCLEAN, events, settings)["orders", 0]
    assert found.compared is None
    assert [(one.offsets, one.epoch, one.acks) for one in found.gone] == [
        (Offsets(5, 8), 4, ("1", "all"))
    ]


def led(broker: int, epoch: int, at: int, start: int, *, before: int = 0) -> list[str]:
    """Return the line of a broker that leads from a second on. before: its own epoch before."""
    own = f"Previous leader Some({broker}) and previous leader epoch was {before}. " * bool(before)
    return [
        f"[2026-11-25 02:00:{at:02},000] INFO [Broker {broker}] Leader orders-0 with topic id "
        f"Some(a) starts at leader epoch {epoch} from offset {start} with partition epoch 3, high "
        f"watermark 3, ISR [{broker}], adding replicas [] and removing replicas [] . {own}"
        "(state.change)"
    ]


def cut(at: int, to: int, *, below: int = 0) -> list[str]:
    warning = (
        f"[2026-11-25 02:00:{at:02},000] WARN [UnifiedLog partition=orders-0, dir=/d] Truncating "
        f"orders-0 to offset {to} below high watermark {below} (kafka.log.UnifiedLog)"
    )
    truncated = (
        f"[2026-11-25 02:00:{at:02},000] INFO [UnifiedLog partition=orders-0, dir=/d] "
        f"Truncating to offset {to} (kafka.log.UnifiedLog)"
    )
    return [*([warning] if below else []), truncated]


def later(at: int, record: str) -> str:
    """Return a record of the metadata log at a second of the lines."""
    moment = datetime(2026, 11, 25, 2, 0, at, tzinfo=UTC)
    head = f"baseOffset: {at} lastOffset: {at} count: 1 CreateTime: {moment.timestamp() * 1e3:.0f}"
    return f"{head} size: 1\n{record}"


def following(at: int, epoch: int, leader: int, end: int) -> list[str]:
    return [
        f"[2026-11-25 02:00:{at:02},000] INFO [Broker] Follower orders-0 starts at leader epoch "
        f"{epoch} from offset {end} with partition epoch 3 and high watermark 3. Current leader is "
        f"{leader}. (state.change)"
    ]


def test_a_broker_that_truncates_below_its_high_watermark_had_them_committed() -> None:
    """`Truncating … below high watermark` (WARN); without it nothing says that they were acked."""
    for below, committed in ((0, False), (9, True)):
        lines = [*LINES[:2], *cut(10, 5, below=below)]
        events = [
            *broker_log.parse(lines, broker=1),
            *broker_log.parse(led(2, 5, 8, 5), broker=2),
        ]
        settings = Settings(kafka="4.4.0", properties={}, acks="all")
        [gone] = outages({}, CLEAN, events, settings)["orders", 0].gone
        assert (gone.offsets, gone.committed) == (Offsets(5, 8), committed)
        assert gone.acks == (("1", "all") if committed else ("1",))


@pytest.mark.parametrize("told", [True, False], ids=["its own line", "no line of its own"])
def test_what_a_former_leader_truncates_is_of_the_epochs_that_it_had(told: bool) -> None:
    """Broker 2 leads in epoch 5 from offset 6, 1 in epoch 6 from 8, and 2 uncleanly from 5."""
    dump = (
        DUMP.replace('"isr": [1]', '"isr": [1, 2]')
        + later(4, changed(leader=2))
        + later(7, changed(leader=1, isr=[1]))
        + later(11, changed(leader=2, isr=[2]))
    )
    own = [
        *led(1, 4, 1, 2),
        *following(5, 5, 2, 6),
        *(led(1, 6, 8, 8) if told else []),
        *following(12, 7, 2, 12),
        *cut(13, 5),
    ]
    other = [*led(2, 5, 5, 6), *led(2, 7, 11, 5)]
    events = [*broker_log.parse(own, broker=1), *broker_log.parse(other, broker=2)]
    settings = Settings(kafka="4.4.0", properties={}, acks="all")
    found = outages({}, dump, events, settings)["orders", 0].gone
    assert [(one.epoch, one.offsets) for one in found] == (
        [(4, Offsets(5, 5)), (5, Offsets(6, 7)), (6, Offsets(8, 11))]
        if told
        else [(4, Offsets(5, 5)), (6, Offsets(6, 11))]
    )


def test_a_leader_that_names_itself_as_the_previous_one_has_missed_an_epoch() -> None:
    """Broker 1 led in epochs 4 and 6, 3 truncated in epoch 5, and is elected in epoch 7 (B56)."""
    dump = (
        DUMP.replace('"isr": [1]', '"isr": [1, 2, 3]').replace(
            '"replicas": [1, 2]', '"replicas": [1, 2, 3]'
        )
        + later(4, changed(leader=2))
        + later(7, changed(leader=1, isr=[1, 3]))
        + later(11, changed(leader=3, isr=[3]))
    )
    for missed in (True, False):
        events = [
            *broker_log.parse(
                [*led(1, 4, 1, 2), *led(1, 6, 8, 9, before=4 if missed else 5)], broker=1
            ),
            *broker_log.parse(led(2, 5, 5, 5), broker=2),
            *broker_log.parse(
                [
                    *following(2, 4, 1, 9),
                    *following(6, 5, 2, 9),
                    *cut(6, 5),
                    *led(3, 7, 12, 5),
                ],
                broker=3,
            ),
        ]
        settings = Settings(kafka="4.4.0", properties={}, acks="all")
        reasons = [one.reason for one in outages({}, dump, events, settings)["orders", 0].gone]
        assert ("B56" in "".join(reasons)) is missed, reasons


def test_a_leader_that_is_not_elected_cleanly_may_lack_what_acks_all_was_told_of(disks) -> None:
    # The last known leader, which another broker follows: no case of the catalogue fits.
    last = changed(leader=-1, isr=[], lastKnownElr=[2])
    last += changed(leader=2, isr=[2], lastKnownElr=[])
    (gone,) = past(disks, DUMP + last, kafka="4.3.1").gone
    assert gone.acks == ("1", "all")


def test_a_clean_change_of_the_leader_without_its_disk_or_log_is_silent(disks: Path) -> None:
    segment = disks / "1" / "orders-0" / f"{0:020}.log"
    segment.write_bytes((disks / "2" / "orders-0" / f"{0:020}.log").read_bytes())
    assert past(disks, CLEAN).silent == (5,)
    # A log line of the former leader would tell of a truncation.
    last = LINES[1].replace("offset 9", "offset 5")
    events_known = [line.replace("2026-11-25", "2026-11-26") for line in (LINES[0], last)]
    assert past(disks, CLEAN, events_known).silent == ()


def test_logs_that_agree_lost_nothing(disks: Path) -> None:
    segment = disks / "1" / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-1])  # a torn batch
    found = past(disks, CLEAN)
    assert (found.gone, found.undecided) == ((), ())


def test_without_the_leaders_disk_another_replica_is_compared_and_it_is_said(
    disks: Path, snapshot
) -> None:
    nodes = {1: read_disks([disks])[1]}
    settings = Settings(kafka="3.9.1", properties={}, acks="all")
    found = outages(nodes, UNCLEAN + changed(isr=[2, 1]), [], settings)["orders", 0]
    assert found.compared == 1
    assert "\n".join(found.undecided) == snapshot
    found = outages(nodes, UNCLEAN, [], settings)["orders", 0]
    assert found.compared is None
    assert "\n".join(found.undecided) == snapshot


def acked(path: Path, *sends: tuple[int, str]) -> Path:
    lines = [
        {
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "key": "k",
            "digest": hashlib.sha256(value.encode()).hexdigest(),
        }
        for offset, value in sends
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_an_acked_log_names_exactly_the_records_that_are_gone(disks: Path, tmp_path: Path) -> None:
    # Offset 5 was acked twice: the record of epoch 4 is gone, that of epoch 5 is there.
    log = acked(tmp_path / "acked.jsonl", (1, "1"), (5, "5"), (5, "x"), (8, "8"), (9, "lost"))
    found = look_up([log], {("orders", 0): past(disks)}, read_disks([disks]))
    assert (found.acked, found.present) == (5, 2)
    assert [(one.send.offset, one.disks, one.certain) for one in found.missing] == [
        (5, (1,), True),
        (8, (1,), True),
        (9, (), True),
    ]


def test_a_bundle_decides_by_offsets_only(disks: Path, tmp_path: Path) -> None:
    log = acked(tmp_path / "acked.jsonl", (1, "1"), (5, "5"), (5, "x"), (9, "lost"))
    write(document(Evidence(nodes=dict(read_disks([disks])))), tmp_path / "bundle")
    nodes = read_evidence([tmp_path / "bundle"]).nodes
    found = look_up([log], {("orders", 0): past(disks)}, nodes)
    assert [(one.send.offset, one.certain) for one in found.missing] == [
        (5, False),
        (5, False),
        (9, True),
    ]


def run(*words: object) -> tuple[int, str]:
    done = invoked("advise", *words)
    return done.exit_code, done.stdout


def test_the_commands_name_the_records_and_copy_them(disks: Path, tmp_path, snapshot) -> None:
    dump, page, out = (tmp_path / name for name in ("metadata.dump", "page.html", "gone.jsonl"))
    dump.write_text(UNCLEAN)
    log = acked(tmp_path / "acked.jsonl", (5, "5"), (6, "y"))
    words = ("outage", disks, "--kafka", "3.9.1", "--metadata-dump", dump)
    code, text = run(*words, "--acked", log, "--html", page)
    assert code == 1
    assert plain(text, FOLDER=tmp_path) == snapshot
    assert "--offsets 5-8" in page.read_text()
    assert "<script" not in page.read_text()
    parsed = json.loads(run(*words, "--json")[1])
    assert parsed["partitions"][0]["gone"][0]["on_disk_of"] == [1]
    place = ("--broker", 1, "--topic", "orders", "--partition", 0)
    code, text = run("extract", disks, *place, "--offsets", "5-99", "--to", out)
    assert code == 0
    assert "4 records" in text
    assert plain(text, FOLDER=tmp_path) == snapshot
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["offset"], base64.b64decode(one["value"])) for one in lines] == [
        (offset, str(offset).encode()) for offset in range(5, 9)
    ]


def test_an_acked_log_does_not_clear_partitions_that_it_does_not_name(disks, tmp_path) -> None:
    dump = tmp_path / "metadata.dump"
    dump.write_text(UNCLEAN)
    words = ("outage", disks, "--kafka", "3.9.1", "--metadata-dump", dump, "--acked")
    assert run(*words, acked(tmp_path / "here", (1, "1")))[0] == 0
    elsewhere = acked(tmp_path / "elsewhere", (1, "1"))
    elsewhere.write_text(elsewhere.read_text().replace("orders", "other"))
    assert run(*words, elsewhere)[0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--broker", "3", "--offsets", "5-8"], "no disk of broker 3 with orders-0 is given"),
        (["--broker", "1", "--offsets", "8-5"], "is not FIRST-LAST"),
        (["--broker", "1", "--offsets", "x"], "is not FIRST-LAST"),
        (["--broker", "1", "--offsets", "2-3", "--to", "DUMP"], "exists"),
    ],
)
def test_a_wrong_extract_is_refused(disks: Path, tmp_path: Path, options, message) -> None:
    (tmp_path / "DUMP").touch()
    words = [word.replace("DUMP", str(tmp_path / "DUMP")) for word in options]
    with pytest.raises(ScenarioError, match=message):
        run("extract", disks, "--topic", "orders", "--partition", 0, *words)


def test_records_of_every_codec_are_read_as_they_were_sent(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(REAL.read_bytes())
    found = list(read_records(tmp_path, Offsets(0, 100)))
    assert [one.offset for one in found] == list(range(17))  # the rest are markers
    assert {(one.value or b"")[:5] for one in found[::3]} == {b"first", b"x0"}
    assert found[1].headers == (("name", b"value"), ("none", None))
    assert [one.offset for one in read_records(tmp_path, Offsets(4, 7))] == [4, 5, 6, 7]


@pytest.mark.parametrize(("attributes", "timestamp"), [(0, 1000), (8, 2000)])
def test_a_record_has_its_own_time_or_that_of_the_append(tmp_path, attributes, timestamp) -> None:
    segment = batch(0, payload=records("a"), attributes=attributes)
    (tmp_path / f"{0:020}.log").write_bytes(segment)
    (found,) = read_records(tmp_path, Offsets(0, 0))
    assert found.timestamp == timestamp


def test_a_damaged_batch_is_refused_by_its_offset(tmp_path: Path) -> None:
    content = bytearray(REAL.read_bytes())
    content[70] ^= 1
    (tmp_path / f"{0:020}.log").write_bytes(bytes(content))
    with pytest.raises(ScenarioError, match="the batch at offset 0 is damaged"):
        list(read_records(tmp_path, Offsets(0, 3)))


def test_the_screen_names_broker_0_as_compared(snapshot) -> None:
    one = Outage(
        replicas=(0, 1), leader=0, compared=0, terms=(), truncations=(), gone=(), undecided=("x",)
    )
    console = Console(record=True, width=200)
    print_outages(console, {("orders", 0): one}, None)
    assert plain(console.export_text()) == snapshot


AGAIN = (
    UNCLEAN
    + payload("REMOVE_TOPIC_RECORD", topicId="a")
    + "baseOffset: 20 lastOffset: 22 count: 2 CreateTime: 1795572005000 size: 1\n"
    + created("b", "orders", isr=[2], leader=2)
)


def test_a_log_of_an_earlier_topic_of_this_name_is_not_compared(disks: Path, snapshot) -> None:
    (disks / "1" / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: a\n")
    (disks / "2" / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: b\n")
    found = past(disks, AGAIN, LINES[:1])
    assert found.gone == ()
    assert "\n".join(found.undecided) == snapshot
    (disks / "1" / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: b\n")
    assert past(disks, AGAIN).gone


def test_lines_of_an_earlier_topic_of_this_name_are_not_read(disks: Path) -> None:
    assert past(disks, UNCLEAN, LINES).truncations
    assert past(disks, AGAIN, LINES[:1]).truncations == ()
    late = [line.replace("02:00:10", "02:00:03") for line in LINES[2:]]
    assert past(disks, AGAIN, late).truncations == ()


def test_lines_before_a_state_from_a_snapshot_count(disks: Path) -> None:
    """Its topic and leader epoch began earlier, at a time that is not known."""
    later = UNCLEAN.replace("CreateTime: 1 ", "CreateTime: 1795600000000 ")
    assert [one.to for one in past(disks, later, LINES).truncations] == [5]
    of_snapshot = DUMP.replace("CreateTime: 1 ", "CreateTime: 1795600000000 ") + changed(isr=[1])
    events = list(broker_log.parse(LINES[:1], broker=1))
    assert clocks.of_log_lines(metadata_log.parse(of_snapshot), events) == []
    new = metadata_log.parse(of_snapshot.replace('"partitionEpoch": 2', '"partitionEpoch": 0'))
    assert clocks.of_log_lines(new, events)


@pytest.mark.parametrize(
    ("shift_s", "words"),
    [
        (0, ""),
        (20, ""),
        (-60, "60 s behind"),
        (7200, "7,200 s ahead of"),
        (-7200, "7,200 s behind"),
    ],
)
def test_another_clock_or_time_zone_of_a_log_is_reported(shift_s: int, words: str) -> None:
    begins = UNCLEAN.replace('"partitionEpoch": 2', '"partitionEpoch": 0')
    log = metadata_log.parse(begins.replace("CreateTime: 1 ", "CreateTime: 1764036000000 "))
    (event,) = broker_log.parse(LINES[:1], broker=1)
    at = datetime.fromtimestamp(1764036000 + shift_s, tz=UTC)
    found = clocks.of_log_lines(log, [replace(event, at=at)])
    assert found == [] if not words else words in found[0]
