"""Lines of acked logs and records, as the rows that `partition` compares; evaluated in the JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ackproof_spark.reading.application_records import PARTS
from ackproof_spark.spark.functions import Column, DataFrame, F
from ackproof_spark.tables import Outcome
from ackproof_spark.watch.partition import COLUMNS, NONE, Kind

if TYPE_CHECKING:
    from pyspark.sql import Observation

#: The keys of an acked log that are read, and those of kafka-verifiable-producer.
_LINE = (
    "topic string, partition int, offset bigint, outcome string, id string, digest string, "
    "key string, name string, value string"
)
_SUCCESS = "producer_send_success"

#: The sequence of an id that carries one, behind its producer: `PRODUCER:17` or `PRODUCER/17`.
_SEQUENCE = r"^.+[:/]([0-9]{1,18})$"

#: The names of the counts of lines that are no sends in a progress report, in files and in topics.
OBSERVED = ("acked_log", "acked_topics")


def events(
    raw: DataFrame, *, topics: Sequence[str], header: str, observed: str | Observation = ""
) -> DataFrame:
    """Return topic, partition, kind, `partition.COLUMNS` and text, without nulls.

    `raw` has the columns of `looks.RAW`. Of a look, `COLUMNS` are its numbers, in their order.
    If `kind` is a literal, Spark leaves out what it does not need. `observed` names the count of
    lines that are no sends.
    """
    from ackproof_spark.watch.looks import LOOK

    ack, look = F.col("kind") == int(Kind.ACK), F.col("kind") == int(Kind.LOOK)
    of_header = F.try_element_at(
        F.filter("headers", lambda each: each["key"] == header), F.lit(-1)
    )["value"]
    read = raw.withColumn("sent", F.from_json(F.when(ack, F.col("value").cast("string")), _LINE))
    sent = {name: F.col(f"sent.{name}") for name in ("id", "digest", "key")}
    sent["digest"] = F.coalesce(
        sent["digest"],
        F.when(F.col("sent.name") == _SUCCESS, F.sha2(F.coalesce("sent.value", F.lit("")), 256)),
    )
    own = {
        "id": F.when(F.size("headers") > 0, of_header.cast("string")),
        "digest": F.sha2(F.coalesce("value", F.lit(b"")), 256),
        "key": F.col("key").cast("string"),
    }
    # A step of its own: each part is used several times, and evaluated once.
    read = read.withColumns(
        {f"own_{part}": F.when(ack, sent[part]).when(~look, own[part]) for part in PARTS}
    )
    parts = {part: F.col(f"own_{part}") for part in PARTS}
    bits = sum(
        (F.when(parts[part].isNotNull(), 1 << bit).otherwise(0) for bit, part in enumerate(PARTS)),
        F.lit(0),
    )
    acked = F.coalesce("sent.outcome", F.lit(Outcome.ACKED)) == Outcome.ACKED
    of_producer = F.coalesce("sent.name", F.lit(_SUCCESS)) == _SUCCESS
    usable = F.col("sent.partition").isNotNull() & (bits > 0)
    no_send = F.col("sent.topic").isNull() | (acked & of_producer & ~usable)
    if observed:
        unread = F.count_if(ack & no_send & (F.col("value").cast("string").rlike(r"\S"))).alias(
            "unread"
        )
        read = read.observe(observed, unread)
    kept = ~ack | (F.col("sent.topic").isin(*topics) & acked & of_producer & usable)
    name = F.coalesce(parts["id"], F.lit(""))
    # One regular expression: matching it costs as much as all hashes.
    sequence = F.regexp_extract(name, _SEQUENCE, 1)
    producer = F.left(name, F.length(name) - F.length(sequence) - 1)
    numbers: dict[str, Column] = {
        "offset": F.when(ack, F.greatest("sent.offset", F.lit(NONE))).otherwise(F.col("offset")),
        "again": F.col("again"),
        **{part: F.when(parts[part].isNotNull(), F.xxhash64(parts[part])) for part in PARTS},
        "parts": bits,
        "producer": F.xxhash64(F.when(sequence != "", producer).otherwise("")),
        "sequence": F.when(sequence != "", sequence).cast("bigint"),
    }
    missing = {"offset": NONE, "sequence": NONE}
    for column, of_look in zip(COLUMNS, LOOK, strict=False):
        numbers[column] = F.when(look, F.col(of_look)).otherwise(numbers[column])
    text = F.coalesce(
        *(F.concat(F.lit(f"{part} "), parts[part]) for part in ("key", "id", "digest")), F.lit("")
    )
    return read.where(kept).select(
        F.when(ack, F.col("sent.topic")).otherwise(F.col("topic")).alias("topic"),
        F.when(ack, F.col("sent.partition")).otherwise(F.col("partition")).alias("partition"),
        F.col("kind").cast("bigint").alias("kind"),
        *(
            F.coalesce(numbers[one].cast("bigint"), F.lit(missing.get(one, 0))).alias(one)
            for one in COLUMNS
        ),
        F.when(ack, text).otherwise("").alias("text"),
    )
