"""Sentences about the effects of faults and their healing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ackproof_model.effects import Configures, Cuts, Effect, Elects, Ends, QuorumLost, Stalls


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
    """Return the sentence about an effect on `who`."""
    return _ACTIONS[type(effect)](effect, who)


def undone(effect: Effect, who: Who) -> str:
    """Return the sentence about an effect's healing, '' if there is nothing to heal."""
    match effect:
        case Ends():
            text = f"{who} {who.either('is', 'are')} started again."
        case Stalls():
            text = f"{who} {who.either('continues', 'continue')}."
        case Cuts(channels=("replication",), served=True):
            text = f"The other brokers can fetch from {who} again."
        case Cuts(channels=("replication",)):
            text = f"{who} and the other brokers can fetch from each other again."
        case Cuts(channels=(channel,)):
            text = f"{_whose(effect, who, 'reaches', 'reach')} {channel} again."
        case Configures():
            text = "The topic's settings are as before."
        case QuorumLost():
            text = "The controllers have a majority again."
        case _:
            text = ""
    return text


def _ended(effect: Ends, who: Who) -> str:
    if effect.clean:
        return f"{who} {who.either('shuts', 'shut')} down (SIGTERM)."
    killed = f"{who} {who.either('is', 'are')} killed (SIGKILL)"
    appended = who.either("it appended stays in its log", "they appended stays in their logs")
    power = who.either(
        "loses power, and the end of the log that was not fsynced",
        "lose power, and the ends of the logs that were not fsynced",
    )
    return {
        "kept": f"{killed}: what {appended}.",
        "prefix": f"{who} {power}.",
        "empty": f"{killed}, and {who.either('loses its log', 'lose their logs')}.",
    }[effect.log]


def _cut(effect: Cuts, who: Who) -> str:
    if effect.channels == ("replication",):
        if not effect.served:
            return f"replication between {who} and the other brokers is cut."
        them = who.either("it", "them")
        return (
            f"replication from {who} is cut: the other brokers cannot fetch from {them}; "
            f"producers and the controller still reach {them}."
        )
    if effect.channels == ("controllers",):
        return f"{_whose(effect, who, 'is', 'are')} cut off from the controllers."
    one, several = {
        "both": ("is cut off from clients", "are cut off from clients"),
        "from_peers": (
            "no longer receives requests of clients",
            "no longer receive requests of clients",
        ),
        "to_peers": (
            "receives requests of clients, but its responses are lost",
            "receive requests of clients, but their responses are lost",
        ),
    }[effect.direction]
    return f"{_whose(effect, who, one, several)}."


def _whose(effect: Cuts, who: Who, of_one: str, of_several: str) -> str:
    """Return the brokers whose channel is cut, with the verb that agrees with them."""
    if effect.nodes == "targets":
        return f"{who} {who.either(of_one, of_several)}"
    return f"every broker but {who} {of_one}"


_ACTIONS: dict[type[Effect], Callable[[Any, Who], str]] = {
    Ends: _ended,
    Stalls: lambda effect, who: (
        f"{who} {who.either('stands still; its', 'stand still; their')} connections stay open."
    ),
    Cuts: _cut,
    Configures: lambda effect, who: (
        f"the topic's settings change: {effect.key}={effect.value.lower()}."
    ),
    Elects: lambda effect, who: (
        f"an operator asks for {'an unclean' if effect.unclean else 'the preferred'} election."
    ),
    QuorumLost: lambda effect, who: "the controllers lose their majority.",
}
