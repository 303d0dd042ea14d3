"""Peak memory of this process's family, by what they are: driver, JVM, Python workers."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

_EVERY_S = 0.1


class PeakMemory:
    """Samples resident memory while it is entered; `peaks` in bytes, by kind and in all.

    Kinds: `driver` (this process), `jvm`, `workers` (Spark's Python processes, together).
    Resident memory counts what processes share in each of them, so sums err upwards.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {"driver": 0, "jvm": 0, "workers": 0, "all": 0}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_S):
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
