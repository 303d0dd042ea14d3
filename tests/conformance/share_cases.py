"""Random lives of a share partition and of what its coordinator stores, and our answers as text.

Not drawn is a log whose begin moves while offsets are missing in what was stored, beyond all
records in flight, or while a write is on its way (`docs/explanation/conformance.md`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import NamedTuple

from ackproof_model.configuration import Profile
from ackproof_model.share_groups import coordinator, partition
from ackproof_model.share_groups.coordinator import Batch

Version = tuple[int, ...]
Steps = tuple[str, ...]
_WORDS = {"g": "gap", "a": "accept", "r": "release", "j": "reject", "n": "renew"}


class Life(NamedTuple):
    """A log with batches of these sizes, what is stored of it, the settings, and what happens."""

    log: tuple[int, ...]
    log_start: int
    start: int
    stored: str
    reset: str
    limit: int
    locks: int
    lock: int
    steps: Steps


def random_life(rng: random.Random) -> Life:
    largest = rng.choice((4, 4, 12))
    log = tuple(rng.randint(1, largest) for _ in range(rng.randint(2, 6)))
    end, gaps = sum(log), rng.random() < 0.4
    start, stored, trims = rng.choice((0 - (not gaps), 0, rng.randrange(end))), [], not gaps
    if start >= 0 and rng.random() < (0.9 if gaps else 0.4):
        at = max(0, start + rng.choice((0, 0, 0, 0, 1, -1)) * gaps)
        while at < end and rng.random() < 0.7:
            last = min(end - 1, at + rng.randrange(rng.choice((3, 3, 9))))
            stored.append(Batch(at, last, rng.choice((0, 0, 2, 4)), rng.randint(0, 5)))
            at = last + 1 + gaps * rng.choice((0, 1, 1, 2, 6))
    if stored and stored[-1].first and rng.random() < 0.02:  # no coordinator stores it
        stored[-1] = stored[-1]._replace(last=stored[-1].first - 1)
    weights, words, held = rng.choice(_STYLES)
    limit = rng.randint(4 if words is _RELEASES else 1, 3 if held else 6)
    steps = [
        _step(rng, end, (*weights[:-1], weights[-1] * trims), words)
        for _ in range(rng.randint(1, 30 if words is _RELEASES else 15))
    ]
    return Life(
        log=log,
        log_start=rng.randrange(min(3, end)) if start < 0 else 0,
        start=start,
        stored=text(stored),
        reset=rng.choice(("earliest", "earliest", "latest")),
        limit=limit,
        locks=rng.choice((1, 3, 6, 100)),
        lock=10,
        steps=("writes:hold", *steps) if held else tuple(steps),
    )


_KINDS = ("fetch", "ack", "end", "sleep", "writes", "answer", "trim")
_RELEASES = ("r", "r", "r", "rrra")
_ANY_WORDS = ("a", "a", "r", "r", "j", "n", "g", "ar", "arj", "na", "rrra")
#: How often each of `_KINDS` happens, what is said, and whether writes wait from the begin on:
#: lives of all kinds of steps, with waiting writes, with a log whose begin moves, and of releases.
_STYLES: tuple[tuple[tuple[float, ...], tuple[str, ...], bool], ...] = (
    ((8, 8, 1, 3, 1, 1, 0.5), _ANY_WORDS, False),
    ((8, 8, 1, 5, 1, 6, 0), ("a", "r", "r", "j"), True),
    *(((8, 8, 2, 3, 1, 1, 5), _ANY_WORDS, False),) * 2,
    *(((8, 8, 0, 0, 0, 0, 0), _RELEASES, False),) * 2,
)


def _step(rng: random.Random, end: int, weights: Sequence[float], of: Sequence[str]) -> str:
    member = rng.choice("mn")
    kind = rng.choices(_KINDS, weights)[0]
    if kind == "fetch":
        most, batches, size = rng.choice((1, 2, 5, 20)), rng.randint(1, 4), rng.choice((1, 3, 50))
        return f"fetch:{member}:{most}:{batches}:{size}"
    if kind == "ack":
        words = rng.choice(of)
        whole = 0 if of is _RELEASES else 3
        first, last = (rng.choice((*(0,) * whole, rng.randrange(9))) for _ in range(2))
        return f"ack:{member}:{rng.randrange(6)}:{first}:{last or 999_999}:{words}"
    if kind == "end":
        return f"end:{member}"
    if kind == "trim":
        return f"trim:{rng.randrange(end + 1)}"
    if kind == "sleep":
        return f"sleep:{rng.choice((1, 3, 6, 10, 11))}"
    return (
        f"{kind}:{rng.choice(('ok', 'ok', 'fail', 'hold') if kind == 'writes' else ('ok', 'fail'))}"
    )


def life_line(life: Life) -> str:
    fields = life._asdict() | {
        key: ",".join(map(str, getattr(life, key))) for key in ("log", "steps")
    }
    return " ".join(f"{key}={value}" for key, value in fields.items())


def smaller_lives(life: Life) -> list[Life]:
    steps = [life.steps[:at] + life.steps[at + 1 :] for at in range(len(life.steps))]
    return [life._replace(steps=fewer) for fewer in steps]


def text(batches: Sequence[tuple[object, ...]]) -> str:
    return "+".join(f"{first}-{last}." + ".".join(map(str, rest)) for first, last, *rest in batches)


def batches(words: str) -> tuple[Batch, ...]:
    each = (word.replace("-", ".").split(".") for word in words.split("+") if word)
    return tuple(Batch(*map(int, parts)) for parts in each)


def lived(life: Life, _: Version, rules: ModuleType = partition) -> str:
    """Answer by the rules (of a module: mutants have others)."""
    return _Lived(life, rules).told()


class _Lived:
    def __init__(self, life: Life, rules: ModuleType) -> None:
        self.life, self.rules = life, rules
        self.settings = rules.Settings(life.limit, life.locks, life.lock)
        self.now, self.log_start, self.writes = 0, life.log_start, "ok"
        self.held: list[object] = []
        self.acquired: list[tuple[int, int]] = []
        self.written: list[str] = []
        ends = [sum(life.log[: n + 1]) for n in range(len(life.log))]
        self.log = [(end - size, end - 1) for end, size in zip(ends, life.log, strict=True)]
        start = rules.start_offset(
            life.start, life.reset, log_start=life.log_start, log_end=sum(life.log)
        )
        self.state = rules.load(start, batches(life.stored))

    def told(self) -> str:
        if self.state is None:
            return "refused"
        answers = []
        for step in self.life.steps:
            kind, *words = step.split(":")
            self.written = []
            answer = getattr(self, f"_{kind}")(*words) or ""
            answers.append(f"{answer}[{'|'.join(self.written)}]")
        return ",".join([*answers, self._dump()])

    def _fetch(self, member: str, most: str, count: str, size: str) -> str:
        rules = self.rules
        offset, self.state = rules.next_fetch_offset(self.state)
        if not self.log_start <= offset < sum(self.life.log):
            return f"{offset} outside"
        read = tuple(one for one in self.log if one[1] >= offset)[: int(count)]
        fetched = rules.Fetched(member, offset, read, int(most), int(size))
        self.state, got = rules.acquire(self.state, self.settings, fetched, self.now)
        runs: list[list[int]] = []
        for at in got:
            if not runs or at > runs[-1][1] + 1:
                runs.append([at, at])
            runs[-1][1] = at
        self.acquired += [(first, last) for first, last in runs]
        records = {n: one for batch in self.state.batches for n, one in batch.numbered}
        return f"{offset} {text(as_runs((at, str(records[at].deliveries)) for at in got))}"

    def _ack(self, member: str, run: str, first: str, last: str, words: str) -> str:
        if not self.acquired:
            return "none"
        begin, end = self.acquired[int(run) % len(self.acquired)]
        begin += int(first) % (end - begin + 1)
        end = begin + int(last) % (end - begin + 1)
        named = tuple(_WORDS[words[n % len(words)]] for n in range(end - begin + 1))
        error, self.state, change = self.rules.acknowledge(
            self.state, self.settings, self.rules.Words(member, begin, named), self.now
        )
        return f"{begin}-{end} {error or self._write(change)}"

    def _end(self, member: str) -> str:
        self.state, change = self.rules.release(self.state, self.settings, member)
        return self._write(change)

    def _write(self, change: partition.Change) -> str:
        if not change.offsets:
            return "ok"
        of = f"{self.state.start}/{self.state.complete}"
        self.written.append(f"{of}/{text(change.batches)}")
        if self.writes == "hold":
            self.held.append(change)
            return "held"
        self._answered(change, self.writes)
        return "ok" if self.writes == "ok" else "COORDINATOR_NOT_AVAILABLE"

    def _answered(self, change: object, answer: str) -> None:
        self.state = self.rules.answered(
            self.state, self.settings, change, self.now, stored=answer == "ok"
        )

    def _answer(self, answer: str) -> None:
        if self.held:
            self._answered(self.held.pop(0), answer)

    def _writes(self, answer: str) -> None:
        self.writes = answer

    def _sleep(self, time: str) -> None:
        self.now += int(time)
        self.state, written = self.rules.expire(self.state, self.settings, self.now)
        self.written += [text(written)] if written else []

    def _trim(self, offset: str) -> None:
        if self.held:
            return
        assert self.state is not None
        last = self.state.end if self.state.batches else sum(self.life.log)
        self.log_start = max(self.log_start, min(last, int(offset)))
        self.state = self.rules.log_start_moved(self.state, self.log_start)

    def _dump(self) -> str:
        state = self.state
        assert state is not None
        records = (
            (n, f"{int(one.state)}.{one.deliveries}.{one.member}{'?' if one.before else ''}")
            for batch in state.batches
            for n, one in batch.numbered
        )
        ends = (state.start, state.end, state.complete, self.rules.next_fetch_offset(state)[0])
        return "/".join([*map(str, ends), text(as_runs(records))])


def as_runs(records: Iterable[tuple[int, str]]) -> list[tuple[int, int, str]]:
    runs: list[tuple[int, int, str]] = []
    for at, shown in records:
        if runs and runs[-1][1:] == (at - 1, shown):
            runs[-1] = (runs[-1][0], at, shown)
        else:
            runs.append((at, at, shown))
    return runs


class Requests(NamedTuple):
    """Requests to the coordinator; it writes a snapshot after so many updates."""

    limit: int
    steps: Steps


def random_requests(rng: random.Random) -> Requests:
    steps = [f"init:{rng.randint(0, 2)}:{rng.choice((-1, 0, 0, 4))}"] if rng.random() < 0.95 else []
    for _ in range(rng.randint(1, 9)):
        kinds = ("write", "read", "init", "delete", "load")
        kind = rng.choices(kinds, (10, 2, 1, 0.5, 1))[0]
        state_epoch, leader_epoch = (rng.choice((0, 0, 1, 1, 2, 3)) for _ in range(2))
        if kind == "write":
            new = [
                Batch(first, first + rng.randrange(4), rng.choice((0, 2, 4)), rng.randint(0, 3))
                for first in (rng.randrange(10) for _ in range(rng.randrange(4)))
            ]
            start, complete = rng.choice((-1, 0, 2, 3, 5, 8)), rng.randrange(6)
            step = f"write:{state_epoch}:{leader_epoch}:{start}:{complete}:{text(new)}"
        elif kind == "init":
            step = f"init:{state_epoch}:{rng.choice((-1, 0, 3, 7))}"
        else:
            step = {"read": f"read:{leader_epoch}", "load": f"load:{rng.randrange(3)}"}.get(
                kind, kind
            )
        steps.append(step)
    return Requests(limit=rng.choice((0, 1, 2, 500)), steps=tuple(steps))


def requests_line(case: Requests) -> str:
    return f"limit={case.limit} steps={','.join(case.steps)}"


def smaller_requests(case: Requests) -> list[Requests]:
    every = range(len(case.steps))
    return [case._replace(steps=case.steps[:at] + case.steps[at + 1 :]) for at in every]


def requested(case: Requests, version: Version, rules: ModuleType = coordinator) -> str:
    """Answer by the rules (of a module: mutants have others)."""
    profile = Profile.of(".".join(map(str, version)))
    shard, topic, told = rules.Shard(), list[coordinator.Record](), list[str]()
    after = {"snapshot_after": case.limit}
    for step in case.steps:
        kind, *words = step.split(":")
        if kind == "load":
            topic, shard = topic[: max(0, len(topic) - int(words[0]))], rules.Shard()
            for read in topic:
                shard = rules.replay(shard, read, **after)
            told.append(_memory(shard))
            continue
        if kind == "init":
            error, record = rules.initialize(shard, *map(int, words))
        elif kind == "read":
            error, record = rules.read(profile, shard, int(words[0]), **after)
        elif kind == "delete":
            error, record = "", (rules.Record(None) if shard.stored else None)
        else:
            request = rules.Write(*map(int, words[:4]), batches(words[4]))
            error, record = rules.write(profile, shard, request, **after)
        told.append(f"{error or 'NONE'}{_record(record)}")
        if record is not None:
            shard = rules.replay(shard, record, **after)
            topic.append(record)
    return ",".join([*told, _memory(shard)])


def _record(record: coordinator.Record | None) -> str:
    if record is None:
        return ""
    if record.stored is None:
        return " tombstone"
    return f" {'update' if record.update else 'snapshot'} {_stored(record.stored)}"


def _stored(stored: coordinator.Stored | None) -> str:
    if stored is None:
        return "null"
    return "/".join([*map(str, stored[:-1]), text(stored.batches)])


def _memory(shard: coordinator.Shard) -> str:
    epochs = (
        "null" if one is None else str(one) for one in (shard.leader_epoch, shard.state_epoch)
    )
    return f"{'/'.join(epochs)}={_stored(shard.stored)}"
