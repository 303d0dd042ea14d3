"""Answers for the worst case of a schedule: what any order of its perturbations may do.

An anomaly is `impossible` if a stored search or an argument of this module excludes it, and
`certain` only if every order has it. The reason names the search and its numbers, or the argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ackproof_model.adversary.successors import lost
from ackproof_model.configuration import Configuration, Profile
from ackproof_model.perturbations import Counts, WorstCase
from ackproof_model.prediction.result import Likelihood, Prediction, inconsistent
from ackproof_model.replication.state import Label, members, name
from ackproof_model.worst_case.minima import Minima, Minimum, Question, minima
from ackproof_model.worst_case.story import replay

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
    "a leader that lost and regained leadership without noticing still counts an old log end of a "
    "follower, which has truncated since (Partition.makeLeader); the stored searches leave that out"
)
_REWRITTEN = "a setting changes by which Kafka removes records (compaction, retention)"

Answer = tuple[Likelihood, str]
#: An answer, and a shortest trace to the loss.
AnswerWithTrace = tuple[Likelihood, str, tuple[str, ...]]


def predict(configuration: Configuration, worst: WorstCase, because: str) -> Prediction:
    """Return the prediction for the worst case of a schedule under a configuration.

    because: why no exact search answers, as a clause.
    """
    likely, why, trace = next(_lost(configuration, worst))
    answers = {"lost": (likely, why)}
    answers |= {anomaly: resent(configuration, worst, anomaly) for anomaly in _RESENDS}
    answers |= dict(_of_logs(configuration, worst))
    answers["read-then-gone"] = _read_then_gone(configuration, worst)
    if worst.anything:
        nothing = (_POSSIBLE, f"{worst.anything}, so nothing is excluded")
        answers = dict.fromkeys(answers, nothing)
    likelihood = {anomaly: answer[0] for anomaly, answer in answers.items()}
    answers["inconsistent"] = (
        answers["lost"] if worst.anything else inconsistent(configuration, likelihood)
    )
    return Prediction(
        likelihood={anomaly: answer[0] for anomaly, answer in answers.items()},
        trace=trace,
        diagram=None,
        at_risk=(),
        error_codes=(),
        reasons={anomaly: answer[1] for anomaly, answer in answers.items()},
        method=f"Worst case: {because}. {_validity(worst.counts)}",
        states=0,
        complete=True,
    )


def _validity(most: Counts) -> str:
    """Return the sentences that say for which schedules an answer is valid."""
    orders = (
        f"any order of {most.limits}, on any replica" if most.total else "any order of the faults"
    )
    return (
        f"This answer holds for {orders}. Times and conditions are ignored, so it says `certain` "
        "only for a deleted topic."
    )


def _questions(configuration: Configuration, worst: WorstCase) -> Iterator[Question]:
    """Yield a question for each set of rules that may apply while the schedule lasts."""
    replicas = configuration.replication_factor
    for version in (configuration.kafka_version, *worst.versions):
        elr = configuration.profile.elr
        for enabled in dict.fromkeys((elr, *worst.elr)):
            yield Question(
                kafka_version=version,
                elr=enabled,
                acks="all" if configuration.acks == "all" else "1",
                replicas=replicas,
                min_insync_replicas=min(
                    configuration.min_insync_replicas, replicas, worst.lowered or replicas
                ),
                unclean=_unclean(configuration, worst, version),
            )


def _unclean(configuration: Configuration, worst: WorstCase, version: str) -> bool:
    """Whether an election may be unclean under the rules of `version`."""
    setting = worst.unclean_set or configuration.unclean_leader_election
    return worst.unclean or Profile.of(version).elects_uncleanly(setting)


def _lost(configuration: Configuration, worst: WorstCase) -> Iterator[AnswerWithTrace]:
    """Yield answers about lost acked records; the first one applies."""
    if worst.emptied:
        yield Likelihood.CERTAIN, "the topic is deleted after records were acked", ()
    if worst.removed:
        yield _POSSIBLE, "the topic may be deleted after records were acked", ()
    if worst.rewritten:
        yield _POSSIBLE, _REWRITTEN, ()
    if configuration.acks == "0" and worst.resends:
        why = "with acks=0 a send counts as acked, whether or not a broker received it"
        yield _POSSIBLE, why, ()
    if (never := never_acked(configuration)) and worst.lowered is None and not worst.moves:
        yield _IMPOSSIBLE, never, ()
    counts = _with_altered(worst)
    questions = tuple(_questions(configuration, worst))
    if worst.moves and counts.total and not all(keeps_everything(q, counts) for q in questions):
        yield _POSSIBLE, "the searched rules leave out how replicas move", ()
    if worst.moves > 1 and any(_keeps_removed(question, worst) for question in questions):
        yield _POSSIBLE, _STALE_ELR, ()
    answers = [
        _lost_under(question, counts, constant=worst.lowered is None) for question in questions
    ]
    answer = max(answers, key=lambda one: list(Likelihood).index(one[0]))
    if answer[0] is _IMPOSSIBLE and (late := _loses_by_delay(configuration, worst)):
        yield _POSSIBLE, late, ()
    replicas = math.inf if worst.moves else configuration.replication_factor
    if answer[0] is _IMPOSSIBLE and misses_an_epoch(replicas, counts):
        yield _POSSIBLE, MISSED, ()
    if answer[0] is _IMPOSSIBLE and worst.renewed and any(map(_loses_by_directory, questions)):
        yield _POSSIBLE, _NEW_DIRECTORY, ()
    yield answer


def _read_then_gone(configuration: Configuration, worst: WorstCase) -> Answer:
    """Return whether a record may disappear after a consumer has read it.

    Consumers read records that every ISR member has; from 3.7 the ISR has at least
    min.insync.replicas members (KAFKA-15583). So the answer is that of acks=all.
    """
    if worst.removed:
        return _POSSIBLE, "the topic may be deleted after records were read"
    freeze = configuration.profile.hw_freeze
    minimum = configuration.min_insync_replicas if freeze else 1
    committed = replace(configuration, acks="all", min_insync_replicas=minimum)
    likelihood, reason, _ = next(_lost(committed, worst))
    return likelihood, f"of what was below the high watermark: {reason}"


def never_acked(configuration: Configuration) -> str:
    """Return why every send is refused: before 3.7, if min.insync.replicas exceeds the replicas."""
    nothing = acks_nothing(
        configuration.kafka_version,
        acks=configuration.acks,
        replicas=configuration.replication_factor,
        minimum=configuration.min_insync_replicas,
    )
    return "min.insync.replicas exceeds the replication factor, so nothing is acked" * nothing


def acks_nothing(kafka_version: str, *, acks: str, replicas: int, minimum: int) -> bool:
    """Whether every send is refused."""
    return acks == "all" and minimum > replicas and not Profile.of(kafka_version).hw_freeze


def _with_altered(worst: WorstCase) -> Counts:
    """Return the numbers; with altered bytes, any end of a broker may truncate its log."""
    counts = worst.counts
    if not worst.altered:
        return counts
    losses = counts.power_losses + counts.kills + counts.clean_stops
    return replace(counts, power_losses=losses, shrinks=math.inf)


def _loses_by_delay(configuration: Configuration, worst: WorstCase) -> str:
    profile = configuration.profile
    if worst.late and profile.stale_fetch and configuration.replication_factor > 1:
        return (
            "a fetch response that is late may make a follower drop committed records (before "
            "3.9.1 and in 4.0.0: KAFKA-18991)"
        )
    return ""


def misses_an_epoch(replicas: float, counts: Counts, *, balanced: bool = False) -> bool:
    """Whether a leader may hand over, lead again without knowing so, and end or hand over.

    It then keeps the log end offset of a third replica, which may have truncated in between
    (`replica.learn`); a partition that moves may have one. The searched rules leave that out.
    balanced: the preferred replica is elected by itself after its broker has returned
    (`auto.leader.rebalance.enable`).
    """
    elected = counts.leader_moves > 0 or (balanced and counts.ends > 0)
    return replicas > 2 and elected and counts.without_shrinks > 2


def _keeps_removed(question: Question, worst: WorstCase) -> bool:
    """Whether a replica that a move has removed may stay in the ELR.

    A move that completes with all its replicas in the ISR empties the ELR, if they are as many as
    min.insync.replicas. Then only a cancelled move could leave a removed replica there.
    """
    least = question.replicas if worst.fewest is None else min(question.replicas, worst.fewest)
    enough = worst.lowered is None and least >= question.min_insync_replicas
    completes_with_all = Profile.of(question.kafka_version).completes_with_all
    empties = completes_with_all and enough and not worst.cancelled
    return question.elr and not empties


def _loses_by_directory(question: Question) -> bool:
    """Whether a new directory may let the last known leader lead instead of an ELR member.

    Otherwise a new directory only delays an election: its broker may lead once the directory is
    assigned (KIP-858, `LeaderAcceptor`), which is as if the broker had started later.
    """
    return question.elr and Profile.of(question.kafka_version).directory_drops_elr


def _lost_under(question: Question, counts: Counts, *, constant: bool) -> AnswerWithTrace:
    """Return the answer. constant: min.insync.replicas does not change, else this is its least."""
    if not counts.total:
        return _IMPOSSIBLE, "no broker ends, is cut off or deposed, so no log is truncated", ()
    known = minima(question)
    searched = f"; every order of up to {known.searched} was searched" if known else ""
    if known and (found := known.lost_by(counts)):
        verb = "loses" if found.counts.total == 1 else "lose"
        why = f"{found.counts} {verb} an acked record in {len(found.steps)} steps"
        return _POSSIBLE, _with_version(question, why), tuple(narrate(question, found))
    if known and constant and known.excludes(counts):
        why = f"no order of {counts} loses an acked record: all were searched"
        return _IMPOSSIBLE, f"{why} ({known.states} states)", ()
    if why := keeps_everything(question, counts):
        return _IMPOSSIBLE, f"{why}{searched}", ()
    # With altered bytes any number of shrinks is counted (`_with_altered`).
    if counts.shrinks < math.inf and not counts.without_shrinks:
        return _IMPOSSIBLE, "lag alone deposes no leader, so no log is truncated", ()
    return _POSSIBLE, _with_version(question, _not_searched(question, known, counts)), ()


def _not_searched(question: Question, known: Minima | None, counts: Counts) -> str:
    if known is None:
        return (
            f"{question.replicas} replicas under these rules were not searched, and their logs may "
            "lose records"
        )
    few = counts.shrinks and counts.total <= known.searched
    most = f"{known.searched} perturbations{' without ISR shrinks' if few else ''}"
    return f"only orders of up to {most} were searched, and the schedule allows {counts}"


def _with_version(question: Question, reason: str) -> str:
    elr = ", with eligible leader replicas" if question.elr else ""
    return f"under the rules of {question.kafka_version}{elr}, {reason}"


def keeps_everything(question: Question, counts: Counts) -> str:
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
        or counts.power_losses
        or not Profile.of(question.kafka_version).truncates_by_epoch
    ):
        return ""
    return (
        "acks=all, no unclean election, and no log loses records by itself: every replica that may "
        "lead has every acked record, however often brokers end, lag or lose their session"
    )


_RESENDS = ("duplicated", "reordered")


def resent(configuration: Configuration, worst: WorstCase, anomaly: str) -> Answer:
    """Return whether a producer's repeated requests cause `duplicated` or `reordered`."""
    return next(_resent(configuration, worst, anomaly))


def _resent(configuration: Configuration, worst: WorstCase, anomaly: str) -> Iterator[Answer]:
    """Yield answers about requests that are sent again; the first one applies."""
    order = anomaly == "reordered"
    if worst.removed:
        yield _POSSIBLE, "the brokers forget what producers wrote to a deleted topic"
    if configuration.idempotence and _loses_producer_state(configuration, worst):
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
    if worst.repeated:
        yield _POSSIBLE, "a request arrives twice, and idempotence is off"
    if not worst.resends:
        yield _IMPOSSIBLE, "every request is answered, so none is sent again"
    if order and worst.late:
        yield _POSSIBLE, "a request may arrive after one that was sent later"
    if configuration.acks == "0" or configuration.retries == 0:
        yield _IMPOSSIBLE, "the producer sends nothing again"
    if order and configuration.max_in_flight == 1:
        yield _IMPOSSIBLE, "one request in flight: the next waits for the outcome of this one"
    yield _POSSIBLE, "requests may stay unanswered and are sent again, without idempotence"


def _loses_producer_state(configuration: Configuration, worst: WorstCase) -> bool:
    versions = (configuration.kafka_version, *worst.versions)
    unclean = any(_unclean(configuration, worst, version) for version in versions)
    ended = worst.counts.total > 0 or worst.unclean or worst.unclean_set
    return bool((unclean and ended) or worst.altered or worst.counts.power_losses)


def _of_logs(configuration: Configuration, worst: WorstCase) -> Iterator[tuple[str, Answer]]:
    """Yield the answers that do not depend on the order of perturbations."""
    if worst.denied:
        yield "phantom", (_POSSIBLE, "a send that was written may be reported as refused")
    else:
        yield (
            "phantom",
            (_IMPOSSIBLE, "no effect of the schedule writes a record that was not sent"),
        )
    if worst.altered:
        yield "corrupt", (_POSSIBLE, "stored bytes are altered")
    else:
        yield "corrupt", (_IMPOSSIBLE, "no effect of the schedule alters stored bytes")
    yield "diverged", _diverged(configuration, worst)
    if worst.rewritten:
        yield "gap", (_POSSIBLE, _REWRITTEN)
    else:
        yield (
            "gap",
            (_IMPOSSIBLE, "a leader assigns consecutive offsets, and logs lose only their ends"),
        )


def _diverged(configuration: Configuration, worst: WorstCase) -> Answer:
    if configuration.replication_factor == 1:
        return _IMPOSSIBLE, "there is one replica"
    if worst.altered or worst.rewritten:
        return _POSSIBLE, "a replica's stored bytes may change without the others'"
    versions = (configuration.kafka_version, *worst.versions)
    if worst.counts.total and not all(
        Profile.of(version).truncates_by_epoch for version in versions
    ):
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
        acked = question.acks == "1" and step[0] == "write"  # with the append
        yield sentence(step).removesuffix(".") + (", and acks it." if acked else ".")
    records = " and ".join(f"record {one + 1}" for one in members(lost(last)))
    yield f"{name(last.controller.leader)} leads without {records}, which was acked: it is lost."


def sentence(step: Label) -> str:
    """Return a step such as `("lose power", 0, 1)` in words."""
    action, *numbers = step
    last = numbers[-1]
    names = map(name, numbers)
    return _SENTENCES[action].format(*names, number=last + 1, count=last)
