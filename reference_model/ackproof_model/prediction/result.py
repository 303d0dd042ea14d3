"""The result of a prediction: also audits need it, which search no schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from ackproof_model.configuration import Configuration


class Likelihood(StrEnum):
    """Whether an anomaly can occur, or must."""

    IMPOSSIBLE = "impossible"
    POSSIBLE = "possible"
    CERTAIN = "certain"


class Ability(StrEnum):
    CAN = "can"
    CANNOT = "cannot"
    EITHER = "either"


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """A part of the schedule, in words, and whether clients can read, and write with acks=all.

    begun: how many faults have begun. healed: the numbers of those that were healed, from 1.
    Reading needs a leader that clients reach; acks=all also min.insync.replicas, and an ISR whose
    members all fetch.
    """

    part: str
    begun: int
    healed: tuple[int, ...]
    readable: Ability
    writable: Ability


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One step: an arrow from one participant to another, or marks at participants, by index.

    `at` is the number of the step, or a time.
    """

    at: str
    text: str
    arrow: tuple[int, int] | None = None
    marks: tuple[int, ...] = ()
    kind: Literal["step", "fault", "loss"] = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Lines in order of time over participants from left to right."""

    participants: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The anomalies that a configuration and a schedule allow.

    likelihood, reasons: by anomaly (`ANOMALIES`).
    trace: the shortest trace to a loss, one sentence for each step; empty if there is none.
    diagram: the same as a sequence diagram; None if there is none.
    at_risk: when records are sent that may be acked and lost.
    error_codes: errors that a producer may receive; the list may be incomplete.
    availability: for each part of the schedule whether the partition can be read and written.
    method: how the answer was found, and what that leaves out.
    states: how many states were searched.
    complete: False if the budget of states ran out; then no searched anomaly is called impossible
        or certain.
    """

    likelihood: Mapping[str, Likelihood]
    trace: tuple[str, ...]
    diagram: Diagram | None
    at_risk: tuple[str, ...]
    error_codes: tuple[str, ...]
    reasons: Mapping[str, str]
    method: str
    states: int
    complete: bool
    availability: tuple[Availability, ...] = ()


def inconsistent(
    configuration: Configuration, likelihood: Mapping[str, Likelihood]
) -> tuple[Likelihood, str]:
    """Return whether an acked offset may end up without its record.

    Logs with the same leader epoch at an offset are equal up to there (log matching, KIP-101), so
    an offset gets another record only after its own was removed. With acks=all this implies that a
    record without another copy is lost.
    """
    if configuration.acks == "0":
        return Likelihood.IMPOSSIBLE, "with acks=0 no offset is acked"
    nothing_lost = likelihood["lost"] is Likelihood.IMPOSSIBLE
    single = likelihood["duplicated"] is Likelihood.IMPOSSIBLE
    matching = configuration.profile.fetch_fencing  # before 2.1 logs may differ below the offset
    if nothing_lost and (single or (configuration.acks == "all" and matching)):
        return Likelihood.IMPOSSIBLE, "no acked record is removed, so each keeps its offset"
    return Likelihood.POSSIBLE, (
        "an acked record may be removed; its offset may be given to another record, or another "
        "copy of it may remain at another offset"
    )
