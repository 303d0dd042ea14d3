"""What a fault does, and what its healing does, in words."""

from __future__ import annotations

from collections.abc import Callable
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


def action(effect: Effect, who: str) -> str:
    """Return the sentence that tells of an effect on `who`."""
    return _ACTIONS[type(effect)](effect, who)


def undone(effect: Effect, who: str) -> str:
    """Return the sentence that tells of an effect's healing, '' if there is nothing to heal."""
    match effect:
        case ProcessEnds():
            text = f"{who} is started again."
        case ProcessStalls():
            text = f"{who} continues."
        case ChannelCut(channel="replication", fetches="from"):
            text = f"The other brokers can fetch from {who} again."
        case ChannelCut(channel="replication"):
            text = f"{who} and the other brokers can fetch from each other again."
        case ChannelCut(channel=channel):
            text = f"{_whose(effect, who)} reaches {channel} again."
        case SettingChanges():
            text = "The topic's settings are as before."
        case QuorumLost():
            text = "The controllers have a majority again."
        case _:
            text = ""
    return text


def _ended(effect: ProcessEnds, who: str) -> str:
    if effect.controlled:
        return f"{who} shuts down (SIGTERM)."
    return {
        "all": f"{who} is killed (SIGKILL): what it appended stays in its log.",
        "prefix": f"{who} loses power, and the end of the log that was not fsynced.",
        "nothing": f"{who} is killed (SIGKILL), and loses its log.",
    }[effect.log]


def _cut(effect: ChannelCut, who: str) -> str:
    if effect.channel == "replication":
        return {
            "from": f"replication from {who} is cut: the other brokers cannot fetch from it; "
            "producers and the controller still reach it.",
            "by": f"replication to {who} is cut: it cannot fetch from the other brokers.",
            "both": f"replication between {who} and the other brokers is cut.",
        }[effect.fetches]
    whose = _whose(effect, who)
    if effect.channel == "controllers":
        return f"{whose} is cut off from the controllers."
    lost = {
        "both": "is cut off from clients.",
        "to": "no longer receives requests of clients.",
        "from": "receives requests of clients, but its responses are lost.",
    }
    return f"{whose} {lost[effect.packets]}"


def _whose(effect: ChannelCut, who: str) -> str:
    return who if effect.at == "targets" else f"every broker but {who}"


def _changed(effect: SettingChanges, who: str) -> str:
    unclean = effect.unclean_leader_election
    settings = {
        "min.insync.replicas": effect.min_insync_replicas,
        "unclean.leader.election.enable": None if unclean is None else str(unclean).lower(),
    }
    changed = [f"{key}={value}" for key, value in settings.items() if value is not None]
    return f"the topic's settings change: {', '.join(changed)}."


_ACTIONS: dict[type[Effect], Callable[[Any, str], str]] = {
    ProcessEnds: _ended,
    ProcessStarts: lambda effect, who: f"{who} is started again.",
    ProcessStalls: lambda effect, who: f"{who} stands still; its connections stay open.",
    ChannelCut: _cut,
    LogRemoved: lambda effect, who: f"the log of {who} is deleted.",
    SettingChanges: _changed,
    ElectionAsked: lambda effect, who: (
        f"an operator asks for {'an unclean' if effect.kind == 'unclean' else 'the preferred'} "
        "election."
    ),
    QuorumLost: lambda effect, who: "the controllers lose their majority.",
}
