"""The lock of a record expires while its consumer works, and another one gets it."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.audit.share_groups import of_shares, shares
from ackproof.audit.words import period

_LOCK = "group.share.record.lock.duration.ms"
_LONGEST = "group.share.max.record.lock.duration.ms"

KIND = Kind(
    title="a consumer of a share group works for longer than a lock lasts",
    subject=Subject.CONSUMERS,
    texts={
        Effect.REPROCESSED: Text(
            case="B40",
            text="a consumer that works on the records of a poll for longer than {lock} loses them "
            "to another one, and both process them",
            at_risk="records of long polls",
            trace=(
                "A consumer gets records, and works on them for longer than {lock}.",
                "Their locks expire, and another consumer gets and processes them.",
                "The first one's acknowledgement is refused (INVALID_RECORD_STATE).",
            ),
        )
    },
    removed_by={_LOCK: "longer than any poll takes to process"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    if not shares(setup):
        return
    lock, longest = of_shares(setup, _LOCK), of_shares(setup, _LONGEST)
    lasts = period(int(lock.value)) if lock.value.isdecimal() else lock.value
    cost = "records of a consumer that ends are free only after that time"
    longer = [decision(_LOCK, lock, longest.value, cost)] if lock.value != longest.value else []
    when = {"a poll is processed": f"in more than {lasts}"}
    yield KIND.risk(setup, (), lock=lasts, when=when, decided_by=longer)
