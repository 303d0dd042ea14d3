"""Records of an application, which have no header of ackproof's.

They are identified by the record's id (a header), the digest of its value, or its key, whichever
the acked log has (`tables.IDENTITIES`). A record of the final log gets the name of a send

1. if that send was acked at its offset, and has its identity;
2. else, if only one send of the topic has its identity.

Several acks may name one offset, because a client reports the first offset of a batch, a line was
logged twice, or the offset was given out again after a loss. The record there is that of the first
send with its identity. If several sends have
one identity, a record that is at none of their acked offsets may belong to any of them::

    send 1  acked at orders-0 offset 4, key a       the record at 4 has key a: it is send 1's
    send 2  acked at orders-0 offset 6, key a       the record at 6 has key b, and
                                                    the record at 9 has key a: send 2's? 3's?
    send 3  unknown, key a                          -> send 2 is undecidable
    send 4  acked at orders-0 offset 7, key c       no record has key c: lost
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ackproof_spark.reading.run_tables import PLACE, StoredRun
from ackproof_spark.record import ID_HEADER
from ackproof_spark.spark.functions import Column, DataFrame, F, Window
from ackproof_spark.spark.small_data import from_rows
from ackproof_spark.tables import SCHEMA_VERSION, Outcome, RecordState, columns

#: The parts of an identity, in the order of a kind's name.
PARTS = ("id", "digest", "key")

_IDENTITY = ["kind", "identity"]
_NAME = ["producer", "sequence"]
_READ = ["consumer", "poll", "number"]
_HEAD_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class Application:
    """The sends of an application, and how its records are recognized.

    `ledger` and `identities` are its tables; `kinds` are the kinds of identity in use; `header` is
    the name of the header with a record's id.
    """

    ledger: DataFrame
    identities: DataFrame
    kinds: tuple[str, ...]
    header: str = ID_HEADER

    @classmethod
    def of(cls, run: StoredRun, *, header: str = ID_HEADER) -> Application:
        identities = run["identities"]
        kinds = sorted(row["kind"] for row in identities.select("kind").distinct().collect())
        return cls(
            ledger=run["ledger"],
            identities=identities,
            kinds=tuple(kinds) or PARTS[:1],
            header=header,
        )

    @property
    def sends(self) -> DataFrame:
        return self.ledger.select(*_NAME, "topic", "partition", "outcome", "offset").join(
            self.identities.select(*_NAME, *_IDENTITY), _NAME
        )


def kind_of(parts: Iterable[str]) -> str:
    """Return the kind of an identity with these `PARTS`."""
    given = set(parts)
    return "+".join(part for part in PARTS if part in given)


def named(records: DataFrame, application: Application, *, run_id: str) -> DataFrame:
    """Return raw records (with key and headers) as `tables.FINAL_LOG`, with the names of sends."""
    seen = _with_senders(_with_identities(records, application), application)
    if len(application.kinds) > 1:
        columns = ("timestamp", "size", "head", "at_offset", "sole")
        seen = seen.groupBy(*PLACE).agg(*(F.min(column).alias(column) for column in columns))
    sender = F.coalesce("at_offset", "sole")
    return seen.select(
        F.lit(SCHEMA_VERSION).alias("schema_version"),
        F.lit(run_id).alias("run_id"),
        *PLACE,
        F.col("timestamp").alias("written_at"),
        F.when(sender.isNotNull(), RecordState.INTACT).otherwise(RecordState.OTHER).alias("state"),
        sender["producer"].alias("producer"),
        sender["sequence"].alias("sequence"),
        "size",
        F.when(sender.isNull(), F.col("head")).alias("head"),
    )


def name_reads(run: StoredRun, keep: Callable[[DataFrame], DataFrame]) -> None:
    """Give the records that consumers read or acquired the names of an application's sends.

    A record is recognized as in the final log. An effect has the name of the last record that its
    consumer had read at its offset by then: after a truncation another one stands there. `keep`
    caches the rows.
    """
    names = keep(_names_of_reads(run, Application.of(run)))
    for table in ("reads", "acquisitions", "acknowledgements"):
        if run.has(table):
            run.put(table, keep(run[table].drop(*_NAME).join(names, _READ, "left")))
    at_place = ["consumer", *PLACE]
    in_order = Window.partitionBy(*at_place).orderBy("read_at", "poll", "number")
    read = _read_at(run).join(names, _READ, "left")
    spans = read.select(
        *at_place,
        *_NAME,
        F.when(F.row_number().over(in_order) > 1, F.col("read_at")).alias("since"),
        F.lead("read_at").over(in_order).alias("until"),
    ).alias("spans")
    effects = run["effects"].drop(*_NAME).alias("effects")
    at, since, until = F.col("processed_at"), F.col("since"), F.col("until")
    same = [F.col(f"effects.{name}") == F.col(f"spans.{name}") for name in at_place]
    meanwhile = (since.isNull() | (at >= since)) & (until.isNull() | (at < until))
    named = effects.join(spans, [*same, meanwhile], "left").select("effects.*", *_NAME)
    run.put("effects", keep(named))


def unnamed_deliveries(run: StoredRun, application: Application, log: DataFrame) -> str:
    """Return a sentence on acquired records without a name where `log` has a send's, or ''.

    A delivery log has named them by something else than the acked log, or another record stood
    there. `log` is the stored `named(records)`.
    """
    if not run.has("acquisitions"):
        return ""
    names = _names_of_reads(run, application).where(F.col("producer").isNotNull())
    in_log = log.where(F.col("state") == RecordState.INTACT).select(*PLACE)
    unnamed = run["acquisitions"].join(names, _READ, "left_anti").join(in_log, PLACE, "left_semi")
    first = F.min(F.struct("consumer", "read_at", *PLACE)).alias("first")
    (row,) = unnamed.agg(F.count("*").alias("count"), first).collect()
    if not row["count"]:
        return ""
    parts = " or ".join(kind.replace("+", " and ") for kind in application.kinds)
    first = row["first"]
    return (
        f"{row['count']:,} deliveries of share groups are not checked, as their lines do not have "
        f"the {parts} by which the acked log names the record there: the first is that of "
        f"{first.topic}-{first.partition} offset {first.offset} to consumer {first.consumer}; "
        f"write {parts} of the record into its line `acquired`"
    )


def _read_at(run: StoredRun) -> DataFrame:
    """Return when which records were read or acquired."""
    columns = [*_READ, *PLACE, "read_at"]
    return run["reads"].select(*columns).unionByName(run["acquisitions"].select(*columns))


def _names_of_reads(run: StoredRun, application: Application) -> DataFrame:
    """Return the producer and sequence of each read, null if it is not recognized."""
    parts = _read_at(run).join(run["read_identities"].drop("group"), _READ)
    identities = _of_kinds(application, {part: F.col(part) for part in PARTS})
    seen = parts.select(*_READ, *PLACE, F.explode(identities).alias("of_kind")).select(
        *_READ, *PLACE, "of_kind.kind", "of_kind.identity"
    )
    return (
        _with_senders(seen, application)
        .groupBy(*_READ)
        .agg(F.coalesce(F.min("at_offset"), F.min("sole")).alias("name"))
        .select(*_READ, "name.producer", "name.sequence")
    )


def _with_senders(seen: DataFrame, application: Application) -> DataFrame:
    """Add the names of the send acked `at_offset` and of the `sole` send, null if there is none."""
    name = F.min(F.struct(*_NAME))
    acked = application.sends.where(F.col("outcome") == Outcome.ACKED)
    at_offset = acked.groupBy(*PLACE, *_IDENTITY).agg(name.alias("at_offset"))
    sole = (
        application.sends.groupBy("topic", *_IDENTITY)
        .agg(F.count("*").alias("sends"), F.min("partition").alias("to"), name.alias("sole"))
        .where("sends = 1 and to >= 0")  # a send without an ack may have no partition
        .drop("sends", "to")
    )
    return seen.join(at_offset, [*PLACE, *_IDENTITY], "left").join(
        sole, ["topic", *_IDENTITY], "left"
    )


def shared_offsets(application: Application, log: DataFrame) -> str:
    """Return a sentence on offsets that several acks name and that say nothing, or ''.

    `log` is the stored `named(records)`. An offset says nothing if one of its acks has its record
    elsewhere, or if two of them have the same identity. Otherwise each send has its record at the
    offset or none at all, as after a loss, when the offset is given out again.
    """
    found = log.where(F.col("state") == RecordState.INTACT).select(
        "topic", "partition", *_NAME, F.col("offset").alias("found")
    )
    acked = application.sends.where(F.col("outcome") == Outcome.ACKED)
    shared = acked.join(_acked_at(acked, *PLACE).select(*PLACE), PLACE, "left_semi")
    elsewhere = (
        shared.join(found, ["topic", "partition", *_NAME])
        .where(F.col("found") != F.col("offset"))
        .select(*PLACE)
    )
    doubtful = elsewhere.union(_twice(acked).select(*PLACE)).distinct()
    named_there = _acked_at(application.ledger, *PLACE).join(doubtful, PLACE, "left_semi")
    (row,) = named_there.agg(F.sum("acks"), F.min(F.struct(*PLACE))).collect()
    acks, first = row
    if first is None:
        return ""
    return (
        f"which ack is right where several name one offset ({acks:,} acks, the first at "
        f"{first.topic}-{first.partition} offset {first.offset}): the log holds one record there, "
        "so the other sends are lost, stand elsewhere or were logged twice"
    )


def undecidable(
    records: DataFrame,
    log: DataFrame,
    application: Application,
    *,
    ends: Mapping[tuple[str, int], int],
    proven_ends: bool,
    run_id: str,
) -> DataFrame:
    """Return the acked sends that have no record and may not be lost: `tables.UNDECIDABLE`.

    `log` is the stored `named(records)`. `ends` has the end offset of each partition;
    `proven_ends`: a record acked with acks=all was at each end. Otherwise an acked record may be at
    or after the high watermark.
    """
    rows = [(*partition, end) for partition, end in ends.items()]
    end_offsets = from_rows(
        log.sparkSession, rows, columns("topic string, partition int, end_offset bigint")
    )
    others = log.where(F.col("state") == RecordState.OTHER).select(*PLACE)
    loose = (
        _with_identities(records, application)
        .join(others, PLACE, "left_semi")
        .select("topic", "partition", *_IDENTITY)
        .distinct()
        .withColumn("shared", F.lit(True))
    )
    found = log.where(F.col("state") == RecordState.INTACT).select("topic", "partition", *_NAME)
    absent = (
        application.sends.where(F.col("outcome") == Outcome.ACKED)
        .join(found, ["topic", "partition", *_NAME], "left_anti")
        .join(loose, ["topic", "partition", *_IDENTITY], "left")
        .join(_twice(application.sends), [*PLACE, *_IDENTITY], "left")
        .join(end_offsets, ["topic", "partition"])
        .join(_counts(application.ledger), ["topic", "partition"])
    )
    offset, end = F.col("offset"), F.col("end_offset")
    reason = (
        F.when(
            F.col("shared").isNotNull(),
            F.lit("a record of the partition may be this one, or that of another send"),
        )
        .when(
            F.struct(*_NAME) != F.col("first"),  # the record at the offset is the first send's
            F.format_string(
                "%s acks name this offset and this identity: it is lost, or was logged twice",
                F.col("twice"),
            ),
        )
        .when(
            offset >= end + F.col("sends"),
            F.format_string("offset %s never existed: the log ends at %s", offset, end),
        )
        .when(
            F.lit(not proven_ends) & (offset.isNull() | (offset >= end)),
            F.format_string("the log may go on after its high watermark, %s", end),
        )
    )
    return (
        absent.withColumn("reason", reason)
        .where(F.col("reason").isNotNull())
        .select(
            F.lit(SCHEMA_VERSION).alias("schema_version"),
            F.lit(run_id).alias("run_id"),
            *("topic", "partition", *_NAME, "reason"),
        )
    )


def _with_identities(records: DataFrame, application: Application) -> DataFrame:
    """Return one row for each record and kind; `identity` is null if the record lacks a part."""
    hashes = {
        "id": F.sha2(_header(application.header), 256),
        "digest": F.sha2(F.coalesce("value", F.lit(b"")), 256),
        "key": F.sha2("key", 256),
    }
    stored = (
        F.coalesce(F.length("value"), F.lit(0)).alias("size"),
        F.hex(F.substring("value", 1, _HEAD_SIZE)).alias("head"),
    )
    return records.select(
        *PLACE, "timestamp", *stored, F.explode(_of_kinds(application, hashes)).alias("of_kind")
    ).select(*PLACE, "timestamp", "size", "head", "of_kind.kind", "of_kind.identity")


def _of_kinds(application: Application, hashes: Mapping[str, Column]) -> Column:
    """Return an array with the kinds of identity in use, each with the record's identity."""
    return F.array(
        *(
            F.struct(
                F.lit(kind).alias("kind"),
                F.concat(*(hashes[part] for part in kind.split("+"))).alias("identity"),
            )
            for kind in application.kinds
        )
    )


def _header(name: str) -> Column:
    """Return the value of a record's first header of this name, null if there is none."""
    matching = F.filter("headers", lambda header: header["key"] == F.lit(name))
    return F.get(matching, F.lit(0))["value"]


def _twice(sends: DataFrame) -> DataFrame:
    """Return the offsets at which several sends with the same identity were acked."""
    return _acked_at(sends, *PLACE, *_IDENTITY).withColumnRenamed("acks", "twice")


def _acked_at(sends: DataFrame, *columns: str) -> DataFrame:
    """Return the number and the first name of the acked sends of a group, if it has several."""
    return (
        sends.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull())
        .groupBy(*columns)
        .agg(F.count("*").alias("acks"), F.min(F.struct(*_NAME)).alias("first"))
        .where("acks > 1")
    )


def _counts(ledger: DataFrame) -> DataFrame:
    return ledger.groupBy("topic", "partition").agg(F.count("*").alias("sends"))
