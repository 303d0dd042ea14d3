"""What became of a send, told from its delivery report.

Only a report without error says `acked`. `failed` means *certainly not written*, and `unknown`
everything else. librdkafka keeps that very distinction (`rd_kafka_message_status`), but the
Python client does not hand it on, so it has to be told from the error code.

A code speaks of the **last** attempt only, and librdkafka resends by itself. The history that
makes NOT_ENOUGH_REPLICAS uncertain, with acks=all and min.insync.replicas=2::

    producer  sends r to leader 0                   (first attempt)
    leader 0  appends r; follower 1 fetches it; the answer is lost with the connection
    broker 1  becomes leader, alone in the ISR
    producer  sends r to leader 1                   (second attempt, librdkafka's own)
    leader 1  refuses before appending: NOT_ENOUGH_REPLICAS, final

r was refused, and r is in the log. Nor does `retries=0` help: librdkafka does not count as
retries what it sends again after NOT_LEADER_OR_FOLLOWER (which a leader deposed after its
append answers, KAFKA-13574) or after the broker left the metadata while a request was in flight
(`_DESTROY_BROKER`; `rd_kafka_handle_Produce_error` in librdkafka 2.16). MSG_SIZE_TOO_LARGE is no
better: a resend may be batched with more records than the attempt that was written.

What does help is time. Every resend waits for `retry.backoff.ms`, less at most 20 % jitter, so
a report that comes sooner after the send is about its **sole attempt**, and what that attempt
was refused for is final. Hence two arguments: the code, and whether a second attempt can be
excluded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from ackproof_spark.tables import Outcome

#: librdkafka's defaults, milliseconds.
RETRY_BACKOFF_MS = 100
RETRY_BACKOFF_MAX_MS = 1000

#: The largest share by which librdkafka's jitter shortens a backoff
#: (`RD_KAFKA_RETRY_JITTER_PERCENT`).
_JITTER = 0.2


class Says(StrEnum):
    """What an error code says about writing.

    `REFUSED_ALWAYS`: no attempt of this producer can have been written.
    `REFUSED`: the last attempt was not written.
    `UNDECIDED`: the last attempt may have been written.
    """

    REFUSED_ALWAYS = "refused always"
    REFUSED = "refused"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one error code says, and why."""

    says: Says
    reason: str


def _always(reason: str) -> Rule:
    return Rule(says=Says.REFUSED_ALWAYS, reason=reason)


def _refused(reason: str) -> Rule:
    return Rule(says=Says.REFUSED, reason=reason)


def _undecided(reason: str) -> Rule:
    return Rule(says=Says.UNDECIDED, reason=reason)


#: By the name confluent-kafka gives the code (`KafkaError.name()`): Kafka's own are positive,
#: those with a leading underscore are librdkafka's. Codes that are not here are undecided.
RULES: Mapping[str, Rule] = {
    # Said by the broker, before it appends.
    "INVALID_REQUIRED_ACKS": _always(
        "every broker refuses every request with these acks, and acks never change"
    ),
    "NOT_ENOUGH_REPLICAS": _refused("the leader checks min.insync.replicas before it appends"),
    "MSG_SIZE_TOO_LARGE": _refused("the batch is larger than max.message.bytes; none of it stays"),
    "RECORD_LIST_TOO_LARGE": _refused("the batch is larger than a segment; none of it stays"),
    "INVALID_MSG": _refused("the batch's checksum does not match, found before the append"),
    "INVALID_RECORD": _refused("a record of the batch is invalid, found before the append"),
    "INVALID_TIMESTAMP": _refused("a timestamp of the batch is out of range; none of it stays"),
    "TOPIC_EXCEPTION": _refused("the topic is internal or its name invalid; nobody appends to it"),
    "TOPIC_AUTHORIZATION_FAILED": _refused("authorization comes before the append"),
    "CLUSTER_AUTHORIZATION_FAILED": _refused("authorization comes before the append"),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _refused("authorization comes before the append"),
    "UNSUPPORTED_VERSION": _refused("the broker cannot read the request"),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _refused("the topic's record format is too old for it"),
    "UNSUPPORTED_COMPRESSION_TYPE": _refused("the broker cannot read the batch"),
    "INVALID_PRODUCER_EPOCH": _refused("a newer instance of the producer is known: fenced"),
    "PRODUCER_FENCED": _refused("a newer instance of the producer is known: fenced"),
    "UNKNOWN_PRODUCER_ID": _refused("the producer's state is gone, found before the append"),
    "INVALID_PRODUCER_ID_MAPPING": _refused("the producer id is not this transactional id's"),
    "INVALID_TXN_STATE": _refused("no transaction is open, found before the append"),
    # Said by the broker, possibly after it appended.
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": _undecided("appended; the ISR shrank below the minimum"),
    "REQUEST_TIMED_OUT": _undecided("appended; not replicated within request.timeout.ms"),
    "NOT_LEADER_FOR_PARTITION": _undecided(
        "NOT_LEADER_OR_FOLLOWER: also what a leader deposed after its append says (KAFKA-13574)"
    ),
    "UNKNOWN_TOPIC_OR_PART": _undecided(
        "also said for a partition that left the broker after the append"
    ),
    "KAFKA_STORAGE_ERROR": _undecided("the log directory failed, before or after the append"),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": _undecided(
        "a batch is missing before this one; an earlier attempt may be in the log"
    ),
    "DUPLICATE_SEQUENCE_NUMBER": _undecided("an earlier attempt is in the log, at unknown offset"),
    "NETWORK_EXCEPTION": _undecided("the connection broke before the answer"),
    "UNKNOWN": _undecided("the broker does not say what went wrong, nor when"),
    # Said by the client.
    "_PURGE_QUEUE": _refused("purged before it was sent, or while it waited to be sent again"),
    "_UNKNOWN_TOPIC": _refused("the topic is gone; not sent, or waited to be sent again"),
    "_UNKNOWN_PARTITION": _refused("the partition is gone; not sent, or waited to be sent again"),
    "_INVALID_DIFFERENT_RECORD": _refused("another record of the batch is invalid; none stays"),
    "_PURGE_INFLIGHT": _undecided("purged while the request was on its way"),
    "_MSG_TIMED_OUT": _undecided("delivery.timeout.ms passed, in the queue or on its way"),
    "_TIMED_OUT": _undecided("no answer within the time allowed"),
    "_TIMED_OUT_QUEUE": _undecided("timed out in the queue, maybe after an earlier attempt"),
    "_TRANSPORT": _undecided("the connection broke; the request may have arrived"),
    "_SSL": _undecided("the connection broke; the request may have arrived"),
    "_DESTROY_BROKER": _undecided("the broker left the metadata with the request on its way"),
    "_DESTROY": _undecided("the client was closed with the send under way"),
    "_FATAL": _undecided("the client stopped for good; an attempt may be on its way"),
    "_FENCED": _undecided("the client stopped for good; an attempt may be on its way"),
    "_GAPLESS_GUARANTEE": _undecided("the client stopped for good; an attempt may be on its way"),
}


@cache
def error_name(code: int) -> str:
    """Return the name of a Kafka or librdkafka error code, e.g. `_MSG_TIMED_OUT` for -192."""
    from confluent_kafka import KafkaError

    return str(KafkaError(code).name())


def earliest_resend_s(settings: Mapping[str, Any]) -> float:
    """Return the seconds after a send within which librdkafka cannot have sent it twice.

    `settings` are the producer's, by librdkafka's names. Every resend passes through
    `rd_kafka_retry_msgq`, which sets the backoff, whether it counts as a retry or not.
    """
    backoff = min(
        float(settings.get("retry.backoff.ms", RETRY_BACKOFF_MS)),
        float(settings.get("retry.backoff.max.ms", RETRY_BACKOFF_MAX_MS)),
    )
    return backoff * (1 - _JITTER) / 1000


def classify(error: Any, *, sole_attempt: bool) -> Outcome:
    """Return what became of a send.

    `error` is the delivery report's: a `KafkaError`, its code, or None. `sole_attempt` says that
    no earlier attempt of this send can have left the client (see `earliest_resend_s`); False
    where that is not known. A code that is not in `RULES` is `unknown`.
    """
    if error is None:
        return Outcome.ACKED
    rule = RULES.get(error_name(error if isinstance(error, int) else error.code()))
    if rule is None:
        return Outcome.UNKNOWN
    if rule.says is Says.REFUSED_ALWAYS or (rule.says is Says.REFUSED and sole_attempt):
        return Outcome.FAILED
    return Outcome.UNKNOWN


def document() -> str:
    """Return `docs/outcomes.md`: the table above, for people."""
    from confluent_kafka import KafkaError

    outcome = {
        Says.REFUSED_ALWAYS: ("failed", "failed"),
        Says.REFUSED: ("failed", "unknown"),
        Says.UNDECIDED: ("unknown", "unknown"),
    }
    rows = [
        f"| `{name}` | {getattr(KafkaError, name)} | {sole} | {later} | {rule.reason} |"
        for name, rule in RULES.items()
        for sole, later in [outcome[rule.says]]
    ]
    return _PAGE.format(table="\n".join(rows))


_PAGE = """\
# What became of a send

Every send has one of three outcomes: `acked` (a delivery report without error), `failed`
(certainly not written) and `unknown` (may or may not be written). Only an acked record can be
lost; an unknown one may be in the final log or not, and neither is an anomaly.

An error code speaks of the last attempt, and librdkafka resends by itself, with `retries=0` too
(after NOT_LEADER_OR_FOLLOWER, and after the broker left the metadata). So a refusal is certain
only for a *sole attempt*: the report came sooner than the earliest resend, which is 80 % of
`retry.backoff.ms` (100 ms by default) after the send. Later than that, an earlier attempt may
have been written, and the outcome is unknown.

A record that `produce()` itself refuses never enters the client: `failed`, with the code of the
refusal. A full local queue is no outcome: the same record is offered again. A send whose
producer dies, or gives up waiting, before the delivery report is `unknown`, without a code.

| code | number | sole attempt | later | because |
|---|---|---|---|---|
| no error | | acked | acked | the leader, with acks=all the ISR, has it |
{table}
| any other | | unknown | unknown | nothing is known about it |

With `acks=0` no broker is asked: `acked` then means handed to the network, and has no offset.

This page is what `ackproof.ledger.outcome.document()` returns; a test keeps it so.
"""
