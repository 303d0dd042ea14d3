"""The base of faults for clusters that ackproof did not start."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_faults.fault import Fault, Problem, Shape


class AttachedFault(Fault):
    """A fault that is refused on clusters that ackproof started, which support better faults."""

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if not shape.attached:
            yield (
                "fault",
                f"{self.name!r} is for clusters that ackproof did not start (cluster.attach)",
            )
