"""Two answers of ours to one question are compared: the more cautious allows what the other finds.

Each test has a sample of its cases, all of them with `ACKPROOF_AGREEMENT=full`, and a part of all
with `ACKPROOF_AGREEMENT=3/8`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

Case = TypeVar("Case")

_ASKED = os.environ.get("ACKPROOF_AGREEMENT", "")
FULL = bool(_ASKED)
_PART, _PARTS = map(int, (_ASKED if "/" in _ASKED else "1/1").split("/"))


def sample(cases: Sequence[Case], *, every: int) -> Sequence[Case]:
    """Return every so many cases; all of them, or a part, in the full form."""
    return cases[_PART - 1 :: _PARTS] if FULL else cases[::every]


def with_progress(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the cases, and print in the full form how many are done."""
    for number, case in enumerate(cases, start=1):
        yield case
        if FULL and (sys.stderr.isatty() or number % 100 == 0):
            end = "\r" if sys.stderr.isatty() else "\n"
            sys.stderr.write(f"{number} of {len(cases)}{end}")
            sys.stderr.flush()
