"""Stories: which leader acked each lost record, which led next, and which broker truncated it.

The ledger has offset and time of an ack, but not the broker; the terms determine it. The acking
leader is that of the latest term that was elected by the time of the ack, began at or before the
offset, and has no other record of its own there. The next term is the first later one that began
at or before the offset: its followers truncated all older epochs from there on. If there is none,
it is the first later term whose leader has a record of an epoch before the ack's at the offset:
after an unclean election the log of an older epoch may be longer.

    terms of orders-0      epoch 0, leader 1, from 0      epoch 1, leader 2, from 1141
    acked at offset 1500 while broker 1 led      -> by broker 1 in epoch 0; gone with epoch 1
    sent after epoch 1 had begun, acked at 1500, which has a record of epoch 1, or is after the end
    of the final leader's log                    -> also by broker 1: a zombie leader

A leader that has missed an epoch may ack records that it had before its term and that a follower
has truncated meanwhile. If the leader in office at the ack has missed one, and had the record when
it was elected, it acked the record in that term, and the next term is a later one.

    epoch 0, leader 3    epoch 1, leader 2, from 393    epoch 2, leader 3, from 400
    acked at offset 395 in epoch 2, and the epoch before was 0, by its leader -> by 3 in epoch 2

With acks=0 there is no offset; the leader change nearest in time to the send counts.

A committed transaction may hang: its records stand in the log, and its COMMIT marker was lost, or
the coordinator skipped it. The harness aborts the transaction after the run, so that readers can
pass. Its story is that of the marker: the leader that had it led when the commit was acked, and the
next term is the first unclean one after the commit, else the first one.

    committed at 12:02 while broker 1 led, epoch 0; broker 2 elected uncleanly at 12:06, epoch 2,
    from 1; the record at offset 0 stands on both, and no marker follows until the harness's

Times of the controller's log, the brokers' logs and the ledger are compared, so their clocks must
agree, as those of containers on one host do.
"""

from __future__ import annotations

from ackproof_spark.forensics.history import FACTS, History
from ackproof_spark.reading.run_tables import PARTITION
from ackproof_spark.spark.functions import Column, DataFrame, F
from ackproof_spark.spark.small_data import from_rows
from ackproof_spark.tables import PROBE_PRODUCERS

#: A leader change within this time of a send may have affected it, in microseconds: twice
#: broker.session.timeout.ms, for the fencing of a dead leader and for clients with old metadata.
_NEAR = 18_000_000

#: Columns that are equal for all records of one story: those that `stories_of` adds, and `isr`.
SHARED = [
    *PARTITION,
    "acked_epoch",
    "next_epoch",
    "isr",
    "zombie",
    "older",
    "standing",
    "held_by",
    "hung",
    "skipped_marker",
    "of_probe",
    "recreated",
    "truncated",
    "truncated_before",
    "timely",
    "truncation",
]

#: The column that identifies a story: a hash of the columns `SHARED`.
STORY = "story"


def stories_of(
    lost: DataFrame, occupied: DataFrame, history: History, *, transactions: DataFrame
) -> DataFrame:
    """Return `lost` (rows of `tables.ANOMALIES`) with the columns `SHARED` and `STORY`.

    occupied: topic, partition, offset of other records and markers at lost offsets. transactions:
    rows of `tables.TRANSACTIONS`. `acked_epoch` and `next_epoch` are null if unknown; `truncation`
    is the first after the send at or before the offset, by the broker that acked it, else by any
    broker. If the transaction hung, all of these are those of its COMMIT marker.
    """
    facts = F.broadcast(from_rows(lost.sparkSession, history.rows, FACTS))
    standing = occupied.distinct().withColumn("standing", F.lit(True))
    offset, hung = F.col("offset"), F.col("hung")
    sent, acked = F.unix_micros("sent_at"), F.unix_micros("committed_at")
    joined = (
        _with_commit(lost, transactions if history.hung else None)
        .join(facts, PARTITION, "left")
        .join(standing, [*PARTITION, "offset"], "left")
        .withColumn("standing", F.coalesce("standing", F.lit(False)))
        .withColumn("hung", F.coalesce(_within("hung", offset), F.lit(False)))
        .withColumn("skipped_marker", hung & _skipped(sent))
        .withColumn(
            "recreated",
            F.coalesce(F.unix_micros("resolved_at") < F.col("created_again"), F.lit(False)),
        )
        .withColumn("of_probe", F.coalesce(F.col("producer") >= PROBE_PRODUCERS, F.lit(False)))
    )
    by_offset, by_time, of_marker = _by_offset(offset, acked), _by_time(sent), _of_marker(acked)
    return (
        joined.withColumn(
            "record_term", F.when(offset.isNotNull(), by_offset).otherwise(by_time[0])
        )
        .withColumn(
            "acked_term",
            F.when(hung, of_marker[0])
            .when(_acked_late(offset, acked), _in_office(acked))
            .otherwise(F.col("record_term")),
        )
        .withColumn(
            "next_term",
            F.when(hung, of_marker[1])
            .when(offset.isNotNull(), _next_by_offset(offset))
            .otherwise(by_time[1]),
        )
        .withColumns(
            {
                "acked_epoch": F.col("acked_term.epoch"),
                "next_epoch": F.col("next_term.epoch"),
                "isr": _isr_at(acked),
                "zombie": F.coalesce(
                    offset.isNotNull() & (F.col("next_term.elected_at") < sent), F.lit(False)
                ),
                "older": F.coalesce(
                    offset.isNotNull()
                    & (F.col("next_term.start").isNull() | (F.col("next_term.start") > offset))
                    & _holds_older(F.col("next_term"), offset),
                    F.lit(False),
                ),
                "held_by": _holders(offset),
                "truncated": _truncated_by_next(offset, acked),
                "truncated_before": _truncated_before(offset, acked),
                "timely": F.col("recreated")
                | F.col("window").isNotNull()
                | F.coalesce(F.abs(F.col("next_term.elected_at") - sent) <= _NEAR, F.lit(False)),
                "truncation": F.when(hung, _truncation(None, acked)).otherwise(
                    _truncation(offset, sent)
                ),
            }
        )
        .drop("terms", "states", "stretches", "truncations", "skipped")
        .drop("committed_at", "created_again")
        .drop("record_term", "acked_term", "next_term")
        .withColumn(STORY, F.xxhash64(F.to_json(F.struct(*SHARED), {"ignoreNullFields": "false"})))
    )


def _with_commit(lost: DataFrame, transactions: DataFrame | None) -> DataFrame:
    """Add `committed_at`: the time of the commit's ack if `transactions` has it, else the ack's."""
    if transactions is None:
        return lost.withColumn("committed_at", F.col("resolved_at"))
    ends = transactions.select(
        F.col("producer").alias("of_producer"), "first_sequence", "end_sequence", "ended_at"
    )
    own = F.col("producer") == F.col("of_producer")
    among = (F.col("sequence") >= F.col("first_sequence")) & (
        F.col("sequence") < F.col("end_sequence")
    )
    return lost.join(F.broadcast(ends), own & among, "left").withColumn(
        "committed_at", F.coalesce("ended_at", "resolved_at")
    )


def _within(ranges: str, offset: Column) -> Column:
    return F.exists(ranges, lambda one: (one["low"] <= offset) & (one["high"] >= offset))


def _skipped(sent: Column) -> Column:
    """Return whether a coordinator skipped a marker of the partition after the send."""
    return F.coalesce(F.exists("skipped", lambda at: at >= sent), F.lit(False))


def _of_marker(committed: Column) -> tuple[Column, Column]:
    """Return the term in which a marker was lost, and the next one, which may have lost it."""
    later = F.filter("terms", lambda term: term["elected_at"] > committed)
    following = F.coalesce(_first(F.filter(later, lambda term: term["unclean"])), _first(later))
    before = F.filter(
        "terms", lambda term: F.coalesce(term["epoch"] < following["epoch"], F.lit(True))
    )
    return _last(before), following


def _last(array: Column) -> Column:
    return F.try_element_at(array, F.lit(-1))


def _first(array: Column) -> Column:
    return F.get(array, F.lit(0))


def _in_office(moment: Column) -> Column:
    return _last(F.filter("terms", lambda term: term["elected_at"] <= moment))


def _acked_late(offset: Column, acked: Column) -> Column:
    """Return whether the leader in office had the record before, and has missed an epoch since."""
    term = _in_office(acked)
    return F.coalesce(term["missed_since"].isNotNull() & (term["start"] > offset), F.lit(False))


def _by_offset(offset: Column, acked: Column) -> Column:
    """Return the latest term that can have acked `offset` at the time `acked`."""
    # The epoch of the record at this offset in the final leader's log.
    occupant = _first(
        F.filter("stretches", lambda s: s["leads"] & (s["low"] <= offset) & (s["high"] >= offset))
    )["epoch"]

    def possible(term: Column) -> Column:
        begun = F.coalesce(term["start"] <= offset, F.lit(True))
        # A term does not replace a record that it wrote itself.
        older = F.when(F.col("standing"), term["epoch"] < occupant).otherwise(
            term["epoch"] <= occupant
        )
        return (term["elected_at"] <= acked) & begun & F.coalesce(older, F.lit(True))

    def replaced(term: Column) -> Column:
        """Whether a later term began at or before the offset, or the final leader has a record.

        Only a later term truncates a log. So if the final leader has no record at an offset, its
        own term did not ack there: a zombie leader with a longer log did.
        """
        later = F.exists(
            "terms",
            lambda other: (
                (other["epoch"] > term["epoch"]) & F.coalesce(other["start"] <= offset, F.lit(True))
            ),
        )
        return occupant.isNotNull() | later

    return F.coalesce(
        _last(F.filter("terms", lambda term: possible(term) & replaced(term))),
        _last(F.filter("terms", possible)),
        _in_office(acked),
    )


def _next_by_offset(offset: Column) -> Column:
    """Return the first later term whose log began at or before `offset`.

    If there is none, the first whose leader has a record of an older epoch there; else a later
    term with an unknown start, preferably one after an unclean election.
    """
    acked_epoch = F.col("acked_term.epoch")
    later = F.filter("terms", lambda term: term["epoch"] > acked_epoch)
    unknown = F.filter(later, lambda term: term["start"].isNull())
    return F.coalesce(
        _first(F.filter(later, lambda term: term["start"] <= offset)),
        _first(F.filter(later, lambda term: _holds_older(term, offset))),
        _first(F.filter(unknown, lambda term: term["unclean"])),
        _first(unknown),
    )


def _holds_older(term: Column, offset: Column) -> Column:
    """Return whether a leader had a record of an epoch before the ack's at `offset` when elected.

    The segments are those of the run's end, so offsets that it truncated since do not count.
    """
    older = F.exists(
        "stretches",
        lambda s: (
            (s["broker"] == term["leader"])
            & (s["epoch"] < F.col("acked_term.epoch"))
            & (s["low"] <= offset)
            & (s["high"] >= offset)
        ),
    )
    truncated = F.exists(
        "truncations",
        lambda t: (
            (t["broker"] == term["leader"])
            & (t["at"] >= term["elected_at"])
            & (t["offset"] <= offset)
        ),
    )
    return older & ~truncated


def _by_time(sent: Column) -> tuple[Column, Column]:
    """Return the terms before and after the leader change nearest to `sent`."""
    in_office = F.filter("terms", lambda term: term["elected_at"] <= sent)
    now = _last(in_office)
    before = F.try_element_at(in_office, F.lit(-2))
    after = _first(F.filter("terms", lambda term: term["elected_at"] > sent))
    to_come = F.coalesce(after["elected_at"] - sent, F.lit(2**62))
    changed_just_now = before.isNotNull() & (sent - now["elected_at"] < to_come)
    return (
        F.when(changed_just_now, before).otherwise(now),
        F.when(changed_just_now, now).otherwise(after),
    )


def _isr_at(acked: Column) -> Column:
    """Return the ISR of the acking term at the time `acked`."""
    own = F.filter("states", lambda state: state["epoch"] == F.col("acked_term.epoch"))
    by_then = F.filter(own, lambda state: state["at"] <= acked)
    return F.coalesce(_last(by_then)["isr"], F.array().cast("array<int>"))


def _holders(offset: Column) -> Column:
    holding = F.filter(
        "stretches",
        lambda s: (
            (s["epoch"] == F.col("record_term.epoch"))
            & (s["low"] <= offset)
            & (s["high"] >= offset)
        ),
    )
    brokers = F.array_sort(F.transform(holding, lambda s: s["broker"]))
    return F.coalesce(brokers, F.array().cast("array<int>"))


def _truncated_by_next(offset: Column, acked: Column) -> Column:
    """Return whether the next leader truncated `offset` after its ack and before its election."""
    following = F.col("next_term")
    cut = F.exists(
        "truncations",
        lambda t: (
            (t["broker"] == following["leader"])
            & (t["at"] > acked)
            & (t["at"] <= following["elected_at"])
            & (t["offset"] <= offset)
        ),
    )
    return F.coalesce(cut, F.lit(False))


def _truncated_before(offset: Column, acked: Column) -> Column:
    """Return whether the next leader truncated `offset` in the epoch that the acking one missed."""
    cut = F.exists(
        "truncations",
        lambda t: (
            (t["broker"] == F.col("next_term.leader"))
            & (t["at"] >= F.col("acked_term.missed_since"))
            & (t["at"] <= acked)
            & (t["offset"] <= offset)
        ),
    )
    return F.coalesce(cut, F.lit(False))


def _truncation(offset: Column | None, since: Column) -> Column:
    at_or_before = F.lit(None) if offset is None else offset
    cut = F.filter(
        "truncations",
        lambda t: (t["at"] >= since) & F.coalesce(t["offset"] <= at_or_before, F.lit(True)),
    )
    own = F.filter(cut, lambda t: t["broker"] == F.col("acked_term.leader"))
    return F.when(F.col("next_term").isNotNull(), F.coalesce(_first(own), _first(cut)))
