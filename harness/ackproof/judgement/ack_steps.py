"""The acks of a partition, as steps of its trace.

The model cannot distinguish acks with the same final epoch at their offset and the same elections
that may have been in force. Each group of such acks is represented by its least and its greatest
offset.

The final log of a transactional topic lacks the records of aborted transactions, which the replicas
have. It does not show whether replication lost such a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ackproof.observation.broker_log import BrokerEvent, Kind
from ackproof_model.validation.partition_trace import Acked, Log

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_INFINITE = (1 << 63) - 1
_UNKNOWN = 2

#: Columns that `ack_steps` needs of the ledger and of the final log.
LEDGER_COLUMNS = ["offset", "producer", "sequence", "sent_at", "resolved_at"]
FINAL_LOG_COLUMNS = ["offset", "producer", "sequence"]


def ack_steps(
    ledger: pa.Table,
    *,
    all_replicas: bool,
    final_log: pa.Table,
    final_log_complete: bool,
    leader_log: Log | None,
    transactional: pa.Table | None = None,
    states: Sequence[Mapping[str, Any]],
    events: Mapping[int, Sequence[BrokerEvent]],
    slack: timedelta | None,
) -> Iterator[Acked]:
    """Yield the acked sends of a partition, ordered by the states in which they were acked.

    `ledger` has its acked sends with an offset, `all_replicas` means acks=all. `leader_log` is the
    last leader's log in the end, None if its disk was not read. `transactional` are the batches of
    transactions in it (columns `base_offset` and `last_offset`). `states` are the partition's
    states in the controller's log, `events` are the log lines of each replica. `slack` bounds the
    difference of their clocks to this host's, None if acks cannot be dated.
    """
    import numpy as np

    if not len(ledger):
        return
    offsets = ledger["offset"].to_numpy()
    replaced = _replaced(ledger, final_log)
    if transactional is not None:
        hidden = _within(offsets, transactional) & ~np.isin(offsets, final_log["offset"].to_numpy())
        replaced[hidden] = _UNKNOWN
    epochs = np.full(len(offsets), -1)
    if leader_log is not None and leader_log.epochs:
        starts = np.array([start for _, start in leader_log.epochs])
        numbers = np.array([epoch for epoch, _ in leader_log.epochs])
        present = offsets < leader_log.end
        epochs[present] = numbers[np.searchsorted(starts, offsets[present], side="right") - 1]
    if slack is None:
        first = np.zeros(len(offsets), dtype=np.int64)
        last = np.full(len(offsets), len(states) - 1)
    else:
        first, last = _states_in_force(ledger, states, events, slack)
    keys = np.stack([epochs, replaced, first, last], axis=1)
    groups, group_of = np.unique(keys, axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    greatest = np.full(len(groups), -1)
    least = np.full(len(groups), _INFINITE)
    np.maximum.at(greatest, group_of, offsets)
    np.minimum.at(least, group_of, offsets)
    loss_known = leader_log is not None and final_log_complete
    for group, low, high in sorted(
        zip(groups.tolist(), least.tolist(), greatest.tolist(), strict=True),
        key=lambda row: (row[0][2], row[2]),
    ):
        epoch, lost, begin, end = group
        for offset in sorted({low, high}):
            yield Acked(
                offset=offset,
                everyone=all_replicas,
                epoch=None if epoch < 0 else epoch,
                lost=bool(lost) if loss_known and lost != _UNKNOWN else None,
                first=begin,
                last=end,
            )


def _replaced(ledger: pa.Table, final_log: pa.Table) -> npt.NDArray[np.int64]:
    """Return for each ack 1 if the final log has no record, or another one, at its offset."""
    import numpy as np

    final_log = final_log.sort_by("offset")
    offsets = ledger["offset"].to_numpy()
    if not len(final_log):
        return np.ones(len(offsets), dtype=np.int64)
    index = np.searchsorted(final_log["offset"].to_numpy(), offsets)
    index = np.minimum(index, len(final_log) - 1)
    same = np.ones(len(offsets), dtype=bool)
    for name in FINAL_LOG_COLUMNS:
        same &= final_log[name].fill_null(-1).to_numpy()[index] == ledger[name].to_numpy()
    return (~same).astype(np.int64)


def _within(offsets: npt.NDArray[np.int64], batches: pa.Table) -> npt.NDArray[np.bool_]:
    """Return for each offset whether it is in one of the batches."""
    import numpy as np

    if not len(batches):
        return np.zeros(len(offsets), dtype=bool)
    batches = batches.sort_by("base_offset")
    base, last = batches["base_offset"].to_numpy(), batches["last_offset"].to_numpy()
    index = np.searchsorted(base, offsets, side="right") - 1
    return np.asarray((index >= 0) & (offsets <= last[index]), dtype=bool)


def _states_in_force(
    ledger: pa.Table,
    states: Sequence[Mapping[str, Any]],
    events: Mapping[int, Sequence[BrokerEvent]],
    slack: timedelta,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first and the last state in which each ack may have been sent, by time."""
    import numpy as np
    import pyarrow as pa

    begins = np.array([_micros(state["at"] - slack) for state in states])
    ends = np.array([_last_possible_ack(state, events, slack) for state in states])
    sent = ledger["sent_at"].cast(pa.int64()).to_numpy()
    resolved = ledger["resolved_at"].cast(pa.int64()).to_numpy()
    first = np.searchsorted(np.maximum.accumulate(ends), sent, side="left")
    last = np.searchsorted(np.maximum.accumulate(begins), resolved, side="right") - 1
    return first, last


def _last_possible_ack(
    state: Mapping[str, Any], events: Mapping[int, Sequence[BrokerEvent]], slack: timedelta
) -> int:
    """Return the time after which the state's leader acks nothing with the state's ISR."""
    epoch = state["leader_epoch"]
    led = False
    for event in events.get(state["leader"], ()):
        isr_changed = event.partition_epoch is not None and (
            event.partition_epoch > state["partition_epoch"]
        )
        later_epoch = event.leader_epoch is not None and event.leader_epoch > epoch
        if isr_changed or later_epoch or (led and event.kind is Kind.LOADED):
            return _micros(event.at + slack) if led else 0
        led = led or (event.kind is Kind.LEADER and event.leader_epoch == epoch)
    return _INFINITE if led else 0


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)
