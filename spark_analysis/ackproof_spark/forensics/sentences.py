"""The sentence of a cause: the acking leader, the fault, the next leader, and the truncation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import Formatter

from ackproof_spark.forensics.cases import Circumstances, Fault
from ackproof_spark.forensics.terms import Election

_HOW = {
    Election.FIRST: "with the topic",
    Election.CLEAN: "from the ISR",
    Election.ELIGIBLE: "as an eligible leader replica",
    Election.LAST_KNOWN: "as the last known leader",
    Election.UNCLEAN: "uncleanly",
}


def how(election: Election) -> str:
    """Return in words how a leader was elected."""
    return _HOW[election]


def decisive(circumstances: Circumstances) -> Fault | None:
    """Return the latest fault that stopped or damaged the acking leader; else the latest fault."""
    faults = sorted(circumstances.faults, key=lambda fault: (fault.injected_at, fault.window))
    if circumstances.acked is not None:
        own = [fault for fault in faults if circumstances.acked.leader in fault.nodes]
        ended = [fault for fault in own if fault.kind.past_tense]
        faults = ended or own or faults
    return faults[-1] if faults else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A broker's truncation. below: its high watermark, if the broker warned that it is lower."""

    broker: int
    to: int
    at: datetime
    below: int | None = None


def cause(c: Circumstances, headline: str, cut: Cut | None) -> str:
    """Return the cause of a loss as one phrase; `headline`: see `cases.classify`."""
    text, names_fault = _headline(c, headline)
    return "; ".join([text, *_facts(c, cut, named=decisive(c) if names_fault else None)])


def _headline(c: Circumstances, template: str) -> tuple[str, bool]:
    """Return the headline, and whether it names the decisive fault."""
    fields = {
        "acks": f"acks={c.settings.acks}",
        "leader": _leader(c),
        "struck": _struck(c),
        "isr": _set(c.isr),
    }
    used = {name for _, name, _, _ in Formatter().parse(template)}
    return template.format(**fields), "struck" in used


def _leader(c: Circumstances) -> str:
    return f"leader {c.acked.leader}" if c.acked else "the leader"


def _struck(c: Circumstances) -> str:
    leader, fault = _leader(c), decisive(c)
    if fault is None:
        return f"{leader} lost leadership with no fault of this run in force"
    if c.acked is not None and c.acked.leader in fault.nodes and fault.kind.past_tense:
        return f"{leader} {fault.kind.past_tense} ({fault.fault}, fault {fault.window + 1})"
    return f"{leader} lost leadership during {_named(fault)}"


def _named(fault: Fault) -> str:
    hit = fault.hit or (_brokers(fault.nodes) if fault.nodes else "")
    of = f" of {hit}" if hit else ""
    return f"{fault.fault}{of} (fault {fault.window + 1})"


def _facts(c: Circumstances, cut: Cut | None, *, named: Fault | None) -> list[str]:
    facts = []
    if c.hung:
        facts.append(
            "the log kept them without the COMMIT marker of their transaction, which hung until "
            "ackproof aborted it"
        )
    others = [fault for fault in c.faults if fault is not named]
    if others:
        # Records acked between two faults are in one group with those before and after.
        when = "meanwhile" if c.timely else "acked before or after"
        facts.append(f"{when} {_listing(map(_named, others))}")
    if c.next is not None:
        where = "" if c.next.start is None else f", its log ending at {c.next.start}"
        where += ", with records of an older epoch at these offsets" if c.older else ""
        facts.append(
            f"broker {c.next.leader} was elected {_HOW[c.next.election]} in epoch {c.next.epoch} "
            f"at {_clock(c.next.elected_at)}{where}"
        )
    if cut is not None:
        warned = f", below its high watermark {cut.below}" if cut.below is not None else ""
        facts.append(f"broker {cut.broker} truncated to {cut.to} at {_clock(cut.at)}{warned}")
    if c.held_by:
        facts.append(f"{_brokers(c.held_by)} still {_verb(c.held_by)} a batch there")
    return facts


def counted(
    count: int, topic: str, partition: int, offsets: tuple[int, int] | None, phrase: str
) -> str:
    """Return a cause with its losses: `481 records of orders-0 (offsets 1200-1680): …`."""
    records = f"{count:,} record{'s' if count != 1 else ''} of {topic}-{partition}"
    if offsets is not None:
        low, high = offsets
        records += f" (offset {low})" if low == high else f" (offsets {low}-{high})"
    return f"{records}: {phrase}"


def _clock(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def _set(brokers: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, sorted(brokers))) + "}"


def _brokers(nodes: Sequence[int]) -> str:
    return ("broker " if len(nodes) == 1 else "brokers ") + _listing(map(str, nodes))


def _verb(nodes: Sequence[int]) -> str:
    return "holds" if len(nodes) == 1 else "hold"


def _listing(items: Iterable[str]) -> str:
    *head, last = items
    return f"{', '.join(head)} and {last}" if head else last
