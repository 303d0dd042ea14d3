"""Random lives of a transactional.id, and our answers to them as text.

A case is what the coordinator knows, and steps: changes prepared and completed one by one
(`transaction_metadata`), or requests (`transaction_coordinator`). Both sides answer to each step,
and tell in the end what they know.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

from specifications import transaction_coordinator, transaction_metadata
from specifications.transaction_metadata import Metadata, TransactionState

Version = tuple[int, ...]
_EPOCHS = (-1, 0, 0, 1, 1, 2, 3, 3, 3, 32765, 32766, 32766, 32767, 32767)
_IDS = (7, 7, 7, 8, 9)
_STATES = tuple(TransactionState)
_LAST = 2**15 - 1
_NAMES = {
    "producer_id": "id",
    "prev_id": "prev",
    "next_id": "next",
    "last_epoch": "last",
    "failed_fence": "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known (None: nothing), the cluster's version of transactions, and the steps."""

    known: Metadata | None
    version: int = 0
    steps: tuple[str, ...]


def line(case: Case) -> str:
    """Return the case as the oracle reads it."""
    known = "none" if case.known is None else ":".join(_words(case.known).values())
    return f"metadata={known} version={case.version} steps={','.join(case.steps)}"


def smaller(case: Case) -> list[Case]:
    """Return the cases with one step less, or with a field as it is at first."""
    found = [
        replace(case, steps=case.steps[:at] + case.steps[at + 1 :]) for at in range(len(case.steps))
    ]
    if case.known is not None:
        plain = Metadata(producer_id=7, epoch=1, timeout=100, updated=60)
        for field in fields(Metadata):
            value = getattr(plain, field.name)
            if getattr(case.known, field.name) != value:
                found.append(replace(case, known=replace(case.known, **{field.name: value})))
    return found


def _random_known(rng: random.Random, *, pending: float) -> Metadata:
    """Return metadata that may or may not be reachable, with this chance of a pending change."""
    epoch = rng.choice(_EPOCHS)
    return Metadata(
        producer_id=rng.choice((7,) * 12 + (0, -1)),
        prev_id=rng.choice((-1, -1, 7, 8)),
        next_id=rng.choice((-1, -1, -1, 9)),
        epoch=epoch,
        last_epoch=rng.choice((-1, -1, epoch, max(-1, epoch - 1), rng.choice(_EPOCHS))),
        timeout=rng.choice((100, 100, 200)),
        state=rng.choice(_STATES),
        partitions=_partitions(rng),
        started=rng.choice((-1, 50, 50)),
        updated=60,
        version=rng.choice((0, 1, 2, 2)),
        pending=rng.choice((*_STATES, *(_STATES[:1] * 8), *(_STATES[-1:] * 6)))
        if rng.random() < pending
        else None,
        failed_fence=rng.random() < 0.2,
    )


def _partitions(rng: random.Random) -> frozenset[int]:
    return frozenset(partition for partition in range(3) if rng.random() < 0.4)


def random_changes(rng: random.Random) -> Case:
    """Return what may happen to metadata: what is prepared is mostly completed, as it is or not."""
    steps: list[str] = []
    known = _random_known(rng, pending=0.3)
    while len(steps) < rng.choice((1, 2, 2, 3, 4, 6)):
        if rng.random() < (0.7 if steps and not steps[-1].startswith("finish") else 0.25):
            steps.append(f"finish{_tampered(rng, known)}")
        else:
            steps.append(_random_change(rng, known, at=70 + len(steps)))
    return Case(known=known, steps=tuple(steps))


def _random_change(rng: random.Random, known: Metadata, *, at: int) -> str:
    timeout = rng.choice((100, 100, 300))
    expected = rng.choice(("none", known.epoch, known.last_epoch, _near(rng, known.epoch)))
    prepare = rng.choice((2, 3, 3, rng.randrange(8)))
    next_id = rng.choice((-1, -1, 9))
    return rng.choice(
        (
            "fence",
            f"increment:{timeout}:{expected}:{at}",
            f"rotate:{rng.choice((9, 9, 9, 7, 0, -1))}:{timeout}:{at}:{rng.randrange(2)}",
            f"add:{_text(_partitions(rng))}:{at}:{rng.choice((0, 1, 2))}",
            f"end:{prepare}:{rng.choice((0, 2, 2))}:{next_id}:{at}:{rng.randrange(2)}",
            f"end:{prepare}:{rng.choice((0, 2, 2))}:{next_id}:{at}:{rng.randrange(2)}",
            f"complete:{at}",
            f"complete:{at}",
            "die",
            f"remove:{rng.randrange(3)}",
        )
    )


def _tampered(rng: random.Random, known: Metadata) -> str:
    """Return fields that a change is given before it is completed: mostly none.

    One that is pending from the start is mostly made to fit nearly.
    """
    values: dict[str, int | str] = {
        "id": rng.choice(_IDS),
        "prev": rng.choice(_IDS),
        "next": rng.choice((-1, 9)),
        "epoch": rng.choice((known.epoch, _near(rng, known.epoch), 0)),
        "last": rng.choice((known.epoch, known.last_epoch, _near(rng, known.last_epoch), -1)),
        "timeout": rng.choice((100, 200)),
        "state": int(known.state if known.pending is None else known.pending),
        "partitions": _text(_partitions(rng)),
        "started": rng.choice((-1, 50, 70)),
        "updated": 99,
        "version": rng.choice((0, 2)),
    }
    names = rng.sample(sorted(values), rng.choice((0, 0, 0, 1, 1, 2, 3)))
    if known.pending is not None and rng.random() < 0.8:
        fitting = _fitting(rng, known)
        values |= fitting
        names = [*(name for name in names if rng.random() < 0.3), *fitting]
        if rng.random() < 0.5:
            names.remove(rng.choice(names))
    return "".join(f":{name}:{values[name]}" for name in dict.fromkeys(names))


def _fitting(rng: random.Random, known: Metadata) -> dict[str, int | str]:
    """Return what the pending change may look like, where an epoch is renewed."""
    match known.pending:
        case TransactionState.EMPTY:
            after = -_LAST - 1 if known.epoch == _LAST else known.epoch + 1
            epoch = rng.choice((after, after, 0, _near(rng, known.epoch)))
            fitting: dict[str, int | str] = {"epoch": epoch, "partitions": "", "started": -1}
            fitting["id"] = rng.choice((known.producer_id, known.producer_id, 9))
        case TransactionState.ONGOING:
            fitting = {"epoch": known.epoch, "partitions": "0+1+2", "version": 2}
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            fitting = {"last": known.epoch, "version": 2, "started": 70}
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            last = rng.choice((known.last_epoch, known.last_epoch, _near(rng, known.last_epoch)))
            fitting = {"epoch": 0, "prev": known.producer_id, "version": 2, "started": 50}
            fitting["last"] = last
        case _:
            fitting = {}
    return {"state": int(known.pending or 0), **fitting}


def _near(rng: random.Random, epoch: int) -> int:
    return min(_LAST, max(-1, epoch + rng.choice((0, 1, -1, 2))))


def changes(case: Case, version: Version, rules: ModuleType = transaction_metadata) -> str:
    """Answer by the rules (of a module: mutants have others)."""
    assert case.known is not None
    now = _in(rules, case.known, version)
    by = rules.CoordinatorRules.of(version)
    change = None
    answers = []
    for step in case.steps:
        kind, *words = step.split(":")
        if kind == "remove":
            after = rules.without_partition(now, int(words[0]))
            answers.append(_told(after, version) if isinstance(after, rules.Error) else "removed")
            now = now if isinstance(after, rules.Error) else after
        elif kind == "finish":
            last = rules.no_change(now) if change is None else change
            after = rules.completed(now, _changed(rules, last, words, version), by)
            refused = isinstance(after, rules.Error)
            answers.append(_told(after, version) if refused else "completed")
            if not refused:
                now, change = after, None
        else:
            prepared, now = _prepared(rules, now, step, version)
            answers.append(_told(prepared, version))
            change = change if isinstance(prepared, rules.Error) else prepared
    return " | ".join([*answers, _told(now, version)])


def _prepared(rules: ModuleType, now: Any, step: str, version: Version) -> Any:
    """Return what a step prepares, and what is known then."""
    by = rules.CoordinatorRules.of(version)
    old = version < (4,)
    kind, *words = step.split(":")
    numbers = [int(word) if word.lstrip("-").isdigit() else 0 for word in words]
    match kind:
        case "fence":
            found = rules.fence(now, by)
        case "increment":
            expected = None if words[1] == "none" else numbers[1]
            found = rules.increment_epoch(
                now, by, timeout=numbers[0], expected=expected, at=numbers[2]
            )
        case "rotate":
            found = rules.rotate_id(
                now,
                by,
                producer_id=numbers[0],
                timeout=numbers[1],
                at=numbers[2],
                record_last=numbers[3] == 1,
            )
        case "add":
            spoken = _spoken(numbers[2], version)
            found = rules.add_partitions(now, by, _numbers(words[0]), at=numbers[1], version=spoken)
        case "end":
            found = rules.end(
                now,
                by,
                state=rules.TransactionState(numbers[0]),
                version=_spoken(numbers[1], version),
                next_id=-1 if old else numbers[2],
                at=numbers[3],
                nothing_added=not old and numbers[4] == 1,
            )
        case "complete":
            found = rules.complete(now, by, at=numbers[0])
        case _:
            found = rules.die(now, by)
    return found


def _changed(rules: ModuleType, change: Any, words: list[str], version: Version) -> Any:
    """Return a change with other values: name, value, name, value."""
    names = {_NAMES.get(field.name, field.name): field.name for field in fields(change)}
    values: dict[str, Any] = {}
    for name, word in zip(words[::2], words[1::2], strict=True):
        if version < (4,) and name in ("next", "version"):
            continue
        value: Any = _numbers(word) if name == "partitions" else int(word)
        values[names[name]] = rules.TransactionState(value) if name == "state" else value
    return replace(change, **values)


def random_requests(rng: random.Random) -> Case:
    """Return what may be asked of the coordinator; mostly by a producer that is nearly current."""
    known = _random_known(rng, pending=0.25) if rng.random() < 0.95 else None
    steps = tuple(_random_request(rng, known) for _ in range(rng.choice((1, 2, 3, 4, 6))))
    return Case(known=known, version=rng.choice((0, 1, 2, 2)), steps=steps)


def _random_request(rng: random.Random, known: Metadata | None) -> str:
    epoch = rng.choice((known.epoch, _near(rng, known.epoch), 32766)) if known else 0
    producer_id = rng.choice(_IDS)
    if known and rng.random() < 0.15:  # sent again, from before the id was renewed
        producer_id, epoch = known.prev_id, _LAST - 1
    log = rng.choice(("NONE",) * 6 + ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"))
    told = f"{int(rng.random() < 0.9)}:{log}"
    timeout = rng.choice((100, 100, 300, 0, 1, 900_000, 900_001))
    version = rng.choice((0, 1, 2, 2))
    end = f"end:{told}:{producer_id}:{epoch}:{rng.randrange(2)}:{version}"
    return rng.choice(
        (
            f"init:{told}:{timeout}:none",
            f"init:{told}:{timeout}:{producer_id}:{epoch}",
            f"add:{told}:{producer_id}:{epoch}:{_text(_partitions(rng))}:{version}",
            f"verify:{told}:{producer_id}:{epoch}:{_text(_partitions(rng) or {0})}",
            end,
            end,
            f"expire:{told}:{producer_id}",
            f"written:{told}",
        )
    )


def requests(case: Case, version: Version, rules: ModuleType = transaction_coordinator) -> str:
    """Answer by the rules (of a module: mutants have others)."""
    known: Any = None if case.known is None else _in(transaction_metadata, case.known, version)
    completing = None
    answers = []
    for number, step in enumerate(case.steps, start=1):
        kind, ids, log, *words = step.split(":")
        around = rules.Environment(
            rules=transaction_metadata.CoordinatorRules.of(version),
            now=1000 + number,
            version=_spoken(case.version, version),
            new_id=9000 + number if ids == "1" else None,
            log=transaction_metadata.Error(log),
        )
        if kind == "verify":
            errors = rules.verify_partitions(
                known,
                producer_id=int(words[0]),
                epoch=int(words[1]),
                partitions=_numbers(words[2]),
            )
            found = (f"{partition}={errors[partition].value}" for partition in sorted(errors))
            answers.append(f"{{{','.join(found)}}}")
        elif kind == "written":
            if completing is None or known is None:
                answers.append("nothing")
                continue
            after = transaction_metadata.completed(known, completing, around.rules)
            if isinstance(after, transaction_metadata.Error):
                answers.append(after.value)
                continue
            known, completing = after, None
            answers.append("completed")
        else:
            answered = _answered(rules, known, around, step, version)
            known = answered.metadata
            completing = answered.completing or completing
            answers.append(_shown(answered, kind, version))
    answers.append(f"then {'nothing' if completing is None else _told(completing, version)}")
    answers.append("none" if known is None else _told(known, version))
    return " | ".join(answers)


def _answered(rules: ModuleType, known: Any, around: Any, step: str, version: Version) -> Any:
    kind, _, _, *words = step.split(":")
    match kind:
        case "init":
            expected = None if words[1] == "none" else (int(words[1]), int(words[2]))
            return rules.init_producer_id(known, around, timeout=int(words[0]), expected=expected)
        case "add":
            return rules.add_partitions(
                known,
                around,
                producer_id=int(words[0]),
                epoch=int(words[1]),
                partitions=_numbers(words[2]),
                version=_spoken(int(words[3]), version),
            )
        case "end":
            request = rules.EndTxn(
                producer_id=int(words[0]),
                epoch=int(words[1]),
                commit=words[2] == "1",
                version=_spoken(int(words[3]), version),
            )
            return rules.end_transaction(known, around, request)
    return rules.abort_timed_out(known, around, producer_id=int(words[0]))


def _shown(answered: Any, kind: str, version: Version) -> str:
    """Return an answer as the oracle writes it."""
    if answered.error is None:
        return "silent"
    error = answered.error.value
    thrown = error.endswith("Exception")
    told = kind == "init" or (kind != "add" and version >= (4,))
    return f"{error}:{answered.producer_id}:{answered.epoch}" if told and not thrown else error


def _spoken(version: int, kafka: Version) -> int:
    """Return a version of transactions; before 4.0 there is but one."""
    return version if kafka >= (4,) else 0


def _in(rules: ModuleType, known: Metadata, version: Version) -> Any:
    """Return what is known as the module's own class, and as that version can know it."""
    values = {
        field.name: getattr(known, field.name)
        for field in fields(known)
        if getattr(known, field.name) != field.default  # so that this too is compared
    }
    values["state"] = rules.TransactionState(known.state)
    if known.pending is not None:
        values["pending"] = rules.TransactionState(known.pending)
    if version < (4,):
        values |= {"next_id": -1, "version": 0}
    return rules.Metadata(**values)


def _told(record: Any, version: Version) -> str:
    """Return all fields of metadata or of a change, or the error, as the oracle writes it."""
    if not hasattr(record, "producer_id"):
        return str(record.value)
    words = _words(record)
    if version < (4,):
        words = {name: word for name, word in words.items() if name not in ("next", "version")}
    return " ".join(f"{name}={word}" for name, word in words.items())


def _words(record: Any) -> dict[str, str]:
    found = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value is None:
            word = "-1"
        elif isinstance(value, frozenset):
            word = _text(value)
        else:
            word = str(int(value))
        found[_NAMES.get(field.name, field.name)] = word
    return found


def _text(partitions: Iterable[int]) -> str:
    return "+".join(map(str, sorted(partitions)))


def _numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split("+"))) if text else frozenset()
