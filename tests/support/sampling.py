"""Samples of long lists of cases, which new cases do not move."""

from __future__ import annotations

import hashlib
import os


def drawn(name: str, *, one_of: int) -> bool:
    """Whether a case is in a sample: by its name alone. All are with ACKPROOF_ALL_ADVICE=1."""
    digest = hashlib.sha256(name.encode()).digest()
    return bool(os.environ.get("ACKPROOF_ALL_ADVICE")) or int.from_bytes(digest[:4]) % one_of == 0
