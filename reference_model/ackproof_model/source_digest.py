"""The version of the model: results that are stored under its digest expire when it changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def digest(*patterns: str) -> str:
    """Return the digest of the model's modules, or of those that match one of the patterns."""
    hashed = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted({path for one in patterns or ("**/*.py",) for path in root.glob(one)}):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()
