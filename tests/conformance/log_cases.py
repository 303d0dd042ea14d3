"""Random lives of a log's epochs and of a producer's state, and our answers to them as text.

A case is a tuple of steps; its line is what the oracle reads. Both sides answer to each step that
asks something, and tell in the end what they know.
"""

from __future__ import annotations

import random
from types import ModuleType

from ackproof_model.kafka import epoch_cache, producer_state

Steps = tuple[str, ...]
_LAST = 2**31 - 1
_LAST_EPOCH = 2**15 - 1


def line(steps: Steps) -> str:
    """Return the case as the oracle reads it."""
    return f"steps={','.join(steps)}"


def smaller(steps: Steps) -> list[Steps]:
    """Return the cases with one step less."""
    return [steps[:at] + steps[at + 1 :] for at in range(len(steps))]


def random_epochs(rng: random.Random) -> Steps:
    """Return what may happen to an epoch cache; mostly epochs that rise."""
    steps, epoch, offset = [], 0, 0
    for _ in range(rng.randint(1, 12)):
        kind = rng.choices(("assign", "end", "of", "ask"), (5, 1, 1, 3))[0]
        near = max(0, offset + rng.randint(-4, 4))
        if kind == "assign":
            epoch = max(0, epoch + rng.choice((0, 1, 1, 1, 2, -1, -2)))
            offset = max(0, offset + rng.choice((0, 1, 2, 3, 3, -2)))
            steps.append(f"assign:{epoch}:{offset}")
        elif kind == "ask":
            steps.append(f"ask:{rng.randint(-1, epoch + 2)}:{near}")
        else:
            steps.append(f"{kind}:{near if rng.random() < 0.9 else -1}")
    return tuple(steps)


def epochs(steps: Steps, rules: ModuleType = epoch_cache) -> str:
    """Answer by the rules (of a module: mutants have others)."""
    known: epoch_cache.Epochs = ()
    answers = []
    for step in steps:
        kind, *words = step.split(":")
        values = [int(word) for word in words]
        if kind == "assign":
            known = rules.assign(known, *values)
        elif kind == "end":
            known = rules.truncate_from_end(known, *values)
        elif kind == "of":
            found = rules.epoch_for_offset(known, *values)
            answers.append(str(-1 if found is None else found))
        else:
            answers.append(":".join(map(str, rules.end_offset_for(known, *values))))
    return ",".join([*answers, *(f"{epoch}={start}" for epoch, start in known)])


def random_producer(rng: random.Random) -> Steps:
    """Return what a producer, and a leader that is fetched from, may send; mostly in order."""
    steps: list[str] = []
    epoch, next_sequence = rng.choice((0, 1, 2, _LAST_EPOCH)), rng.choice((0, 0, 0, 3, _LAST - 3))
    for _ in range(rng.randint(1, 12)):
        kinds = ("send", "retry", "verify", "forget", "append", "end")
        kind = rng.choices(kinds, (7, 3, 2, 1, 2, 2))[0]
        if kind == "forget":
            steps.append(kind)
            continue
        if rng.random() < 0.2:
            epoch = min(_LAST_EPOCH, max(0, epoch + rng.choice((1, 1, -1))))
            next_sequence = 0
        if kind == "end":
            steps.append(f"end:{epoch}:{rng.choice((1, 2))}")
            continue
        first = (next_sequence + rng.choice((0, 0, 0, 0, 0, 1, -1))) % (_LAST + 1)
        sent = [step for step in steps if step.startswith("send")]
        if kind == "verify":
            steps.append(f"verify:{epoch}:{first}:{rng.randrange(2)}")
        elif kind == "retry" and sent:
            steps.append(rng.choice(sent[-7:]))
        else:
            count = rng.choice((1, 1, 2, 5))
            transactional = int(rng.random() < 0.3)
            kind = "append" if kind == "append" else "send"
            steps.append(f"{kind}:{epoch}:{first}:{count}:{transactional}")
            next_sequence = (first + count) % (_LAST + 1)
    return tuple(steps)


def producer(steps: Steps, version: tuple[int, ...], rules: ModuleType = producer_state) -> str:
    """Answer by the rules (of a module: mutants have others)."""
    state = rules.ProducerState()
    verification = None
    answers, offset = [], 100
    for step in steps:
        kind, *words = step.split(":")
        if kind == "forget":
            verification = None
            continue
        if kind == "end":
            strict = words[1] == "2" and version >= (4, 2)
            after = state.end_transaction(int(words[0]), strict=strict)
            answers.append(after.value if isinstance(after, rules.Refusal) else "ended")
            state = state if isinstance(after, rules.Refusal) else after
            continue
        epoch, first, third = map(int, words[:3])
        if kind == "verify":
            if verification is None:
                verification = rules.Verification(epoch=epoch, lowest=first, bumps=third == 1)
            verification = verification.updated(epoch, first)
            continue
        batch = rules.Batch(epoch=epoch, first=first, count=third, transactional=words[3] == "1")
        if kind == "send":
            if (same := state.duplicate(batch)) is not None:
                answers.append(f"duplicate:{same}")
                continue
            refusal = state.refusal(
                batch, verification=verification, first_at_zero=version >= (4, 1)
            )
            if refusal is not None:
                answers.append(refusal.value)
                continue
        after = state.append(batch, offset)
        if isinstance(after, rules.Refusal):
            answers.append(after.value)
            continue
        state = after
        offset += batch.count
        answers.append("appended")
    if state != rules.ProducerState():
        answers.append(f"epoch={state.epoch}")
        answers.append(f"txn={-1 if state.txn_start is None else state.txn_start}")
        answers += [":".join(map(str, batch)) for batch in state.batches]
    return ",".join(answers)
