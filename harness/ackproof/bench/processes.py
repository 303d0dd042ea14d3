"""Peak memory of driver, JVM and Python workers: this process and its descendants."""

from __future__ import annotations

from typing import Any

from ackproof.background import Repeating

_EVERY_S = 0.1


class PeakMemory(Repeating):
    """Samples resident memory while it is entered; `peaks` are in bytes, by kind and in total.

    Kinds: `driver` (this process), `jvm`, `workers` (all Python processes of Spark). Resident
    memory includes shared pages of each process, so sums are too high.
    """

    def __init__(self) -> None:
        super().__init__(every_s=_EVERY_S, name="peak memory")
        self.peaks: dict[str, int] = {"driver": 0, "jvm": 0, "workers": 0, "all": 0}

    def turn(self) -> None:
        """Sample once."""
        now = _resident()
        for kind, size in {**now, "all": sum(now.values())}.items():
            self.peaks[kind] = max(self.peaks[kind], size)


def _resident() -> dict[str, int]:
    import psutil

    me = psutil.Process()
    sizes = {"driver": me.memory_info().rss, "jvm": 0, "workers": 0}
    for child in me.children(recursive=True):
        try:
            sizes[_kind(child)] += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return sizes


def _kind(process: Any) -> str:
    return "jvm" if process.name() == "java" else "workers"
