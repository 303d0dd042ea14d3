"""Every request to the transaction coordinator in every state of the specification, as text.

The specification has one producer id, no clock and no epochs that run out. Kafka gives an id that
has expired another producer id; the specification ends there. A producer that repeats
InitProducerId because the response was lost does not occur in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from ackproof_model.transactions import TransactionModel
from ackproof_model.transactions.model import Protocol
from ackproof_model.transactions.state import PREPARED, Coordinator, Txn

Version = tuple[int, ...]
_ID = 7
_EPOCH = 2  # the coordinator's
_EPOCHS = range(5)
_PENDING = {Txn.PREPARE_COMMIT: Txn.COMPLETE_COMMIT, Txn.PREPARE_ABORT: Txn.COMPLETE_ABORT}
_PROTOCOLS: tuple[Protocol, ...] = (1, 2)
_ENDING = ("end", "expire")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request, in one state of the coordinator; a dead id is unknown to Kafka.

    written: the markers that are then due are written.
    """

    protocol: Protocol
    known: Coordinator
    request: tuple[str, *tuple[int | None, ...]]
    written: bool


def every_case() -> list[Case]:
    return [
        Case(protocol=protocol, known=known, request=request, written=written)
        for protocol in _PROTOCOLS
        for known in _states()
        for request in _requests(protocol, known)
        for written in ((False, True) if request[0] in _ENDING else (False,))
    ]


def _states() -> Iterator[Coordinator]:
    for state, partitions in itertools.product(Txn, range(4)):
        if bool(partitions) == (state is Txn.ONGOING or state in PREPARED):
            yield Coordinator(state, _EPOCH, partitions, 0)


def _requests(protocol: int, known: Coordinator) -> Iterator[tuple[str, *tuple[int | None, ...]]]:
    if known.state is not Txn.DEAD:
        for expected in (None, *_EPOCHS):
            if protocol == 1 or expected != _EPOCH - 1:  # a retry otherwise
                yield "init", expected
    yield from itertools.product(("add", "verify", "end"), _EPOCHS, range(2))
    if known.state is Txn.ONGOING:
        yield ("expire",)


def line(case: Case) -> str:
    """Return the case as the oracle reads it; where markers are due, the next change is pending."""
    known, version = case.known, case.protocol if case.protocol == 2 else 0
    metadata: Sequence[object] = ["none"]
    if known.state is not Txn.DEAD:
        last = known.epoch - 1 if case.protocol == 2 else -1
        started = -1 if known.state is Txn.EMPTY else 50
        ids = (_ID, _ID, -1, known.epoch, last, 1000)
        pending = int(_PENDING.get(known.state, -1))
        partitions = "+".join(str(at) for at in range(2) if known.partitions >> at & 1)
        metadata = [*ids, int(known.state), partitions, started, 60, version, pending, 0]
    match case.request:
        case "init", expected:
            step = "init:1:NONE:1000:" + ("none" if expected is None else f"{_ID}:{expected}")
        case "verify", epoch, partition:
            step = f"verify:1:NONE:{_ID}:{epoch}:{partition}"
        case "expire", *_:
            step = f"expire:1:NONE:{_ID}"
        case kind, epoch, choice:
            step = f"{kind}:1:NONE:{_ID}:{epoch}:{choice}:{version}"
    steps = [step, "written:1:NONE"] if case.written else [step]
    return f"metadata={':'.join(map(str, metadata))} version=2 steps={','.join(steps)}"


def kafkas(answer: str) -> str:
    """Return what the specification has of the oracle's answer: the error, the state afterwards.

    Without partitions there are no markers to wait for (`maybeWriteTxnCompletion`). Before 3.8,
    TRANSACTION_ABORTABLE was INVALID_TXN_STATE.
    """
    answered, *_, completing, metadata = answer.split(" | ")
    error = answered.strip("{}").rpartition("=")[2].partition(":")[0]
    if answered.startswith("{"):
        error = error.replace("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE")
    if metadata == "none":
        return f"{error} none"
    fields = dict(word.split("=") for word in metadata.split())
    state = Txn(int(fields["state"]))
    if completing != "then nothing" and not fields["partitions"]:
        state = _PENDING[state]
    return f"{error} {state.name} {fields['epoch']} {fields['partitions']}"


def ours(case: Case, version: Version, rules: ModuleType) -> str:
    """Answer by the rules of a module: mutants have others. Before 4.0 there is one protocol."""
    protocol = case.protocol if version >= (4,) else 1
    model = TransactionModel(kafka_version=".".join(map(str, version)), protocol=protocol)
    known = after = case.known
    match case.request:
        case "init", expected:
            answer, after = rules.init_producer_id(model, known, expected)
        case "add", epoch, partition:
            answer, after = rules.add_partitions(model, known, epoch, partition)
        case "verify", epoch, partition:
            answer = rules.verify(known, epoch, partition)
        case "end", epoch, commit:
            answer, after = rules.end_txn(model, known, epoch, commit=bool(commit))
        case _:
            answer, after = rules.Answer.NONE, rules.fence(model, known)
    if case.written and known.state not in PREPARED:  # otherwise the markers are of another request
        after = rules.completed(after._replace(partitions=0)) if after.state in PREPARED else after
    if after.state is Txn.DEAD:
        return f"{answer.value} none"
    partitions = "+".join(str(at) for at in range(2) if after.partitions >> at & 1)
    return f"{answer.value} {after.state.name} {after.epoch} {partitions}"
