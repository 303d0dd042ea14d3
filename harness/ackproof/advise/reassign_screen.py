"""Whether replicas may be moved, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ackproof.advise.reassigning import Harm, Judged
from ackproof.advise.screen import partitions

#: Partitions that are named.
_MOST = 12


def print_reassign(console: Console, judged: Sequence[Judged], *, cancels: bool) -> None:
    """Print whether to make the request, each partition that speaks against it, and an order."""
    what = "cancelled" if cancels else "moved"
    harmed = [one for one in judged if one.harms]
    total = len(judged)
    if not harmed:
        console.print(
            f"{partitions(total, total).capitalize()} may be {what}: nothing is lost, and writes "
            "go on meanwhile.",
            style="green",
        )
    else:
        console.print(
            f"{partitions(len(harmed), total).capitalize()} should not be {what} now.", style="red"
        )
    for one in harmed[:_MOST]:
        console.print(f"  {_partition(one)}", highlight=False, markup=False)
        for effect in one.effects:
            console.print(f"    {effect}.", highlight=False, markup=False)
    if len(harmed) > _MOST:
        console.print(f"  and {len(harmed) - _MOST} more; --json has all")
    for line in _order(judged):
        console.print(line, highlight=False, markup=False)
    if any(Harm.ALONE in one.assumed for one in judged):
        console.print(
            "For producers with acks=1, if there are any: a leader that is moved away takes with "
            "it what no follower has fetched. Name the producers' acks with --acks, or their files "
            "with --config.",
            style="yellow",
        )
    console.print(
        "Answers are for the present state; a replica that falls behind or a broker that ends "
        "meanwhile may change them: ask again before each batch.",
        style="yellow",
    )


def _partition(one: Judged) -> str:
    now = one.now
    target = "cancelled" if one.target is None else f"to {list(one.target)}"
    parts = [f"replicas {list(now.replicas)}", f"ISR {list(now.isr)}"]
    parts += [f"eligible {list(now.elr)}"] if now.elr else []
    parts += [f"adding {list(now.adding)}"] if now.adding else []
    parts += [f"removing {list(now.removing)}"] if now.removing else []
    return f"{_name(one)} ({', '.join(parts)}) {target}:"


def _order(judged: Sequence[Judged]) -> list[str]:
    """Return the order of the moves, if some may be made now and others later."""
    first = [one for one in judged if not one.harms]
    later = [one for one in judged if one.later]
    if not later:
        return []
    lines = [f"First: {_names(first)}."] if first else []
    behind = [one for one in later if set(one.now.isr) < set(one.now.replicas)]
    if behind:
        lines.append(f"Once every replica is in the ISR (and Elr is empty): {_names(behind)}.")
    if rest := [one for one in later if one not in behind]:
        lines.append(f"Once the reason above is gone: {_names(rest)}.")
    return lines


def _names(some: Sequence[Judged]) -> str:
    more = f" and {len(some) - _MOST} more" if len(some) > _MOST else ""
    return ", ".join(map(_name, some[:_MOST])) + more


def _name(one: Judged) -> str:
    return f"{one.place[0]}-{one.place[1]}"
