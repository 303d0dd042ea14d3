"""What a fault does, and what its healing does, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ackproof_model.replication.fault_effects import (
    ChannelCut,
    Effect,
    ElectionAsked,
    LogRemoved,
    ProcessEnds,
    ProcessStalls,
    ProcessStarts,
    QuorumLost,
    SettingChanges,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """The replicas that a fault hits, by their names."""

    text: str
    several: bool

    def __str__(self) -> str:
        return self.text

    def either(self, of_one: str, of_several: str) -> str:
        """Return the words that agree with the number of replicas."""
        return of_several if self.several else of_one


def action(effect: Effect, who: Who) -> str:
    """Return the sentence that tells of an effect on `who`."""
    return _ACTIONS[type(effect)](effect, who)


def undone(effect: Effect, who: Who) -> str:
    """Return the sentence that tells of an effect's healing, '' if there is nothing to heal."""
    match effect:
        case ProcessEnds():
            text = _started(who)
        case ProcessStalls():
            text = f"{who} {who.either('continues', 'continue')}."
        case ChannelCut(channel="replication", fetches="from"):
            text = f"The other brokers can fetch from {who} again."
        case ChannelCut(channel="replication"):
            text = f"{who} and the other brokers can fetch from each other again."
        case ChannelCut(channel=channel):
            text = f"{_whose(effect, who, 'reaches', 'reach')} {channel} again."
        case SettingChanges():
            text = "The topic's settings are as before."
        case QuorumLost():
            text = "The controllers have a majority again."
        case _:
            text = ""
    return text


def _started(who: Who) -> str:
    return f"{who} {who.either('is', 'are')} started again."


def _ended(effect: ProcessEnds, who: Who) -> str:
    if effect.controlled:
        return f"{who} {who.either('shuts', 'shut')} down (SIGTERM)."
    killed = f"{who} {who.either('is', 'are')} killed (SIGKILL)"
    kept = who.either("it appended stays in its log", "they appended stays in their logs")
    power = who.either(
        "loses power, and the end of the log that was not fsynced",
        "lose power, and the ends of the logs that were not fsynced",
    )
    return {
        "all": f"{killed}: what {kept}.",
        "prefix": f"{who} {power}.",
        "nothing": f"{killed}, and {who.either('loses its log', 'lose their logs')}.",
    }[effect.log]


def _cut(effect: ChannelCut, who: Who) -> str:
    if effect.channel == "replication":
        them = who.either("it", "them")
        return {
            "from": f"replication from {who} is cut: the other brokers cannot fetch from {them}; "
            f"producers and the controller still reach {them}.",
            "by": f"replication to {who} is cut: {who.either('it', 'they')} cannot fetch from the "
            "other brokers.",
            "both": f"replication between {who} and the other brokers is cut.",
        }[effect.fetches]
    if effect.channel == "controllers":
        return f"{_whose(effect, who, 'is', 'are')} cut off from the controllers."
    one, several = {
        "both": ("is cut off from clients", "are cut off from clients"),
        "to": ("no longer receives requests of clients", "no longer receive requests of clients"),
        "from": (
            "receives requests of clients, but its responses are lost",
            "receive requests of clients, but their responses are lost",
        ),
    }[effect.packets]
    return f"{_whose(effect, who, one, several)}."


def _whose(effect: ChannelCut, who: Who, of_one: str, of_several: str) -> str:
    """Return the brokers that a channel is cut of, with the verb that agrees with them."""
    if effect.at == "targets":
        return f"{who} {who.either(of_one, of_several)}"
    return f"every broker but {who} {of_one}"


def _changed(effect: SettingChanges, who: Who) -> str:
    unclean = effect.unclean_leader_election
    settings = {
        "min.insync.replicas": effect.min_insync_replicas,
        "unclean.leader.election.enable": None if unclean is None else str(unclean).lower(),
    }
    changed = [f"{key}={value}" for key, value in settings.items() if value is not None]
    return f"the topic's settings change: {', '.join(changed)}."


_ACTIONS: dict[type[Effect], Callable[[Any, Who], str]] = {
    ProcessEnds: _ended,
    ProcessStarts: lambda effect, who: _started(who),
    ProcessStalls: lambda effect, who: (
        f"{who} {who.either('stands still; its', 'stand still; their')} connections stay open."
    ),
    ChannelCut: _cut,
    LogRemoved: lambda effect, who: (
        f"the {who.either('log', 'logs')} of {who} {who.either('is', 'are')} deleted."
    ),
    SettingChanges: _changed,
    ElectionAsked: lambda effect, who: (
        f"an operator asks for {'an unclean' if effect.kind == 'unclean' else 'the preferred'} "
        "election."
    ),
    QuorumLost: lambda effect, who: "the controllers lose their majority.",
}
