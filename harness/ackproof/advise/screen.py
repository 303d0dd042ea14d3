"""Advice in the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from ackproof.advise.alternatives import Alternative, Failure, Return, groups
from ackproof.advise.dead_cluster import ClusterState
from ackproof.advise.rolling import Restarted
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Elect, MinIsr, Outcome

_TONES = {"keeps everything": "green", "may lose": "yellow", "loses": "red"}
#: Partitions, and lines of what is unknown, that are named.
_MOST = 8


def distinct(judged: Sequence[Alternative]) -> list[Alternative]:
    """Return the best alternative of each outcome, the best first."""
    seen: dict[tuple[object, ...], Alternative] = {}
    for one in judged:
        seen.setdefault((one.verdict, one.at_risk, one.certain, one.unavailable), one)
    return list(seen.values())


def print_advice(
    console: Console,
    cluster: ClusterState,
    by_acks: dict[str, list[Alternative]],
    failures: Mapping[str, list[Failure]],
) -> None:
    """Print what each step does, for producers with each of these acks, and the best steps.

    failures: one more failure during the best steps, by acks.
    """
    total = len(cluster.situations)
    for acks, judged in together(by_acks):
        console.print(f"Records acknowledged with {with_acks(acks)}:", style="bold")
        best = judged[0]
        steps = "; then ".join(map(str, best.steps)) or "nothing has to be done"
        words = _words(best, total, cluster.not_judged, counted=cluster.offsets_known)
        first = "Best: " if len(judged) > 1 else ""
        console.print(f"{first}{steps}: {words}.", style="bold", highlight=False)
        for line in group_lines(best, cluster):
            console.print(f"  {line}", highlight=False, markup=False)
        for failure in failures.get(acks[0], ()):
            _print_failure(console, failure, total)
        table = Table(box=None, pad_edge=False)
        for heading in ("steps", "acknowledged records", "offsets", "cannot be written then"):
            table.add_column(heading, overflow="fold")
        for one in distinct(judged):
            table.add_row(
                "; ".join(map(str, one.steps)) or "none",
                f"[{_TONES.get(one.verdict, 'yellow')}]{one.verdict}[/]",
                f"{one.at_risk:,}" if one.at_risk and cluster.offsets_known else "",
                f"{len(one.unavailable)} of {total}" if one.unavailable else "",
            )
        console.print(table)
        _print_commands(console, best, judged, cluster)
        console.print()
    for text, tone in notes(cluster, _MOST):
        style = "red" if tone == "lost" else "yellow"
        console.print(text, style=style, highlight=False, markup=False)


def notes(cluster: ClusterState, most: int) -> Iterator[tuple[str, str]]:
    """Yield what is already lost, assumed or unknown, each with its tone: lost or unclear.

    most: how many unknown things are listed.
    """
    for place, possible in cluster.situations.items():
        if gone := possible[-1].gone:
            text = f"{_name(place)}: offsets {gone} were committed, and are on no disk any more"
            yield text, "lost"
    if cluster.defaults:
        yield (
            f"No source states {' and '.join(cluster.defaults)} of every topic: Kafka's default "
            "is used. Name the brokers' server.properties with --server.",
            "unclear",
        )
    yield from ((f"unknown: {line}", "unclear") for line in cluster.unknown[:most])
    if len(cluster.unknown) > most:
        yield f"unknown: {len(cluster.unknown) - most} more", "unclear"


def together(
    by_acks: Mapping[str, Sequence[Alternative]],
) -> Iterator[tuple[tuple[str, ...], Sequence[Alternative]]]:
    """Yield each answer once, with the acks that have it."""
    first, *others = by_acks.items()
    if others and first[1] == others[0][1]:
        yield (first[0], others[0][0]), first[1]
    else:
        yield from (((acks,), judged) for acks, judged in by_acks.items())


def with_acks(acks: Sequence[str]) -> str:
    return " or ".join(f"acks={each}" for each in acks)


def _print_failure(console: Console, failure: Failure, total: int) -> None:
    effects = [
        f"{partitions(failure.losing, total)} may lose records" if failure.losing else "",
        f"{partitions(failure.unavailable, total)} may stay unwritable"
        if failure.unavailable
        else "",
        "" if failure.decided else "not decided",
    ]
    text = ", ".join(filter(None, effects)) or "nothing is lost, and writes return"
    console.print(f"  If one more broker {failure.what} meanwhile: {text}.", highlight=False)


def _words(alternative: Alternative, total: int, not_judged: int, *, counted: bool) -> str:
    text: str = alternative.verdict
    if not_judged and text == "keeps everything":
        text += f" of {total} of {total + not_judged} partitions"
    if alternative.at_risk and counted:
        text += f" {alternative.at_risk:,} offsets"
    if alternative.unavailable:
        text += f"; {partitions(len(alternative.unavailable), total)} cannot be written"
    return text


def group_lines(alternative: Alternative, cluster: ClusterState) -> Iterator[str]:
    """Yield a line for each group of partitions with the same outcome."""
    for places, one, back in groups(alternative):
        text = _of_partition(one, counted=cluster.offsets_known)
        if times := [at for place in places for at in cluster.spans(place, one.may_lose)]:
            text += f"; {sent(min(times), max(times))}"
        yield f"{_names(places)}: {text}{_when(back, alternative, cluster)}"


def _when(back: Return, alternative: Alternative, cluster: ClusterState) -> str:
    if back.after is None:
        return ""
    if back.after == 0:
        return "; it can be written now"
    brokers = ", ".join(map(str, back.fenced_first))
    wait = f" and broker {brokers} is fenced, up to {cluster.session} later" if brokers else ""
    return f"; writes return once '{alternative.steps[back.after - 1]}' is done{wait}"


def _of_partition(one: Outcome, *, counted: bool) -> str:
    leaders = " or ".join("none" if leader is None else str(leader) for leader in one.leaders)
    parts = [f"leader {leaders}", f"writes {one.writes}", f"reads {one.reads}"]
    if one.may_lose:
        ranges = ", ".join(map(str, one.may_lose)) if counted else "that were acknowledged"
        word = "loses" if one.loses == one.may_lose else "may lose"
        parts.append(f"{word} offsets {ranges}")
        if one.disks:
            parts.append(f"broker {', '.join(map(str, one.disks))} still has them on its disk")
    return "; ".join(parts)


def election_command(place: TopicPartition) -> str:
    topic, number = place
    return (
        "kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean "
        f"--topic {topic} --partition {number}"
    )


def settings_command(topic: str, setting: str) -> str:
    return (
        "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics "
        f"--entity-name {topic} --add-config {setting}"
    )


def _print_commands(
    console: Console,
    alternative: Alternative,
    judged: Sequence[Alternative],
    cluster: ClusterState,
) -> None:
    """Print the commands for elections, where a partition may have no leader, and for settings."""
    commands: list[str] = []
    for at, step in enumerate(alternative.steps):
        before = next((one for one in judged if one.steps == alternative.steps[:at]), None)
        if isinstance(step, Elect):
            commands += [
                election_command(place)
                for place in alternative.outcomes
                if before is None or None in before.outcomes[place].leaders
            ]
        elif isinstance(step, MinIsr):
            commands += [
                settings_command(topic, str(step))
                for topic in sorted(
                    {
                        place[0]
                        for place in (before.unavailable if before else alternative.outcomes)
                        if cluster.situations[place][0].min_insync_replicas > step.value
                    }
                )
            ]
    if commands:
        console.print("Commands, each once the steps before it are done:")
    for command in commands[:_MOST]:
        console.print(f"  {command}", highlight=False, soft_wrap=True)
    if len(commands) > _MOST:
        console.print(f"  and {len(commands) - _MOST} more, for the other topics and partitions")


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def sent(first: datetime, last: datetime) -> str:
    return f"sent about {moment(first)}" + (f" to {moment(last)}" if last > first else "")


def partitions(number: int, total: int, whose: str = "the") -> str:
    """Return `2 of the 3 partitions`, `the 3 partitions` or `the only partition`."""
    if total == 1:
        return f"{whose} only partition"
    return f"{'' if number == total else f'{number} of '}{whose} {total} partitions"


def _name(place: TopicPartition) -> str:
    return f"{place[0]}-{place[1]}"


def _names(places: Sequence[TopicPartition]) -> str:
    more = f" and {len(places) - _MOST} more" if len(places) > _MOST else ""
    return ", ".join(map(_name, places[:_MOST])) + more


def print_restart(
    console: Console,
    broker: int,
    judged: Sequence[tuple[TopicPartition, Restarted]],
    assumed: Sequence[tuple[TopicPartition, Restarted]] = (),
) -> None:
    """Print whether the broker may be restarted, and each partition that speaks against it.

    assumed: the outcomes for acks=1, if nothing states whether a producer uses it.
    """
    total = len({place for place, _ in judged})
    against = [(place, one) for place, one in judged if one.effects]
    unchanged: defaultdict[str, dict[TopicPartition, None]] = defaultdict(dict)
    for place, one in judged:
        if one.unchanged:
            unchanged[one.unchanged][place] = None
    if against:
        console.print(
            f"Broker {broker} should not be restarted now: {_reasons(against, total)}.",
            style="red",
        )
    else:
        well = total - len({place for places in unchanged.values() for place in places})
        reason = f"{partitions(well, total, 'its')} keep{'s' if well == 1 else ''} every "
        reason += "acknowledged record, and can be written meanwhile"
        if not well:
            reason = f"that does not harm {partitions(total, total, 'its')}"
        console.print(
            f"Broker {broker} may be restarted: {reason}. "
            "Only topics that the client may describe are judged.",
            style="green",
        )
    for place, one in against[:_MOST]:
        rule = "; ISR - 1 >= min.insync.replicas says it is safe" if one.rule else ""
        console.print(
            f"  {_name(place)} (ISR {list(one.isr)}, min.insync.replicas "
            f"{one.min_insync_replicas}, acks={one.acks}): {' and '.join(one.effects)}{rule}",
            highlight=False,
            markup=False,
        )
    if len(against) > _MOST:
        console.print(f"  and {len(against) - _MOST} more; --json has all")
    for what, places in unchanged.items():
        names = _names(list(places))
        console.print(f"  {what}; the restart changes nothing: {names}", style="yellow")
    if more := [(place, one) for place, one in assumed if one.effects]:
        console.print(
            f"For producers with acks=1, if there are any: {_reasons(more, total)}. Name the "
            "producers' acks with --acks, or their files with --config.",
            style="yellow",
        )


def _reasons(against: Sequence[tuple[TopicPartition, Restarted]], total: int) -> str:
    """Return what a restart does to how many of the broker's partitions, in words."""
    losing = {place for place, one in against if one.decided and one.may_lose}
    undecided = {place for place, one in against if not one.decided} - losing
    stopped = {place for place, one in against if one.stops_writes}
    unread = {place for place, one in against if one.stops_reads} - stopped
    return " and ".join(
        f"{partitions(len(places), total, 'its')} {what}"
        for places, what in (
            (losing, "may lose acknowledged records"),
            (undecided, f"{'is' if len(undecided) == 1 else 'are'} not decided"),
            (stopped, "cannot be written meanwhile"),
            (unread, "cannot be read meanwhile"),
        )
        if places
    )
