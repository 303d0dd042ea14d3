"""The probe process: writes and reads each partition all the time, each with clients of its own.

`python -m ackproof.clients.probe SPEC.json` (a `ProbeSpec`); `process` starts it.

A partition that does not answer must not delay the others: a broker serves the requests of a
connection one after the other. So each partition has a producer (`producer`) and a consumer
(`partition_reader`), each with a thread of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial

from ackproof.clients import main, orphan_guard, producer
from ackproof.clients.partition_reader import PartitionReader
from ackproof.clients.probe_spec import ProbeSpec
from ackproof.clients.shared_page import ProgressPage, State, now_us

#: Seconds between two checks for a stop.
_LOOK_S = 0.1


class Probe:
    """The writers and readers of all partitions."""

    def __init__(self, spec: ProbeSpec, page: ProgressPage, secrets: Mapping[str, str]) -> None:
        self._page = page
        self._parent = orphan_guard.expected_parent(spec.parent)
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._pages = [ProgressPage(one.progress, create=True) for one in spec.writers]
        self._writers = [
            producer.begin(one, own_page, secrets)
            for one, own_page in zip(spec.writers, self._pages, strict=True)
        ]
        self._readers = [
            PartitionReader(one, attempts, secrets)
            for one, attempts in zip(spec.writers, spec.attempts, strict=True)
        ]
        for reader in self._readers:
            reader.await_first_answer()

    def terminate(self) -> None:
        """Stop at the next iteration. A signal handler may call this."""
        self._stop.set()

    def run(self) -> None:
        """Probe until the harness asks for the end. Raises the first failure of a thread."""
        threads = [
            threading.Thread(target=partial(self._guarded, run), daemon=True)
            for run in (
                *(writer.run for writer in self._writers),
                *(reader.run for reader in self._readers),
            )
        ]
        for thread in threads:
            thread.start()
        self._page.state = State.PRODUCING
        while not (self._page.stop or self._failures or os.getppid() != self._parent):
            if self._stop.wait(_LOOK_S):
                break
        self._page.state = State.SETTLING
        for page in self._pages:
            page.stop = True
        for reader in self._readers:
            reader.stop()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        self._count()

    def _count(self) -> None:
        """Publish that all attempts are recorded: the judge then misses each that is not."""
        for page in self._pages:
            page.state = State.DONE
        attempts = sum(reader.attempts for reader in self._readers)
        answers = sum(reader.answers for reader in self._readers)
        self._page.count(
            sent=attempts, acked=answers, failed=0, unknown=attempts - answers, at=now_us()
        )

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as failure:  # raised again in the main thread
            self._failures.append(failure)


def begin(spec: ProbeSpec, page: ProgressPage, secrets: Mapping[str, str]) -> Probe:
    """Return a probe whose clients are connected."""
    return Probe(spec, page, secrets)


if __name__ == "__main__":
    sys.exit(main.run(ProbeSpec, begin))
