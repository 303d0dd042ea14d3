"""The outcome of a send, from its delivery report.

A send without error is `acked`. `failed` means *certainly not written*; anything else is `unknown`.
librdkafka makes the same distinction (`rd_kafka_message_status`), but the Python client does not
expose it, so it is derived from the error code.

A code describes the **last** attempt only, and librdkafka resends by itself. This history makes
NOT_ENOUGH_REPLICAS uncertain, with acks=all and min.insync.replicas=2::

    producer  sends r to leader 0                   (first attempt)
    leader 0  appends r; follower 1 fetches it; the response is lost with the connection
    broker 1  becomes leader, alone in the ISR
    producer  sends r to leader 1                   (second attempt, by librdkafka)
    leader 1  refuses before appending: NOT_ENOUGH_REPLICAS, final

r was refused, and r is in the log. `retries=0` does not help: librdkafka does not count as a retry
a resend after NOT_LEADER_OR_FOLLOWER (the answer of a leader deposed after its append,
KAFKA-13574) or after the broker left the metadata while a request was in flight (`_DESTROY_BROKER`;
`rd_kafka_handle_Produce_error` in librdkafka 2.16). MSG_SIZE_TOO_LARGE has the same problem: a
resend may be batched with more records than the attempt that was written.

Every resend waits for `retry.backoff.ms`, less at most 20 % jitter. An earlier report describes the
**sole attempt**, and its refusal is final. `classify` therefore takes two arguments: the code, and
whether a second attempt can be excluded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache, partial
from typing import Any, NamedTuple

from ackproof_spark.tables import Outcome

#: librdkafka's defaults, milliseconds.
RETRY_BACKOFF_MS = 100
RETRY_BACKOFF_MAX_MS = 1000

#: librdkafka's jitter shortens a backoff by at most this share (`RD_KAFKA_RETRY_JITTER_PERCENT`).
_JITTER = 0.2


class Meaning(StrEnum):
    """What an error code means for the write.

    `REFUSED_ALWAYS`: no attempt of this producer can have been written.
    `REFUSED`: the last attempt was not written.
    `UNDECIDED`: the last attempt may have been written.
    """

    REFUSED_ALWAYS = "refused always"
    REFUSED = "refused"
    UNDECIDED = "undecided"


class Rule(NamedTuple):
    meaning: Meaning
    reason: str


_always, _refused, _undecided = (partial(Rule, meaning) for meaning in Meaning)

#: By confluent-kafka's name of the code (`KafkaError.name()`). Kafka's codes are positive; names
#: with a leading underscore are librdkafka's. A code that is not listed is undecided.
RULES: Mapping[str, Rule] = {
    # By the broker, before it appends.
    "INVALID_REQUIRED_ACKS": _always(
        "every broker refuses every request with these acks, which never change"
    ),
    "NOT_ENOUGH_REPLICAS": _refused("the leader checks min.insync.replicas before it appends"),
    "MSG_SIZE_TOO_LARGE": _refused(
        "the batch is larger than max.message.bytes; nothing is appended"
    ),
    "RECORD_LIST_TOO_LARGE": _refused("the batch is larger than a segment; nothing is appended"),
    "INVALID_MSG": _refused("the batch's checksum does not match, found before the append"),
    "INVALID_RECORD": _refused("a record of the batch is invalid, found before the append"),
    "INVALID_TIMESTAMP": _refused("a timestamp is out of range; nothing is appended"),
    "TOPIC_EXCEPTION": _refused("the topic is internal or its name is invalid"),
    "TOPIC_AUTHORIZATION_FAILED": _refused("authorization comes before the append"),
    "CLUSTER_AUTHORIZATION_FAILED": _refused("authorization comes before the append"),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _refused("authorization comes before the append"),
    "UNSUPPORTED_VERSION": _refused("the broker cannot read the request"),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _refused("the topic's record format is too old for it"),
    "UNSUPPORTED_COMPRESSION_TYPE": _refused("the broker cannot read the batch"),
    "INVALID_PRODUCER_EPOCH": _refused("a newer instance of the producer is known: fenced"),
    "PRODUCER_FENCED": _refused("a newer instance of the producer is known: fenced"),
    "UNKNOWN_PRODUCER_ID": _refused("the producer's state is gone, found before the append"),
    "INVALID_PRODUCER_ID_MAPPING": _refused("the producer id is of another transactional id"),
    "INVALID_TXN_STATE": _refused("no transaction is open, found before the append"),
    # By the broker, possibly after it has appended.
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _undecided("appended; the ISR shrank below the minimum"),
    "REQUEST_TIMED_OUT": _undecided("appended; not replicated within request.timeout.ms"),
    "NOT_LEADER_FOR_PARTITION": _undecided(
        "NOT_LEADER_OR_FOLLOWER: also the answer of a leader deposed after its append (KAFKA-13574)"
    ),
    "UNKNOWN_TOPIC_OR_PART": _undecided(
        "also the answer for a partition that left the broker after the append"
    ),
    "KAFKA_STORAGE_ERROR": _undecided("the log directory failed, before or after the append"),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": _undecided(
        "a batch is missing before this one; an earlier attempt may be in the log"
    ),
    "DUPLICATE_SEQUENCE_NUMBER": _undecided("an earlier attempt is in the log, at unknown offset"),
    "NETWORK_EXCEPTION": _undecided("the connection broke before the response"),
    "UNKNOWN": _undecided("the broker gives neither the error nor its time"),
    # By librdkafka.
    "_PURGE_QUEUE": _refused("purged before it was sent, or while it waited for a resend"),
    "_UNKNOWN_TOPIC": _refused("the topic is gone; not sent, or it waited for a resend"),
    "_UNKNOWN_PARTITION": _refused("the partition is gone; not sent, or it waited for a resend"),
    "_INVALID_DIFFERENT_RECORD": _refused("another record of its batch is invalid"),
    "_PURGE_INFLIGHT": _undecided("purged while the request was in flight"),
    "_MSG_TIMED_OUT": _undecided("delivery.timeout.ms passed, in the queue or in flight"),
    "_TIMED_OUT": _undecided("no response within the timeout"),
    "_TIMED_OUT_QUEUE": _undecided("timed out in the queue, possibly after an earlier attempt"),
    "_TRANSPORT": _undecided("the connection broke; the request may have arrived"),
    "_SSL": _undecided("the connection broke; the request may have arrived"),
    "_DESTROY_BROKER": _undecided("the broker left the metadata while the request was in flight"),
    "_DESTROY": _undecided("the client was closed while the send was in flight"),
    "_FATAL": _undecided("a fatal error of the client; an attempt may be in flight"),
    "_FENCED": _undecided("a fatal error of the client; an attempt may be in flight"),
    "_GAPLESS_GUARANTEE": _undecided("a fatal error of the client; an attempt may be in flight"),
}


@cache
def error_name(code: int) -> str:
    """Return the name of a Kafka or librdkafka error code, such as `_MSG_TIMED_OUT` for -192."""
    from confluent_kafka import KafkaError

    return str(KafkaError(code).name())


def earliest_resend_s(settings: Mapping[str, Any]) -> float:
    """Return the seconds after a send before which librdkafka cannot resend it.

    `settings` are the producer's, by librdkafka's names. `rd_kafka_retry_msgq` sets the backoff of
    every resend, whether it counts as a retry or not.
    """
    backoff = min(
        float(settings.get("retry.backoff.ms", RETRY_BACKOFF_MS)),
        float(settings.get("retry.backoff.max.ms", RETRY_BACKOFF_MAX_MS)),
    )
    return backoff * (1 - _JITTER) / 1000


def classify(error: Any, *, sole_attempt: bool) -> Outcome:
    """Return the outcome of a send.

    `error` is that of the delivery report: a `KafkaError`, its code, or None. `sole_attempt` means
    that no earlier attempt can have left the client (see `earliest_resend_s`); False if that is not
    known. A code that is not in `RULES` is `unknown`.
    """
    if error is None:
        return Outcome.ACKED
    rule = RULES.get(error_name(error if isinstance(error, int) else error.code()))
    if rule is None:
        return Outcome.UNKNOWN
    if rule.meaning is Meaning.REFUSED_ALWAYS or (rule.meaning is Meaning.REFUSED and sole_attempt):
        return Outcome.FAILED
    return Outcome.UNKNOWN
