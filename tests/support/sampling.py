"""Samples of long lists of cases, which new cases do not move."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def drawn(name: str, *, one_of: int) -> bool:
    """Whether a case is in a sample: by its name alone. All are with ACKPROOF_ALL_ADVICE=1."""
    return bool(os.environ.get("ACKPROOF_ALL_ADVICE")) or in_sample(name, one_of)


def others_slow(cases: Iterable[Case], name: Callable[[Case], str], *, one_of: int) -> list[object]:
    """Return all cases as parameters of a test; those outside the sample have the mark `slow`."""
    return [
        pytest.param(
            case,
            id=name(case),
            marks=() if in_sample(name(case), one_of) else (pytest.mark.slow,),
        )
        for case in cases
    ]


def in_sample(name: str, one_of: int) -> bool:
    """Whether a case is in the sample of `ci/test`: by its name alone."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4]) % one_of == 0
