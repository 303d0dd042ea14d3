"""Digests of jars that ackproof ships: fetched jars must be those that were published."""

from __future__ import annotations

import hashlib
import json
from importlib.resources.abc import Traversable
from pathlib import Path

#: What to do about a difference.
ADVICE = "Ask who runs this machine's Maven repository what it serves."


def difference(folder: Path, pins: Traversable) -> str:
    """Say which jar of `folder` is first to differ from the digests in `pins`; '' if none does.

    `pins` is a JSON file of names and SHA-256; it need not exist, and a jar need not be there.
    """
    if not pins.is_file():
        return ""
    for name, digest in json.loads(pins.read_text()).items():
        path = folder / name
        if path.exists() and (found := hashlib.sha256(path.read_bytes()).hexdigest()) != digest:
            return f"{name} is not the jar that was published: its SHA-256 is {found}, not {digest}"
    return ""
