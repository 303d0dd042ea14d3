"""The anomalies that any order of a schedule's effects may cause in one partition.

An anomaly is `impossible` if a stored search or an argument of this module excludes it, and
`certain` only if every order has it. The reason names the search and its budget, or the argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ackproof_model.adversary.successors import lost
from ackproof_model.bounds.losing import Minima, Minimum, Question, minima
from ackproof_model.bounds.story import replay
from ackproof_model.configuration import Configuration, Profile, Truncation
from ackproof_model.exposure import Budget, Exposure
from ackproof_model.prediction.narrative import name
from ackproof_model.prediction.predict import Likelihood, inconsistent
from ackproof_model.replication.state import members

_POSSIBLE, _IMPOSSIBLE = Likelihood.POSSIBLE, Likelihood.IMPOSSIBLE

_NEW_DIRECTORY = (
    "before 4.3 a new log directory empties the ELR (apache/kafka#20716), which the searched rules "
    "leave out: the last known leader may be elected, although others have the records"
)
_STALE_ELR = (
    "a replica that a reassignment has removed may stay in the ELR; when it is added again, it may "
    "be elected with an empty log (PartitionChangeBuilder.maybePopulateTargetElr)"
)
MISSED = (
    "a leader that hands over and leads again before it learns so takes for stored what a follower "
    "has truncated in between (Partition.makeLeader), which the searched rules leave out"
)
_REWRITTEN = "a setting changes by which Kafka removes records (compaction, retention)"

Answer = tuple[Likelihood, str]
#: An answer, and a shortest trace to the loss.
AnswerWithTrace = tuple[Likelihood, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The answer for each anomaly.

    trace: a shortest trace to the loss of an acked record, one sentence for each step; empty if
    none is known. bounds: the searched and the omitted part, in words.
    """

    likelihood: Mapping[str, Likelihood]
    reasons: Mapping[str, str]
    trace: tuple[str, ...]
    bounds: str


def bound(configuration: Configuration, exposure: Exposure) -> Bound:
    """Return the answers for any order of the effects in `exposure` under a configuration."""
    likely, why, trace = next(_lost(configuration, exposure))
    answers = {"lost": (likely, why)}
    answers |= {anomaly: resent(configuration, exposure, anomaly) for anomaly in _RESENDS}
    answers |= dict(_of_logs(configuration, exposure))
    answers["read-then-gone"] = _read_then_gone(configuration, exposure)
    if exposure.anything:
        nothing = (_POSSIBLE, f"{exposure.anything}, so nothing is excluded")
        answers = dict.fromkeys(answers, nothing)
    likelihood = {anomaly: answer[0] for anomaly, answer in answers.items()}
    answers["inconsistent"] = (
        answers["lost"] if exposure.anything else inconsistent(configuration, likelihood)
    )
    return Bound(
        likelihood={anomaly: answer[0] for anomaly, answer in answers.items()},
        reasons={anomaly: answer[1] for anomaly, answer in answers.items()},
        trace=trace,
        bounds=_bounds(exposure),
    )


def _bounds(exposure: Exposure) -> str:
    return (
        f"any order, at any time, of at most {exposure.budget}, on any replicas; conditions, "
        "durations and targets of the schedule only limit these numbers; left out: how many "
        "records, and timers, so that only a removed topic is certainly lost"
    )


def _questions(configuration: Configuration, exposure: Exposure) -> Iterator[Question]:
    """Yield a question for each set of rules that may apply while the schedule lasts."""
    replicas = configuration.replication_factor
    for version in (configuration.kafka_version, *exposure.versions):
        elr = configuration.profile.elr
        for enabled in dict.fromkeys((elr, *exposure.elr)):
            yield Question(
                kafka_version=version,
                elr=enabled,
                acks="all" if configuration.acks == "all" else "1",
                replicas=replicas,
                min_insync_replicas=min(
                    configuration.min_insync_replicas, replicas, exposure.lowered or replicas
                ),
                unclean=_unclean(configuration, exposure, version),
            )


def _unclean(configuration: Configuration, exposure: Exposure, version: str) -> bool:
    """Whether an election may be unclean under the rules of `version`."""
    setting = exposure.unclean_set or configuration.unclean_leader_election
    return exposure.unclean or Profile.of(version).elects_uncleanly(setting)


def _lost(configuration: Configuration, exposure: Exposure) -> Iterator[AnswerWithTrace]:
    """Yield answers about acked records that are lost; the first applies."""
    if exposure.emptied:
        yield Likelihood.CERTAIN, "the topic is deleted after records were acked", ()
    if exposure.removed:
        yield _POSSIBLE, "the topic may be deleted after records were acked", ()
    if exposure.rewritten:
        yield _POSSIBLE, _REWRITTEN, ()
    if configuration.acks == "0" and (exposure.unanswered or exposure.late):
        why = "with acks=0 a send counts as acked, whether or not a broker received it"
        yield _POSSIBLE, why, ()
    if (never := never_acked(configuration)) and exposure.lowered is None and not exposure.moves:
        yield _IMPOSSIBLE, never, ()
    budget = _with_altered(exposure)
    questions = tuple(_questions(configuration, exposure))
    if exposure.moves and budget.total and not all(keeps_everything(q, budget) for q in questions):
        yield _POSSIBLE, "the searched rules leave out how replicas move", ()
    if exposure.moves > 1 and any(question.elr for question in questions):
        yield _POSSIBLE, _STALE_ELR, ()
    answers = [
        _lost_under(question, budget, constant=exposure.lowered is None) for question in questions
    ]
    answer = max(answers, key=lambda one: list(Likelihood).index(one[0]))
    if answer[0] is _IMPOSSIBLE and (late := _loses_by_delay(configuration, exposure)):
        yield _POSSIBLE, late, ()
    replicas = math.inf if exposure.moves else configuration.replication_factor
    if answer[0] is _IMPOSSIBLE and misses_an_epoch(replicas, budget):
        yield _POSSIBLE, MISSED, ()
    if answer[0] is _IMPOSSIBLE and exposure.renewed and any(map(_loses_by_directory, questions)):
        yield _POSSIBLE, _NEW_DIRECTORY, ()
    yield answer


def _read_then_gone(configuration: Configuration, exposure: Exposure) -> Answer:
    """Return whether a record may disappear after a consumer has read it.

    Consumers read records that every ISR member has; from 3.7 the ISR has at least
    min.insync.replicas members (KAFKA-15583). So the answer is that of acks=all.
    """
    if exposure.removed:
        return _POSSIBLE, "the topic may be deleted after records were read"
    freeze = configuration.profile.hw_freeze
    minimum = configuration.min_insync_replicas if freeze else 1
    committed = replace(configuration, acks="all", min_insync_replicas=minimum)
    likelihood, reason, _ = next(_lost(committed, exposure))
    return likelihood, f"of what was below the high watermark: {reason}"


def never_acked(configuration: Configuration) -> str:
    """Return why every send is refused: before 3.7, min.insync.replicas above the replicas."""
    freeze = configuration.profile.hw_freeze
    too_many = configuration.min_insync_replicas > configuration.replication_factor
    if configuration.acks == "all" and too_many and not freeze:
        return "min.insync.replicas exceeds the replication factor, so nothing is acked"
    return ""


def _with_altered(exposure: Exposure) -> Budget:
    """Return the budget; with altered bytes, any end of a broker may truncate its log."""
    budget = exposure.budget
    if not exposure.altered:
        return budget
    losses = budget.power_losses + budget.kills + budget.clean_stops
    return replace(budget, power_losses=losses, shrinks=math.inf)


def _loses_by_delay(configuration: Configuration, exposure: Exposure) -> str:
    profile = configuration.profile
    if exposure.late and profile.stale_fetch and configuration.replication_factor > 1:
        return (
            "a fetch response that is late may make a follower drop committed records (before "
            "3.9.1 and in 4.0.0: KAFKA-18991)"
        )
    return ""


def misses_an_epoch(replicas: float, budget: Budget) -> bool:
    """Whether a leader may hand over, lead again without knowing so, and end or hand over.

    It then keeps the log end offset of a third replica, which may have truncated in between
    (`replica.learn`); a partition that moves may have one. The searched rules leave that out.
    """
    return replicas > 2 and budget.leader_moves > 0 and replace(budget, shrinks=0).total > 2


def _loses_by_directory(question: Question) -> bool:
    """Whether a new directory may let the last known leader lead instead of an ELR member.

    Otherwise a new directory only delays an election: its broker may lead once the directory is
    assigned (KIP-858, `LeaderAcceptor`), which is as if the broker had started later.
    """
    return question.elr and Profile.of(question.kafka_version).directory_drops_elr


def _lost_under(question: Question, budget: Budget, *, constant: bool) -> AnswerWithTrace:
    """`constant`: min.insync.replicas does not change; otherwise `question` has its least value."""
    if not budget.total:
        return _IMPOSSIBLE, "no broker ends, is cut off or deposed, so no log is truncated", ()
    known = minima(question)
    searched = f"; every order of up to {known.searched} was searched" if known else ""
    if known and (found := known.lost_by(budget)):
        verb = "loses" if found.budget.total == 1 else "lose"
        why = f"{found.budget} {verb} an acked record in {len(found.steps)} steps"
        return _POSSIBLE, _with_version(question, why), tuple(narrate(question, found))
    if known and constant and known.excludes(budget):
        why = f"no order of {budget} loses an acked record: all were searched"
        return _IMPOSSIBLE, f"{why} ({known.states} states)", ()
    if why := keeps_everything(question, budget):
        return _IMPOSSIBLE, f"{why}{searched}", ()
    # With altered bytes any number of shrinks is counted (`_with_altered`).
    if budget.shrinks < math.inf and not replace(budget, shrinks=0).total:
        return _IMPOSSIBLE, "lag alone deposes no leader, so no log is truncated", ()
    return _POSSIBLE, _with_version(question, _not_searched(question, known, budget)), ()


def _not_searched(question: Question, known: Minima | None, budget: Budget) -> str:
    if known is None:
        return (
            f"{question.replicas} replicas under these rules were not searched, and their logs may "
            "lose records"
        )
    few = budget.shrinks and budget.total <= known.searched
    most = f"{known.searched} perturbations{' without ISR shrinks' if few else ''}"
    return f"only orders of up to {most} were searched, and the schedule allows {budget}"


def _with_version(question: Question, reason: str) -> str:
    elr = ", with eligible leader replicas" if question.elr else ""
    return f"under the rules of {question.kafka_version}{elr}, {reason}"


def keeps_everything(question: Question, budget: Budget) -> str:
    """Return why no number of such perturbations loses an acked record; '' without an argument.

    With acks=all every member of the maximal ISR has an acked record (KIP-497). Without unclean
    elections each leader comes from the ISR or the ELR, or was the last leader. From 2.1 a replica
    joins the ISR only after it has reached the epoch's start (KAFKA-7128). If no log loses records
    by itself, every leader has every acked record, and followers truncate only records that the
    leader lacks (KIP-101, KIP-279, KIP-320). That holds while replicas move, too: those that are
    added join the ISR first, and those that stay were in it (KIP-455,
    `PartitionReassignmentReplicas.maybeCompleteReassignment`, `PartitionReassignmentRevert`). For
    replicas that move more than once see `_STALE_ELR`, for leaders that miss a change `MISSED`.
    """
    if (
        question.acks != "all"
        or question.unclean
        or budget.power_losses
        or not _settled(Profile.of(question.kafka_version))
    ):
        return ""
    return (
        "acks=all, no unclean election, and no log loses records by itself: every replica that may "
        "lead has every acked record, however often brokers end, lag or lose their session"
    )


def _settled(profile: Profile) -> bool:
    """Whether truncation by leader epoch is complete: from 2.1 on."""
    by_epoch = profile.truncation in (Truncation.KIP_279, Truncation.ON_FETCH)
    return by_epoch and profile.epoch_start and profile.fetch_fencing


_RESENDS = ("duplicated", "reordered")


def resent(configuration: Configuration, exposure: Exposure, anomaly: str) -> Answer:
    """Return whether a producer's repeated requests cause `duplicated` or `reordered`."""
    return next(_resent(configuration, exposure, anomaly))


def _resent(configuration: Configuration, exposure: Exposure, anomaly: str) -> Iterator[Answer]:
    """Yield answers; the first applies."""
    order = anomaly == "reordered"
    if exposure.removed:
        yield _POSSIBLE, "the brokers forget what producers wrote to a deleted topic"
    if configuration.idempotence and _loses_producer_state(configuration, exposure):
        yield (
            _POSSIBLE,
            "a log may lose records, and with them what it knows of the producer, which then "
            "begins a new epoch and sends again what was in flight",
        )
    if configuration.idempotence:
        yield (
            _IMPOSSIBLE,
            "idempotence: a leader refuses what it has, and what comes out of order (left out: a "
            "producer that begins a new epoch after a timeout)",
        )
    if exposure.repeated:
        yield _POSSIBLE, "a request arrives twice, and idempotence is off"
    if not (exposure.unanswered or exposure.late):
        yield _IMPOSSIBLE, "every request is answered, so none is sent again"
    if order and exposure.late:
        yield _POSSIBLE, "a request may arrive after one that was sent later"
    if configuration.acks == "0" or configuration.retries == 0:
        yield _IMPOSSIBLE, "the producer sends nothing again"
    if order and configuration.max_in_flight == 1:
        yield _IMPOSSIBLE, "one request in flight: the next waits for the outcome of this one"
    yield _POSSIBLE, "requests may stay unanswered and are sent again, without idempotence"


def _loses_producer_state(configuration: Configuration, exposure: Exposure) -> bool:
    versions = (configuration.kafka_version, *exposure.versions)
    unclean = any(_unclean(configuration, exposure, version) for version in versions)
    ended = exposure.budget.total > 0 or exposure.unclean or exposure.unclean_set
    return bool((unclean and ended) or exposure.altered or exposure.budget.power_losses)


def _of_logs(configuration: Configuration, exposure: Exposure) -> Iterator[tuple[str, Answer]]:
    """Yield the answers that do not depend on the order of perturbations."""
    if exposure.denied:
        yield "phantom", (_POSSIBLE, "a send that was written may be reported as refused")
    else:
        yield (
            "phantom",
            (_IMPOSSIBLE, "no effect of the schedule writes a record that was not sent"),
        )
    if exposure.altered:
        yield "corrupt", (_POSSIBLE, "stored bytes are altered")
    else:
        yield "corrupt", (_IMPOSSIBLE, "no effect of the schedule alters stored bytes")
    yield "diverged", _diverged(configuration, exposure)
    if exposure.rewritten:
        yield "gap", (_POSSIBLE, _REWRITTEN)
    else:
        yield (
            "gap",
            (_IMPOSSIBLE, "a leader assigns consecutive offsets, and logs lose only their ends"),
        )


def _diverged(configuration: Configuration, exposure: Exposure) -> Answer:
    if configuration.replication_factor == 1:
        return _IMPOSSIBLE, "there is one replica"
    if exposure.altered or exposure.rewritten:
        return _POSSIBLE, "a replica's stored bytes may change without the others'"
    versions = (configuration.kafka_version, *exposure.versions)
    if exposure.budget.total and not all(_settled(Profile.of(version)) for version in versions):
        return _POSSIBLE, (
            "before 2.1 followers do not truncate all that a new leader lacks (KIP-279, KIP-320)"
        )
    if any(Profile.of(version).stale_fetch for version in versions):
        return _POSSIBLE, (
            "before 3.9.1, and in 4.0.0, a follower may append a late fetch response of an older "
            "leader epoch (KAFKA-18723)"
        )
    return _IMPOSSIBLE, (
        "followers truncate by leader epoch before they append (KIP-101, KIP-279, KIP-320)"
    )


#: The sentence of each kind of step, with the replicas, record or count of the step.
_SENTENCES = {
    "write": "{0} appends record {number}.",
    "ack": "{0} acks record {number}.",
    "kill": "{0} is killed (SIGKILL): what it appended stays in its log.",
    "lose power": "{0} loses power: its log keeps {count} of its records.",
    "stop": "{0} begins a controlled shutdown (SIGTERM).",
    "exit": "{0} ends.",
    "shrink": "{0} asks to take {1}, which lags, out of the ISR.",
    "expand": "{0} asks to take {1} into the ISR.",
    "apply": "The controller changes the ISR as {0} has asked.",
    "cut off": "{0} runs, but loses its session.",
    "fence": "The session of {0} ends.",
    "move leader": "{0} is elected by request, as a member of the ISR.",
    "expire": "The session of {0} ends while no broker is the controller.",
    "restart": "{0} is started again.",
    "unfence": "{0} is registered, and may lead again.",
    "learn": "{0} learns who leads.",
    "fetch": "{0} fetches from {1}.",
    "truncate": "{0} truncates what {1} does not have.",
}


def narrate(question: Question, found: Minimum) -> Iterator[str]:
    """Yield a sentence for each step of a loss, and a last one that names the leader without it."""
    *_, last = (state for _, state in replay(question, found))
    for step in found.steps:
        acked = question.acks == "1" and step.startswith("write")  # with the append
        yield sentence(step).removesuffix(".") + (", and acks it." if acked else ".")
    records = " and ".join(f"record {one + 1}" for one in members(lost(last)))
    yield f"{name(last.controller.leader)} leads without {records}, which was acked: it is lost."


def sentence(step: str) -> str:
    """Return a step such as `lose power 0 1` in words."""
    label = step.rstrip("0123456789 ")
    numbers = [int(number) for number in step[len(label) :].split()]
    last = numbers[-1]
    names = map(name, numbers)
    return _SENTENCES[label].format(*names, number=last + 1, count=last)
