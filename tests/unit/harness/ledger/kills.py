"""Kills a writer of a ledger over and over, each time at a byte drawn by lot; prints what it saw.

`python kills.py FOLDER TIMES SEED`. The writer is a fork of this process, which has no threads. It
tells through shared memory what it has reserved and what it has recorded, after each write.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from ackproof.ledger.producer_ledger import LedgerWriter, Origin, recover

ORIGIN = Origin(run_id="run-1", producer=0, topic="orders", partitions=3)
BATCH = 64
#: A stream grows by some 2 kB a batch.
LARGEST = 60_000


def write(path: Path, counts: memoryview) -> NoReturn:
    writer = LedgerWriter(path, ORIGIN)
    first = 0
    while True:
        writer.reserve(first + BATCH)
        counts[0] = first + BATCH
        sequence = np.arange(first, first + BATCH)
        writer.write(
            sequence=sequence,
            outcome=0,
            offset=pa.array(sequence * 7),
            sent_at=sequence,
            resolved_at=sequence,
        )
        first += BATCH
        counts[1] = first


def killed_at(path: Path, size: int, counts: memoryview) -> None:
    child = os.fork()
    if child == 0:
        write(path, counts)
    while not (path.exists() and path.stat().st_size >= size):
        os.sched_yield()
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def check(path: Path, *, reserved: int, recorded: int) -> str:
    """Return what is wrong with what can be read; empty if nothing."""
    table = recover(path)
    outcome = dict(zip(table["sequence"].to_pylist(), table["outcome"].to_pylist(), strict=True))
    offset = dict(zip(table["sequence"].to_pylist(), table["offset"].to_pylist(), strict=True))
    acked = [sequence for sequence, word in outcome.items() if word == "acked"]
    if sorted(outcome) != list(range(len(outcome))) or len(outcome) != table.num_rows:
        return "sends are missing or repeated"
    if len(outcome) < reserved:
        return f"{len(outcome)} sends, and {reserved} were reserved"
    if len(acked) < recorded or sorted(acked) != list(range(len(acked))):
        return f"{len(acked)} acked, and {recorded} were recorded"
    if len(outcome) > len(acked) + BATCH:
        return f"{len(outcome)} sends, and only {len(acked)} + {BATCH} can have been"
    if any(offset[sequence] != 7 * sequence for sequence in acked):
        return "an offset is not what was recorded"
    return ""


def main(folder: Path, times: int, seed: int) -> None:
    draw = random.Random(seed)
    shared = mmap.mmap(-1, 16)
    counts = memoryview(shared).cast("q")
    sizes = []
    for number in range(times):
        path = folder / str(number)
        counts[0] = counts[1] = 0
        killed_at(path, draw.randrange(LARGEST), counts)
        problem = check(path, reserved=counts[0], recorded=counts[1])
        size = path.stat().st_size
        if not problem:
            # SIGKILL cannot tear a write(2); whatever can is allowed to, at any byte.
            os.truncate(path, draw.randrange(size + 1))
            problem = check(path, reserved=0, recorded=0)
        if problem:
            sys.exit(f"kill {number} of seed {seed}, {size} bytes: {problem}")
        sizes.append(size)
        path.unlink()
    print(json.dumps({"kills": len(sizes), "sizes": len(set(sizes))}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
