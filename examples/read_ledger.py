"""Prints the outcomes in the ledger of a stored run, and its longest time without an ack.

python examples/read_ledger.py runs/latest
"""

import sys

import pyarrow.compute as pc

import ackproof as ap

ledger = ap.read_ledger(sys.argv[1])
for row in pc.value_counts(ledger["outcome"]).to_pylist():
    print(f"{row['values']}: {row['counts']:,}")
acked = ledger.filter(pc.field("outcome") == "acked")["resolved_at"]
times = sorted(time.as_py() for time in acked)
pauses = zip(times[1:], times, strict=False)
longest = max(((after - before, before) for after, before in pauses), default=None)
if longest:
    print(f"longest time without an ack: {longest[0].total_seconds():.2f} s from {longest[1]}")
