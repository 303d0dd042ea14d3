"""A trace in words: one sentence for each step, also about the effects of faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof_model.effects import Configures, Cuts, Effect, Elects, Ends, QuorumLost, Stalls
from ackproof_model.prediction.fault_schedule import Injection
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.pending import Cause
from ackproof_model.prediction.producer import is_acked
from ackproof_model.prediction.state import State
from ackproof_model.replication.state import NOBODY, Label, members, name, record_of


def _names(mask: int) -> str:
    names = [name(replica) for replica in members(mask)]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "no replica"


def _who(mask: int) -> Who:
    return Who(text=_names(mask), several=mask.bit_count() > 1)


def _set(mask: int) -> str:
    return "{" + ", ".join(name(replica) for replica in members(mask)) + "}"


def _record(record: int) -> str:
    return f"record {record + 1}"


def narrate(model: Model, steps: Sequence[tuple[Label, State, State]]) -> tuple[str, ...]:
    """Return one sentence for each step, and a last sentence about the lost acked records."""
    sentences = [_sentence(model, label, before, after) for label, before, after in steps]
    if steps:
        sentences.append(_end(model, [steps[0][1], *(after for _, _, after in steps)]))
    return tuple(sentences)


def _sentence(model: Model, label: Label, before: State, after: State) -> str:
    kind, *numbers = label
    if kind == "inject":
        fault, mask, cause = numbers
        sentence = _inject(model, fault, mask, Cause(cause))
        changed = before.controller != after.controller
        return f"{sentence} {_elected(before, after)}".rstrip() if changed else sentence
    if kind == "heal":
        return _healed(model, before, after)
    return _SENTENCES[kind](model, numbers, before, after).rstrip()


def _inject(model: Model, fault: int, mask: int, cause: Cause) -> str:
    injection = model.schedule[fault]
    when = {
        Cause.CONDITIONS: "",
        Cause.TIME: f" {injection.or_after or 0:g} s have passed:",
        Cause.ELSEWHERE: " While other partitions make progress:",
    }[cause]
    actions = " ".join(action(effect, _who(mask)) for effect in injection.effects)
    control = injection.fault == "none"
    nothing = "nothing is done (the control fault)." if control else "the partition is not touched."
    return f"Fault {fault + 1}:{when} {actions or nothing}"


def _healed(model: Model, before: State, after: State) -> str:
    faults = members(after.run.healed & ~before.run.healed)
    return " ".join(
        _heal(model.schedule[fault], before.run.targets[fault]) for fault in reversed(faults)
    )


def _heal(injection: Injection, mask: int) -> str:
    sentences = (undone(effect, _who(mask)) for effect in reversed(injection.effects))
    text = " ".join(filter(None, sentences)) or "There is nothing to heal."
    return text[0].upper() + text[1:]


_Sentence = Callable[[Model, Sequence[int], State, State], str]


def _sent(model: Model, numbers: Sequence[int], before: State, after: State) -> str:
    record = numbers[0]
    acked = " With acks=0 it counts as acked." if model.acks == "0" else ""
    if is_acked(model, after.client.status[record]) or before.client.leader != NOBODY:
        return f"The producer sends {_record(record)} to {name(before.client.leader)}.{acked}"
    return f"The producer queues {_record(record)}: it knows no leader."


def _resent(model: Model, numbers: Sequence[int], before: State, after: State) -> str:
    acked = " With acks=0 it counts as acked." if model.acks == "0" else ""
    return f"The producer sends {_record(numbers[0])} to {name(before.client.leader)}.{acked}"


def _elected(before: State, after: State, fenced: int = 0) -> str:
    """Return how leader, ISR and ELR have changed. `fenced` brokers (a bitmask) left the ISR.

    A state that omits the ISR has none of its own: after an election it follows from the state
    before, and otherwise only the leader is in the sentence.
    """
    old, new = before.controller, after.controller
    isr = f" The ISR is {_set(new.isr)}" + (f", the ELR {_set(new.elr)}." if new.elr else ".")
    if after.run.alone:
        clean = old.isr >> new.leader & 1
        known = not clean or (fenced and not before.run.alone)
        remaining = old.isr & ~fenced if clean else 1 << new.leader
        isr = f" The ISR is {_set(remaining)}." if known else ""
    if new.leader == old.leader:
        return isr.lstrip()
    if new.leader == NOBODY:
        return f"The partition has no leader.{isr}"
    if old.isr >> new.leader & 1:
        how = "from the ISR"
    elif old.elr >> new.leader & 1 or old.last_known == new.leader:
        how = "as an eligible leader replica or the last known leader (KIP-966)"
    else:
        how = "uncleanly"
    return f"{name(new.leader)} is elected {how}, leader epoch {new.epoch}.{isr}"


def _fenced(model: Model, numbers: Sequence[int], before: State, after: State) -> str:
    return f"The controller fences {name(numbers[0])}: its session has expired. " + _elected(
        before, after, 1 << numbers[0]
    )


def _rejoined(model: Model, numbers: Sequence[int], before: State, after: State) -> str:
    return (
        f"{name(numbers[0])} registers with the controller and is unfenced. "
        + _elected_if_changed(before, after)
    )


def _elected_if_changed(before: State, after: State) -> str:
    return _elected(before, after) if before.controller.leader != after.controller.leader else ""


def _log_end(state: State, numbers: Sequence[int]) -> int:
    return len(state.brokers[numbers[0]].log)


def _learned(model: Model, numbers: Sequence[int], before: State, after: State) -> str:
    number = numbers[0]
    leader = after.controller.leader
    if leader == number and before.brokers[number].leader != number:
        return f"{name(number)} learns that it leads."
    last, latest = before.brokers[number].epoch, after.controller.epoch
    if leader == number and last + 1 < latest:
        known = f"the last epoch that it knew was {last}"
        return f"{name(number)} learns that it leads in epoch {latest}; {known}."
    if leader == number:
        isr = "has changed" if after.run.alone else f"is {_set(after.controller.isr)}"
        return f"{name(number)} learns that the ISR {isr}."
    return f"{name(number)} learns that {name(leader) if leader != NOBODY else 'no broker'} leads."


def _appended(model: Model, numbers: Sequence[int], before: State, after: State) -> str:
    return f"{name(numbers[0])} appends {_record(numbers[1])} to its log."


def _refused(reason: str) -> _Sentence:
    return lambda model, numbers, before, after: (
        f"{name(numbers[0])} answers {_record(numbers[1])} with {reason}."
    )


_SENTENCES: dict[str, _Sentence] = {
    "send": _sent,
    "resend": _resent,
    "metadata": lambda m, n, b, a: f"The producer learns that {name(n[0])} leads.",
    "append": _appended,
    "duplicate": lambda m, n, b, a: (
        f"{name(n[0])} already has {_record(n[1])} and appends no second copy."
    ),
    "not leader": _refused("NOT_LEADER_OR_FOLLOWER"),
    "not enough replicas": _refused("NOT_ENOUGH_REPLICAS"),
    "not enough replicas after append": _refused("NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    "out of order": _refused("OUT_OF_ORDER_SEQUENCE_NUMBER"),
    "timeout": _refused("REQUEST_TIMED_OUT"),
    "abandon": lambda m, n, b, a: (
        f"The producer hears nothing of {name(n[0])} about {_record(n[1])} for request.timeout.ms"
        + (f"; {name(n[0])} still handles the request." if _log_end(b, n) < _log_end(a, n) else ".")
    ),
    "ack": lambda m, n, b, a: f"{name(n[0])} acks {_record(n[1])}.",
    "learn": _learned,
    "fetch": lambda m, n, b, a: f"{name(n[0])} fetches from {name(n[1])}.",
    "truncate": lambda m, n, b, a: (
        f"{name(n[0])} truncates what its leader {name(n[1])} does not have."
    ),
    "shrink": lambda m, n, b, a: (
        f"{_names(n[1])} did not fetch from {name(n[0])} for replica.lag.time.max.ms. "
        + _elected(b, a)
    ),
    "catch up": lambda m, n, b, a: f"The other replicas catch up and join the ISR of {name(n[0])}.",
    "expand": lambda m, n, b, a: f"{name(n[1])} has caught up. {_elected(b, a)}",
    "exit": lambda m, n, b, a: f"{name(n[0])} has shut down cleanly.",
    "refused": lambda m, n, b, a: (
        f"No controller lets {name(n[0])} shut down, so it is killed (SIGKILL)."
    ),
    "fence": _fenced,
    "unfence": lambda m, n, b, a: (
        f"{name(n[0])} sends heartbeats again and is unfenced. {_elected_if_changed(b, a)}"
    ),
    "sweep": lambda m, n, b, a: (
        f"The controller looks for partitions without a leader. {_elected(b, a)}"
    ),
    "rejoin": _rejoined,
    "expire": lambda m, n, b, a: (
        f"The session of {name(n[0])} ends while no broker is the controller; the next controller "
        f"finds it dead and leaves it in the ISR. {_elected_if_changed(b, a)}"
    ),
    "offline": lambda m, n, b, a: (
        f"The new controller takes {name(n[0])}, which is dead, out of the ISR. {_elected(b, a)}"
    ),
    "end": lambda m, n, b, a: f"The schedule has ended. {_healed(m, b, a)}",
    "give up": lambda m, n, b, a: (
        f"Fault {n[0] + 1} can never begin, so the run ends without it. {_healed(m, b, a)}"
    ),
}


def _end(model: Model, states: Sequence[State]) -> str:
    last = states[-1]
    leader = last.controller.leader
    stored = {record_of(one) for one in last.brokers[leader].log}
    lost = [
        record
        for record, status in enumerate(last.client.status)
        if is_acked(model, status) and record not in stored
    ]
    if not lost:
        return f"The final log is that of {name(leader)}."
    which = " and ".join(_record(record) for record in lost)
    where = _last_copies(states, set(lost), leader)
    return f"The final log is that of {name(leader)}. Acked and lost: {which}; {where}."


def _last_copies(states: Sequence[State], lost: set[int], leader: int) -> str:
    """Return which brokers had the lost records last, and how these disappear.

    States omit irrelevant parts, such as the log of a broker that will truncate it.
    """
    last = 0
    for state in states:
        holders = sum(
            1 << number
            for number, broker in enumerate(state.brokers)
            if lost & {record_of(one) for one in broker.log}
        )
        last = holders or last
    if not last:
        return "no broker ever appended it"
    if last & 1 << leader:
        return f"{_names(last)} held it before the disk of {name(leader)} lost it"
    truncate = "truncates" if last.bit_count() == 1 else "truncate"
    return f"{_names(last)} held it and {truncate} it when following {name(leader)} (KIP-101)"


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
