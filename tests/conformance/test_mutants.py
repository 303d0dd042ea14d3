"""The comparison with Kafka's classes can fail: it refutes every wrong version of our rules."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docker import DockerClient

from ackproof.kafka_versions import numbers
from ackproof_model.replication import replica
from ackproof_model.transactions import markers
from conformance.kafka_classes import Oracle
from conformance.mutants import mutants
from conformance.subjects import SUBJECTS, Subject

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

#: One version on each side of every change of a rule.
VERSIONS = ("3.9.2", "4.0.0", "4.1.2", "4.3.1", "4.4.0")
#: 4.0 has the classes of these subjects in other places, and the rules of its neighbours.
NOT_OF_4_0 = ("replica", "truncation")
CASES, SEED = 6000, 7

#: Mutants that are no wrong rules: what they change makes no difference, or none to Kafka.
EQUIVALENT = {
    # A release has three numbers.
    "inactive_last_known=version < (4, 1), [version < (4, 1) -> version <= (4, 1)]",
    "smaller_with_all=version >= (3, 8), [version >= (3, 8) -> version > (3, 8)]",
    "directory_drops_elr=version < (4, 3), [version < (4, 3) -> version <= (4, 3)]",
    "unclean_shutdown=version >= (4,), [version >= (4,) -> version > (4,)]",
    "unclean_by_setting=version >= (3, 9), [version >= (3, 9) -> version > (3, 9)]",
    # No size makes `least` a power of two, and no set is as large as the last capacity.
    "if size >= least and len(distinct) <= size * 0.75 [size >= least -> size > least]",
    "least = int(presized / 0.75) + 1 [1 -> 2]",
    "for size in (16 << doubled for doubled in range(20)) [20 -> 21]",
    # The last entry is replaced by itself; and both numbers of UNDEFINED are -1.
    "if epochs and epochs[-1][0] == epoch and start >= epochs[-1][1]: "
    "[start >= epochs[-1][1] -> start > epochs[-1][1]]",
    "if epoch == UNDEFINED[0] or not epochs or epoch > epochs[-1][0]: [0 -> 1]",
    # Any number below 0 stands for no epoch; the lowest is replaced by itself.
    "NO_EPOCH = -1 [1 -> 2]",
    "if epoch > self.epoch or (epoch == self.epoch and first < self.lowest): "
    "[first < self.lowest -> first <= self.lowest]",
    # While markers are due, every request is refused; and only a transaction that is open, or whose
    # markers are due, has partitions.
    "if refused is not None and _awaits_markers(coordinator) and model.pending_first: "
    "[refused is not None and _awaits_markers(coordinator) and model.pending_first -> "
    "_awaits_markers(coordinator) and model.pending_first]",
    "before = coordinator.partitions if ongoing else 0 "
    "[coordinator.partitions if ongoing else 0 -> coordinator.partitions]",
    "known = coordinator.state is Txn.ONGOING and coordinator.partitions >> partition & 1 "
    "[coordinator.state is Txn.ONGOING and coordinator.partitions >> partition & 1 -> "
    "coordinator.partitions >> partition & 1]",
    "partitions = coordinator.partitions if coordinator.state is Txn.ONGOING else 0 "
    "[coordinator.partitions if coordinator.state is Txn.ONGOING else 0 -> coordinator.partitions]",
    # Equal offsets are the case before.
    "elif request.start < known.start: [request.start < known.start -> "
    "request.start <= known.start]",
    "if coordinator.partitions or coordinator.state not in PREPARED: "
    "[coordinator.partitions or coordinator.state not in PREPARED -> coordinator.partitions]",
}

#: The same of a share partition, whose log leaves out no offset.
EQUIVALENT |= {
    # What nobody holds has no member, and what is acquired, or waits for an answer, has a lock.
    "if record.state is not State.ACQUIRED or record.member != said.member: [record.state is "
    "not State.ACQUIRED or record.member != said.member -> record.member != said.member]",
    "if record.state is State.ACQUIRED and record.member == member [record.state is "
    "State.ACQUIRED and record.member == member -> record.member == member]",
    "if record.state is State.ACQUIRED and record.lock is not None and record.lock <= now "
    "[record.state is State.ACQUIRED and record.lock is not None and (record.lock <= now) -> "
    "record.state is State.ACQUIRED and record.lock <= now]",
    "if record.lock is not None and record.lock <= now: [record.lock is not None and "
    "record.lock <= now -> record.lock <= now]",
    # A gap lies before the last offset in flight, and is forgotten once that moves.
    "if left[0].first > last and partition.filling and partition.gap is not None: "
    "[left[0].first > last and partition.filling and (partition.gap is not None) -> "
    "left[0].first > last and partition.gap is not None]",
    "if left[0].first > last and partition.filling and partition.gap is not None: "
    "[left[0].first > last and partition.filling and (partition.gap is not None) -> "
    "left[0].first > last and partition.filling]",
    "return self.gap is not None and self.gap[0] == self.end [self.gap is not None and "
    "self.gap[0] == self.end -> self.gap is not None]",
    "if partition.filling and partition.gap is not None and batch.last >= partition.gap[1]: "
    "[partition.filling and partition.gap is not None and (batch.last >= partition.gap[1]) "
    "-> partition.gap is not None and batch.last >= partition.gap[1]]",
    "if partition.filling and partition.gap is not None and batch.last >= partition.gap[1]: "
    "[partition.filling and partition.gap is not None and (batch.last >= partition.gap[1]) "
    "-> partition.filling and batch.last >= partition.gap[1]]",
    # Without a gap records in flight leave out no offset; before the first are done ones.
    "base = max(first, partition.start) if floor is None else first [max(first, "
    "partition.start) if floor is None else first -> max(first, partition.start)]",
    "if floor is not None and floor.last >= first: [floor is not None and floor.last >= "
    "first -> floor is not None]",
    "start = first if batches[0].first == first else partition.start [first if "
    "batches[0].first == first else partition.start -> partition.start]",
    "if floor is None or floor.last < partition.start: [floor is None or floor.last < "
    "partition.start -> floor is None]",
    "base = max(first, partition.start) if floor is None else first [max(first, "
    "partition.start) -> partition.start]",
    "first = max(first, partition.end) [max(first, partition.end) -> min(first, partition.end)]",
    "first = max(first, partition.end) [max(first, partition.end) -> partition.end]",
    "first = max(first, partition.end) [max(first, partition.end) -> first]",
    # The first gap begins where the records before it end.
    "if left[0].first > last and partition.filling and partition.gap is not None: "
    "[left[0].first > last and partition.filling and (partition.gap is not None) -> "
    "partition.filling and partition.gap is not None]",
    "gap = partition.gap[1] if partition.gap else 0 [0 -> 1]",
    "start = max(partition.start, last + 1 if left[0].first <= last else left[0].first) "
    "[last + 1 if left[0].first <= last else left[0].first -> last + 1]",
    "if left[0].first > last and partition.filling and partition.gap is not None: "
    "[left[0].first > last -> left[0].first >= last]",
    "gap = max(batch.last + 1, gap) [max(batch.last + 1, gap) -> batch.last + 1]",
    # To search again for a record that may be available finds the same.
    "seek: bool = False [False -> True]",
    "seek=partition.seek or bool(removed), [partition.seek or bool(removed) -> partition.seek]",
    "return partition.end + 1, partition._replace(seek=False) [False -> True]",
    "return partition.end, partition._replace(seek=False) [False -> True]",
    # A read ends with a batch of the log, and a batch that is as long as allowed is not cut.
    "if room < last - first + 1: [room < last - first + 1 -> room <= last - first + 1]",
    "if room < last - first + 1: [1 -> 2]",
    "if stop - first + 1 > fetched.batch: [stop - first + 1 > fetched.batch -> stop - first "
    "+ 1 >= fetched.batch]",
    "if stop - first + 1 > fetched.batch: [1 -> 2]",
    # No more than these are available; and what is throttled has given one.
    "room = min(fetched.most, partition.end - fetched.offset + 1) [min(fetched.most, "
    "partition.end - fetched.offset + 1) -> fetched.most]",
    "room = min(fetched.most, partition.end - fetched.offset + 1) [1 -> 2]",
    "room = 0 [0 -> 1]",
    "if max((count for _, count in free), default=0) < throttled_from: [0 -> 1]",
    # With such a limit no record is delivered twice that is free.
    "final = limit > _NEVER_ALONE and count == limit - 1 [limit > _NEVER_ALONE and count == "
    "limit - 1 -> count == limit - 1]",
    "final = limit > _NEVER_ALONE and count == limit - 1 [limit > _NEVER_ALONE -> limit >= "
    "_NEVER_ALONE]",
    # Batches that begin before the start, or after these words, have no record of theirs.
    "if floor is None and first < partition.start: [floor is None and first < "
    "partition.start -> floor is None or first < partition.start]",
    "if floor is None and first < partition.start: [floor is None and first < "
    "partition.start -> first < partition.start]",
    "if floor is None and first < partition.start: [floor is None and first < "
    "partition.start -> floor is None]",
    "if floor is None and first < partition.start: [first < partition.start -> first <= "
    "partition.start]",
    # Nothing changes at the same offset; as many ends as begins.
    "if log_start <= partition.start: [log_start <= partition.start -> log_start < "
    "partition.start]",
    "for begin, end in zip(cuts, (*cuts[1:], stop + 1), strict=True) [True -> False]",
    # Not drawn: a read that is old, a begin of the log beyond all in flight, or beside a write.
    "return (_filled(partition, offsets[-1] + 1) if offsets else partition), offsets "
    "[_filled(partition, offsets[-1] + 1) if offsets else partition -> _filled(partition, "
    "offsets[-1] + 1)]",
    "if not partition.batches or partition.start > partition.batches[-1].last: [not "
    "partition.batches or partition.start > partition.batches[-1].last -> not "
    "partition.batches]",
    "end=max(partition.end, log_start), [max(partition.end, log_start) -> partition.end]",
    "if stored or record.removed or record.before is None: [stored or record.removed or "
    "record.before is None -> stored or record.before is None]",
    "if stored or record.removed or record.before is None: [stored or record.removed or "
    "record.before is None -> stored or record.removed]",
    'offset: record._replace(state=State.ARCHIVED, member="", lock=None, removed=True) [True '
    "-> False]",
}

#: Wrong rules that one of some thousand lives refutes: with a gap, many releases, or words for
#: records of which the first are passed.
SELDOM = {
    "if not partition.filling or offset > partition.end: "
    "[not partition.filling or offset > partition.end -> not partition.filling]",
    "if count >= throttled_from and most is None: "
    "[count >= throttled_from and most is None -> count >= throttled_from]",
    "if floor is None and first < partition.start: [floor is None -> floor is not None]",
    "if floor is None and first < partition.start: "
    "[first < partition.start -> first >= partition.start]",
}

#: Modules of which only some functions have Kafka's rules; the others drive them, or end processes.
FUNCTIONS = {
    replica: {
        "learn",
        "following",
        "advance_high_watermark",
        "can_append",
        "append",
        "can_ack",
        "can_fetch",
        "fetch",
        "answers_fetch",
        "fetched",
        "can_request_isr",
        "joinable",
        "accepts_isr",
        "answer_isr",
        "forget",
    },
    markers: {"way"},
}

#: Lines with a rule of versions before these, whose mutants may survive. What proves such a rule is
#: in docs/explanation/conformance.md.
OLDER = {
    # reassignment
    "if self.removing and not (staying and replicas):",
    "if (with_all or (smaller_with_all and smaller)) and not contains_all(staying, replicas):",
    # leader
    "return policy.profile.fetch_fencing and leader_epoch != fetch_epoch",
    "return None if freeze and isr_size < min_isr else min(log_ends)",
    # isr
    "start = epoch_start if waits_for_epoch_start(policy) else 0",
    "return not policy.profile.zookeeper or not policy.profile.alter_partition",
    "return joins_only_alive(policy) and inactive",
    "return policy.profile.broker_epochs and bool(added & restarted)",
    # log_truncation
    "if truncating and profile.truncation is Truncation.KIP_101:",
    "if leader and max(leader) == latest:",
    "later = [offset for offset, epoch in enumerate(leader) if epoch > latest]",
    "return min(len(leader), end)",
    "latest, end = max(follower, default=UNDEFINED[0]), len(follower)",
    "undefined = not later or latest < leader[0]",
    "return min(high_watermark if undefined else later[0], end)",
    "return min(len(follower), len(leader))",
    "anew = latest[0] != NOBODY and refollows(profile, known, latest)",
    "if anew and profile.truncation is Truncation.HIGH_WATERMARK:",
    "log_end = min(high_watermark, log_end)",
    "min(high_watermark, log_end) if profile.keeps_high_watermark else 0,",
    "profile.truncates_first and (anew or truncating),",
    "return known[0] != latest[0]",
    # replica
    "old = leader.isr if policy.profile.zookeeper else 0",
    "if policy.profile.keeps_high_watermark:  "
    "# the response has the high watermark before this fetch",
    "after = after._replace(hw=min(len(after.log), leader.hw))",
    "kept, watermark = follower.log[:keeps], min(follower.hw, keeps)",
    "if policy.profile.alter_partition:",
    "hw=min(broker.hw, end) if led or policy.profile.keeps_high_watermark else 0,",
    "start=end if waits_for_epoch_start(policy) else 0,",
    "and (active(controller, replica) or not joins_only_alive(policy))",
    "remote = (*leader.remote[:restarted], NOBODY, *leader.remote[restarted + 1 :])",
}

#: Lines of `replica` that have what only the searches need, whose mutants may survive.
SEARCHES = {
    # Searches forget log ends when no follower is left, and the epoch's start once it is reached.
    "frozen = policy.freeze and leader.isr.bit_count() < policy.min_isr",
    "return leader if frozen else leader._replace(hw=len(leader.log))",
    "if not leader.remote or leader.remote[restarted] == NOBODY:",
    "start = leader.start if watermark < leader.start else 0",
    # In some searches the controller answers at once, so that nothing is in flight.
    "leader.version == controller.version if policy.in_flight else leader.isr == controller.isr",
    'return "apply", with_version(controller, after) if policy.in_flight else after, leader',
    "renewed = leader.stale & 1 << number & ~(leader.pending if policy.in_flight else 0)",
    # Kafka asks only with acks=all whether it may answer.
    "return True",
    # What ends, or has no leader, does nothing: no case asks it.
    "return follows and answers_fetch(policy, follower, leader, source)",
    "return leads(leader, number) and committed(offset, leader.hw) and enough",
    "follower.alive",
    "return leads(leader, number) and not leader.pending",
    # Truncation is compared by itself, and whether a fetch changes anything is no rule.
    "if follower.truncating or keeps < end:",
    'return "truncate", follower._replace(log=kept, hw=watermark, truncating=False), leader',
    # A fetch brings as many records as it likes.
    "after = follower._replace(log=follower.log + leader.log[end : end + 1])",
    "if leader.remote[number] == end and not renewed and after == follower:",
}

_UNTIL_4_1 = ("inactive_last_known",)
_SINCE_3_9 = ("unclean_by_setting",)
_UNCLEAN = (*_SINCE_3_9, "unclean_shutdown")
_UNTIL_4_3 = ("complete_with_all", "directory_drops_elr")
_SINCE_3_8 = ("smaller_with_all",)

#: Which flags are on, of each side of a change: what the class under test does not show.
RULES = {
    "ControllerRules": {
        (3, 7, 2): {*_UNTIL_4_1, "last_known_with_isr", "directory_drops_elr"},
        (3, 8, 1): {*_UNTIL_4_1, "last_known_with_isr", *_UNTIL_4_3, *_SINCE_3_8},
        (3, 9, 1): {*_SINCE_3_8, *_UNTIL_4_1, "last_known_with_isr", *_UNTIL_4_3, *_SINCE_3_9},
        (4, 0, 1): {*_SINCE_3_8, *_UNTIL_4_1, "last_known_with_isr", *_UNTIL_4_3, *_UNCLEAN},
        (4, 1, 0): {*_SINCE_3_8, "last_known_with_isr", *_UNTIL_4_3, *_UNCLEAN},
        (4, 1, 1): {*_SINCE_3_8, *_UNTIL_4_3, *_UNCLEAN},
        (4, 2, 1): {*_SINCE_3_8, *_UNTIL_4_3, *_UNCLEAN},
        (4, 3, 0): {*_SINCE_3_8, *_UNCLEAN},
    },
}


def as_documented(rules: ModuleType) -> bool:
    """Tell whether each version has the rules that docs/explanation/conformance.md lists."""
    return all(
        getattr(rules, name).of(version) == _flags(getattr(rules, name), on)
        for name, versions in RULES.items()
        if getattr(getattr(rules, name, None), "__module__", "") == rules.__name__
        for version, on in versions.items()
    )


def _flags(made: Any, on: set[str]) -> Any:
    return made(**{field.name: field.name in on for field in fields(made)})


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in code that computes for longer: a wrong loop may never end."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


MODULES = list(dict.fromkeys(rules for subject in SUBJECTS for rules in subject.rules))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_wrong_rule_is_refuted(
    engine: DockerClient, module: ModuleType, tmp_path: Path
) -> None:
    subjects = [subject for subject in SUBJECTS if module in subject.rules]
    with ExitStack() as stack:
        oracles = {
            version: stack.enter_context(Oracle(engine, version, tmp_path / version))
            for version in VERSIONS
            if any(numbers(version) >= subject.since for subject in subjects)
        }
        truth = [
            (subject, numbers(version), case, answer)
            for subject in subjects
            for cases in [subject.cases(CASES, SEED)]
            for version, oracle in oracles.items()
            if numbers(version) >= subject.since
            if version != "4.0.0" or subject.question not in NOT_OF_4_0
            for case, answer in zip(cases, subject.asked(oracle, cases), strict=True)
        ]

    def refuted(rules: ModuleType) -> bool:
        try:
            return not as_documented(rules) or any(
                _answer(subject, case, version, rules) != answer
                for subject, version, case, answer in truth
            )
        except Exception:  # a rule that breaks down, or never ends, is a wrong one
            return True

    assert not refuted(module)
    names = [(name, refuted(wrong)) for name, wrong in mutants(module, FUNCTIONS.get(module))]
    survivors = [name for name, dead in names if not dead]
    older = [name for name in survivors if _stands_in(OLDER, name)]
    explained = {*EQUIVALENT, *SELDOM, *older}
    unexplained = [
        name for name in survivors if name not in explained and not _stands_in(SEARCHES, name)
    ]
    print(  # noqa: T201
        f"\n{module.__name__}: {len(names) - len(survivors)} of {len(names)} mutants refuted, "
        f"{len(survivors)} survive: {len(older)} of rules that only older versions have"
    )
    assert not unexplained, "\n".join(unexplained)


def _stands_in(lines: set[str], mutant: str) -> bool:
    """Tell whether a mutant is of one of these lines."""
    return any(mutant.startswith(f"{line} [") for line in lines)


def _answer(subject: Subject, case: Any, version: tuple[int, ...], rules: ModuleType) -> str:
    with _limited(10):
        return subject.ours(case, version, rules)
