"""Two answers of ours to one question are compared: the more cautious allows what the other finds.

Each test has a sample of its cases, and all of them with `ACKPROOF_AGREEMENT=full`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

FULL = os.environ.get("ACKPROOF_AGREEMENT") == "full"


def sample(cases: Sequence[Case], *, every: int) -> Sequence[Case]:
    """Return every so many cases; all of them in the full form."""
    return cases if FULL else cases[::every]
