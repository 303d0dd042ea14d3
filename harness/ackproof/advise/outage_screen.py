"""A past outage in words, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from rich.console import Console

from ackproof.advise.acked import Lookup
from ackproof.advise.outage import Gone, Outage
from ackproof.advise.screen import moment, partitions, sent
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.forensics.sentences import how

#: Partitions and sends that are listed.
_MOST = 8
#: The color of each tone in the terminal.
_STYLES = {"lost": "red", "unclear": "yellow", "": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A title, and lines, each with its tone: lost, unclear or none."""

    title: str
    tone: str = ""
    lines: tuple[tuple[str, str], ...] = ()


def print_outages(
    console: Console, past: Mapping[TopicPartition, Outage], lookup: Lookup | None
) -> None:
    for at, section in enumerate(sections(past, lookup)):
        lines = [(section.title, _STYLES[section.tone] or ("bold" if at else ""))]
        lines += [(f"  {text}", _STYLES[tone]) for text, tone in section.lines]
        for text, style in lines:
            console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def sections(past: Mapping[TopicPartition, Outage], lookup: Lookup | None) -> Iterator[Section]:
    """Yield the summary, and the past of partitions that lost offsets or that are in doubt."""
    silent = sum(bool(one.silent) for one in past.values())
    concerned = {place: one for place, one in past.items() if one.gone or one.undecided}
    acked = sum(gone.offsets.count for one in past.values() for gone in one.gone if gone.acks)
    losing = [place for place, one in past.items() if any(gone.acks for gone in one.gone)]
    if acked:
        of = partitions(len(losing), len(past))
        yield Section(title=f"{acked:,} acknowledged offsets of {of} may be gone.", tone="lost")
    else:
        yield Section(
            title=f"No acknowledged offset of {partitions(len(past), len(past))} is known to be "
            "gone."
        )
    for place, one in list(concerned.items())[:_MOST]:
        against = ""
        if one.compared is not None:
            against = f"; compared with the log of broker {one.compared}"
        yield Section(
            title=f"{place[0]}-{place[1]}: replicas {list(one.replicas)}{against}",
            lines=(
                *((line, "") for _, line in sorted((*_terms(one), *_cuts(one)))),
                *(line for gone in one.gone for line in _gone(place, gone)),
                *((f"unknown: {line}", "unclear") for line in one.undecided),
            ),
        )
    if len(concerned) > _MOST:
        yield Section(title=f"and {len(concerned) - _MOST} more partitions; --json has all")
    if silent:
        yield Section(
            title=f"unknown: {partitions(silent, len(past))} changed "
            f"{'its' if silent == 1 else 'their'} leader cleanly, and "
            "neither the former leader's disk nor its log (--log) tells whether it had more "
            "records, acknowledged with acks=1",
            tone="unclear",
        )
    if lookup:
        yield _of_lookup(lookup)


def _terms(one: Outage) -> Iterator[tuple[datetime, str]]:
    for term in one.terms:
        start = "" if term.start is None else f", its log ended at {term.start:,}"
        yield (
            term.elected_at,
            f"{moment(term.elected_at)} broker {term.leader} elected {how(term.election)} in epoch "
            f"{term.epoch}{start}; ISR {list(term.changes[0][1])}",
        )
        for (_, before), (at, isr) in pairwise(term.changes):
            if isr != before:
                yield at, f"{moment(at)} ISR {list(isr)}"


def _cuts(one: Outage) -> Iterator[tuple[datetime, str]]:
    for cut in one.truncations:
        end = "" if cut.end is None else f" from {cut.end:,}"
        yield cut.at, f"{moment(cut.at)} broker {cut.broker} truncated its log{end} to {cut.to:,}"


def _gone(place: TopicPartition, gone: Gone) -> Iterator[tuple[str, str]]:
    acks = " and ".join(f"acks={one}" for one in gone.acks)
    may = f"acknowledged to producers with {acks}" if acks else "not acknowledged, as far as known"
    sure = ", committed" if gone.committed else ""
    times = f", {sent(*gone.times)}" if gone.times else ""
    yield (
        f"gone: offsets {gone.offsets} of epoch {gone.epoch} ({may}{sure}){times}: {gone.reason}",
        "lost" if gone.acks else "",
    )
    if not gone.disks:
        yield "  no given disk has them", ""
        return
    yield (
        f"  on the disk of broker {', '.join(map(str, gone.disks))}: ackproof advise extract "
        f"FOLDERS --broker {gone.disks[0]} --topic {place[0]} --partition {place[1]} "
        f"--offsets {gone.offsets.first}-{gone.offsets.last}",
        "",
    )


def _of_lookup(lookup: Lookup) -> Section:
    gone = sum(one.certain for one in lookup.missing)
    doubtful = len(lookup.missing) - gone
    counts = {
        f"{lookup.present:,} are in the log": True,
        f"{gone:,} are gone": gone,
        f"{doubtful:,} may be gone": doubtful,
        f"{lookup.removed:,} are below the log's start (retention)": lookup.removed,
        f"{lookup.without_offset:,} have no offset": lookup.without_offset,
        f"{sum(lookup.undecided.values()):,} cannot be judged": lookup.undecided,
    }
    parts = ", ".join(text for text, count in counts.items() if count)
    lines = [(str(one), "") for one in lookup.missing[:_MOST]]
    if len(lookup.missing) > _MOST:
        lines.append((f"and {len(lookup.missing) - _MOST:,} more; --json has all", ""))
    return Section(
        title=f"Of {lookup.acked:,} acked sends {parts}.",
        tone="lost" if gone else "",
        lines=tuple(lines),
    )
