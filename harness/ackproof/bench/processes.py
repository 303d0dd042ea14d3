"""Peak memory of this process's family, by what they are: driver, JVM, Python workers."""

from __future__ import annotations

from typing import Any

from ackproof.background import Repeating

_EVERY_S = 0.1


class PeakMemory(Repeating):
    """Samples resident memory while it is entered; `peaks` in bytes, by kind and in all.

    Kinds: `driver` (this process), `jvm`, `workers` (Spark's Python processes, together).
    Resident memory counts what processes share in each of them, so sums err upwards.
    """

    def __init__(self) -> None:
        super().__init__(every_s=_EVERY_S, name="peak memory")
        self.peaks: dict[str, int] = {"driver": 0, "jvm": 0, "workers": 0, "all": 0}

    def turn(self) -> None:
        """Look once."""
        now = _family()
        for kind, size in {**now, "all": sum(now.values())}.items():
            self.peaks[kind] = max(self.peaks[kind], size)


def _family() -> dict[str, int]:
    import psutil

    me = psutil.Process()
    found = {"driver": me.memory_info().rss, "jvm": 0, "workers": 0}
    for child in me.children(recursive=True):
        try:
            found[_kind(child)] += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return found


def _kind(process: Any) -> str:
    return "jvm" if process.name() == "java" else "workers"
