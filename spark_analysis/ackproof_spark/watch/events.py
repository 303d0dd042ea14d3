"""Lines of acked logs and records, as the rows that `partition` compares; evaluated in the JVM."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof_spark.reading.application_records import PARTS
from ackproof_spark.spark.functions import Column, DataFrame, F
from ackproof_spark.tables import Outcome
from ackproof_spark.watch.partition import COLUMNS, NONE, Kind

#: The keys of an acked log that are read, and those of kafka-verifiable-producer.
_LINE = (
    "topic string, partition int, offset bigint, outcome string, id string, digest string, "
    "key string, name string, value string"
)
_SUCCESS = "producer_send_success"

#: An id that carries a sequence: `PRODUCER:17` or `PRODUCER/17`.
_SEQUENCE = r"^(.+)[:/]([0-9]{1,18})$"

#: The name of the count of lines that are no sends in a progress report: `unread`.
OBSERVED = "acked_log"


def events(raw: DataFrame, *, topics: Sequence[str], header: str) -> DataFrame:
    """Return topic, partition, kind, `partition.COLUMNS` and text, without nulls.

    `raw` has the columns of `looks.RAW`. Of a look, `COLUMNS` are its numbers, in their order.
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
    parts = {part: F.when(ack, sent[part]).when(~look, own[part]) for part in PARTS}
    bits = sum(
        (F.when(parts[part].isNotNull(), 1 << bit).otherwise(0) for bit, part in enumerate(PARTS)),
        F.lit(0),
    )
    acked = F.coalesce("sent.outcome", F.lit(Outcome.ACKED)) == Outcome.ACKED
    of_producer = F.coalesce("sent.name", F.lit(_SUCCESS)) == _SUCCESS
    usable = F.col("sent.partition").isNotNull() & (bits > 0)
    no_send = F.col("sent.topic").isNull() | (acked & of_producer & ~usable)
    observed = read.observe(
        OBSERVED,
        F.count_if(ack & no_send & (F.length(F.trim("value")) > 0)).alias("unread"),
    )
    kept = ~ack | (F.col("sent.topic").isin(*topics) & acked & of_producer & usable)
    name = F.coalesce(parts["id"], F.lit(""))
    sequence = F.regexp_extract(name, _SEQUENCE, 2)
    numbers: dict[str, Column] = {
        "offset": F.when(ack, F.greatest("sent.offset", F.lit(NONE))).otherwise(F.col("offset")),
        "again": F.col("again"),
        **{part: F.when(parts[part].isNotNull(), F.xxhash64(parts[part])) for part in PARTS},
        "parts": bits,
        "producer": F.xxhash64(F.regexp_extract(name, _SEQUENCE, 1)),
        "sequence": F.when(sequence != "", sequence).cast("bigint"),
    }
    missing = {"offset": NONE, "sequence": NONE}
    for column, of_look in zip(COLUMNS, LOOK, strict=False):
        numbers[column] = F.when(look, F.col(of_look)).otherwise(numbers[column])
    text = F.coalesce(
        *(F.concat(F.lit(f"{part} "), parts[part]) for part in ("key", "id", "digest")), F.lit("")
    )
    return observed.where(kept).select(
        F.when(ack, F.col("sent.topic")).otherwise(F.col("topic")).alias("topic"),
        F.when(ack, F.col("sent.partition")).otherwise(F.col("partition")).alias("partition"),
        F.col("kind").cast("bigint").alias("kind"),
        *(
            F.coalesce(numbers[one].cast("bigint"), F.lit(missing.get(one, 0))).alias(one)
            for one in COLUMNS
        ),
        F.when(ack, text).otherwise("").alias("text"),
    )
