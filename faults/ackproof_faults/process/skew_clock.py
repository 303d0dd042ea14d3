"""A broker's clock jumps forward or back, stays wrong, and jumps back when it is healed.

It is the clock that the broker's JVM sees (`cluster.clock: adjustable`), the time of day only: what
Kafka counts by the monotonic clock (sessions, purgatories, group timers) goes on as ever. By the
time of day (`Time.milliseconds`) go, among others:

- timestamps of records that the broker gives (`message.timestamp.type=LogAppendTime`), and how far
  off those may be that producers give (`message.timestamp.before.max.ms` and `after.max.ms`): to a
  broker that is an hour behind, everybody sends from the future (INVALID_TIMESTAMP, KIP-937);
- retention by time: to a clock that is further ahead than `retention.ms`, everything is old;
- who is in the ISR (`Replica.isCaughtUp`): after a jump forward by more than
  `replica.lag.time.max.ms`, a follower that has not all there is falls out of it at once; after one
  back, a follower that fetches no more stays in it until the clock has caught up;
- transactions, which time out at once after a jump forward (`transaction.timeout.ms`), and last
  longer after one back; expiry of producer ids, with which duplicates are told
  (`producer.id.expiration.ms`, a day), of transactional ids and of committed offsets (7 days);
- requests of the broker as a client of others, which time out at once after a jump forward
  (`NetworkClient`); after one back, it waits until the clock has caught up before it connects anew
  to whom it has last tried to reach by the later time (`ClusterConnectionStates`);
- timeouts counted by `Timer` (those of the metadata quorum among them): over at once after a jump
  forward, and after one back only once the clock has caught up;
- certificates' and delegation tokens' validity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from ackproof_faults.conditions.durations import Duration, Offset
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault, Shape

#: What a broker logs of a request that claims to have -1 bytes (`Selector.pollSelectionKeys`), at
#: once and without doing anything else.
_TOLD = "Unexpected error from"
_ASK = r"exec 3<> /dev/tcp/{address}/{port} && printf '\xff\xff\xff\xff' >&3"

#: How a line of the log begins; log4j 1 and 2 differ in the letter between.
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d),(\d{3})\]")

#: Clocks closer than this are called the same, seconds.
_SAME = 1.0


class SkewClock(Fault):
    """Have the clocks of running brokers be wrong; heal sets them right."""

    name: ClassVar[str] = "skew_clock"
    fault: Literal["skew_clock"] = "skew_clock"
    proof: ClassVar[str] = "the time in a line that the broker logs when it is asked to"
    by: Offset = Field(
        description="how far the clocks are ahead, or behind if negative; at least 5 s",
        examples=["90m", "-90m"],
    )
    within: Duration = Field(
        default=10.0, gt=0, description="how long to wait for a line in the broker's log"
    )

    @field_validator("by")
    @classmethod
    def _seen(cls, by: float) -> float:
        if abs(by) < 5 * _SAME:
            raise ValueError(f"{by:g} s is too little to be told from a slow machine: 5s or more")
        return by

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield brokers without clocks of their own, and controllers."""
        if not shape.own_clocks:
            yield (
                "fault",
                "skew_clock needs brokers that have clocks of their own: set cluster.clock: "
                "adjustable",
            )
        if self.target.of_controllers or set(shape.controllers) & set(shape.brokers):
            yield (
                "target",
                "by the controllers' clocks is told what happened when: only brokers that are no "
                "controllers can have wrong ones",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Set each clock off."""
        for node in nodes:
            if cluster.exit_status(node) is not None:
                raise FaultError(f"broker {node} is down: nobody sees its clock")
            cluster.shift_clock(node, self.by)

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Require that each broker logs with the wrong time."""
        proofs = []
        for node in nodes:
            least, most = self._ahead(cluster, node)
            if not least - _SAME <= self.by <= most + _SAME or least <= 0 <= most:
                raise FaultError(
                    f"broker {node}'s clock is {least:.1f} to {most:.1f} s ahead of this one, not "
                    f"{self.by:g} s"
                )
            proofs.append(f"broker {node} logs with a clock that is {most:+.1f} s off")
        return "; ".join(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Set each right."""
        for node in nodes:
            cluster.shift_clock(node, 0)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether each is in every ISR, and logs with the right time."""
        if not super().verify_healed(cluster, nodes):
            return False
        try:
            spans = [self._ahead(cluster, node) for node in nodes]
        except FaultError:  # another fault has it now
            return False
        return all(least - _SAME <= 0 <= most + _SAME for least, most in spans)

    def _ahead(self, cluster: Cluster, node: int) -> tuple[float, float]:
        """Return by how many seconds the broker's clock is ahead, at least and at most.

        It is asked from beside it and on its own listener, so that no cut is in the way.
        """
        ask = _ASK.format(address=cluster.address(node), port=cluster.port("INTERNAL"))
        before = datetime.now(UTC)
        asked = cluster.run_beside(node, ask)
        if asked.exit_status != 0:
            raise FaultError(f"broker {node} cannot be asked: {asked.output.strip()}")
        line = cluster.await_logged(node, _TOLD, since=before, within_s=self.within)
        after = datetime.now(UTC)
        stamp = _STAMP.search(line)
        if stamp is None:
            raise FaultError(f"broker {node} logs without a time: {line!r}")
        date, time, milliseconds = stamp.groups()
        logged = datetime.fromisoformat(f"{date}T{time}.{milliseconds}+00:00")
        return (logged - after).total_seconds(), (logged - before).total_seconds()
