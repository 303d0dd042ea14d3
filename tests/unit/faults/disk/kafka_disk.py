"""A broker's disk in Kafka's formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import segment_files
from ackproof_faults.disk import _disk


def batch(first: int, count: int, size: int = 100) -> bytes:
    """Return a batch with a correct CRC and arbitrary records."""
    return segment_files.batch(first, count=count, payload=b"r" * size)


def write(folder: Path, base: int, batches: Sequence[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    (folder / f"{base:020}.index").write_bytes(bytes(16))


def write_disk(disk: Path) -> None:
    """Write orders-0: offsets 0 to 9 in a full segment, 10 to 19 in the active one."""
    data = disk / "data"
    write(data / "orders-0", 0, [batch(0, 5), batch(5, 5)])
    write(data / "orders-0", 10, [batch(10, 4), batch(14, 6)])
    write(data / "__cluster_metadata-0", 0, [batch(0, 5)])
    (disk / "data-2").mkdir()
    for folder in ("data", "data-2"):
        (disk / folder / "meta.properties").write_text("version=1")
        for file in (_disk.RECOVERY_POINTS, _disk.HIGH_WATERMARKS):
            held = {"orders-0": 10} if folder == "data" else {}
            (disk / folder / file).write_text(_disk.checkpoint_text(held))
