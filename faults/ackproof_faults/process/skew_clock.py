"""A broker's clock jumps or drifts away from the right time, and jumps back when it is healed.

The brokers need `cluster.clock: adjustable`. The clock is the time of day of the broker's JVM
(`Time.milliseconds`); the fault reads it from a log line. The monotonic clock, which sessions,
purgatories and group timers use, does not change. The time of day decides, among others:

- timestamps that the broker sets (`message.timestamp.type=LogAppendTime`), and which timestamps of
  producers it accepts (`message.timestamp.before.max.ms` and `after.max.ms`): a broker that is an
  hour behind refuses all records (INVALID_TIMESTAMP, KIP-937);
- retention by time: if the clock is further ahead than `retention.ms`, every segment is too old;
- the ISR (`Replica.isCaughtUp`): after a jump forward by more than `replica.lag.time.max.ms` a
  follower without the latest record leaves it at once; after a jump back, a follower that no longer
  fetches stays in it until the clock has caught up;
- transactions, which time out at once after a jump forward (`transaction.timeout.ms`) and last
  longer after a jump back; expiry of producer ids (`producer.id.expiration.ms`, one day), of
  transactional ids and of committed offsets (7 days);
- requests that the broker sends, which time out at once after a jump forward (`NetworkClient`);
  after a jump back it reconnects to a node only when the clock has reached the time of the last
  attempt (`ClusterConnectionStates`);
- timeouts of `Timer`, for example of the metadata quorum: they end at once after a jump forward,
  and after a jump back when the clock has caught up;
- the validity of certificates and delegation tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, field_validator

from ackproof_faults.conditions.durations import Duration, Offset
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import require_running
from ackproof_model.effects import Effects, Skews

#: A broker logs this at once on a request with a size of -1 bytes (`Selector.pollSelectionKeys`);
#: the request has no other effect.
_LOG_LINE = "Unexpected error from"
_REQUEST = r"exec 3<> /dev/tcp/{address}/{port} && printf '\xff\xff\xff\xff' >&3"

#: The time at the beginning of a log line; log4j 1 and 2 differ in the separator.
_TIME = re.compile(r"\[(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d),(\d{3})\]")


def clock_offset(cluster: Cluster, broker: int, *, within_s: float) -> tuple[float, float]:
    """Return bounds for the seconds by which the broker's clock is ahead of this machine's.

    The request comes from the broker's own network namespace, so that no network fault affects it.
    Raises FaultError if the broker does not log within `within_s`.
    """
    request = _REQUEST.format(
        address=cluster.network.address(broker), port=cluster.network.port("INTERNAL")
    )
    before = datetime.now(UTC)
    result = cluster.network.run(broker, request)
    if result.exit_status != 0:
        raise FaultError(f"broker {broker} accepts no connection: {result.output.strip()}")
    line = cluster.logs.await_line(broker, _LOG_LINE, since=before, within_s=within_s)
    after = datetime.now(UTC)
    stamp = _TIME.search(line)
    if stamp is None:
        raise FaultError(f"broker {broker} logs without a time: {line!r}")
    date, time, milliseconds = stamp.groups()
    logged = datetime.fromisoformat(f"{date}T{time}.{milliseconds}+00:00")
    return (logged - after).total_seconds(), (logged - before).total_seconds()


#: Clocks with a smaller difference count as equal, seconds.
_TOLERANCE_S = 1.0


class _WrongClock(Fault):
    requires = ("metadata", "processes", "network", "logs", "clocks")
    explained = True
    skews_clocks = True
    within: Duration = Field(default=10.0, gt=0, description="how long to wait for a log line")

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if not shape.own_clocks:
            yield "fault", f"{self.name} needs adjustable clocks: set cluster.clock: adjustable"
        if self.target.of_controllers or shape.combined:
            yield (
                "target",
                "the controllers' clocks date the run's events: only brokers that are not "
                "controllers can have wrong clocks",
            )

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: object) -> None:
        for node in nodes:
            cluster.clocks.shift(node, 0)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: object) -> bool:
        if not super().verify_healed(cluster, nodes, done):
            return False
        try:
            offsets = [clock_offset(cluster, node, within_s=self.within) for node in nodes]
        except FaultError:  # another fault may have stopped the broker
            return False
        return all(least <= _TOLERANCE_S and most >= -_TOLERANCE_S for least, most in offsets)


class SkewClock(_WrongClock):
    """Set the clocks of running brokers wrong; heal sets them right."""

    occupies = "clock"
    fault: Literal["skew_clock"] = "skew_clock"
    proof = "the time of a line that the broker is made to log"
    by: Offset = Field(
        description="how far the clocks are ahead, or behind if negative; at least 5 s",
        examples=["90m", "-90m"],
    )

    @property
    def effects(self) -> Effects:
        return (Skews(by=self.by),)

    @field_validator("by")
    @classmethod
    def _large_enough(cls, by: float) -> float:
        if abs(by) < 5 * _TOLERANCE_S:
            raise ValueError(f"{by:g} s could also be a slow machine: write 5s or more")
        return by

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.clocks.shift(node, self.by)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        proofs = []
        for node in nodes:
            least, most = clock_offset(cluster, node, within_s=self.within)
            if not least - _TOLERANCE_S <= self.by <= most + _TOLERANCE_S or least <= 0 <= most:
                raise FaultError(
                    f"broker {node}'s clock is {least:.1f} to {most:.1f} s ahead, not {self.by:g} s"
                )
            proofs.append(f"broker {node} logs with a clock that is {most:+.1f} s off")
        return Evidence.joined(proofs)


class DriftClock(_WrongClock):
    """Let the clocks of running brokers run too fast or too slowly; heal sets them right."""

    occupies = "clock"
    fault: Literal["drift_clock"] = "drift_clock"
    proof = "the times of lines that the broker is made to log, until 3 s are off"
    per_minute: Offset = Field(
        ge=-30,
        le=60,
        description="what the clocks gain in a minute, or lose if negative; at least 3 s",
        examples=["30s", "-30s"],
    )

    @property
    def effects(self) -> Effects:
        return (Skews(by=self._off(self.heal_after or _DAY_S)),)

    def _off(self, seconds: float) -> float:
        """Return how far the clocks are ahead after these seconds."""
        return self.per_minute / 60 * seconds

    @field_validator("per_minute")
    @classmethod
    def _fast_enough(cls, per_minute: float) -> float:
        if abs(per_minute) < 3:
            raise ValueError(f"{per_minute:g} s takes too long to observe: write 3s or more")
        return per_minute

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> tuple[datetime, datetime]:
        """Return two times between which the clocks began to drift."""
        require_running(cluster, nodes)
        before = datetime.now(UTC)
        for node in nodes:
            cluster.clocks.shift(node, 0, drift=self._off(1))
        return before, datetime.now(UTC)

    def verify(
        self, cluster: Cluster, nodes: Sequence[int], done: tuple[datetime, datetime]
    ) -> Evidence:
        """Read each clock until it is clearly wrong, and each time by what it should be."""
        proofs = []
        for node in nodes:
            nearest = 0.0
            while abs(nearest) < 3 * _TOLERANCE_S:
                asked = datetime.now(UTC)
                least, most = clock_offset(cluster, node, within_s=self.within)
                nearest = self._off((asked - done[1]).total_seconds())
                farthest = self._off((datetime.now(UTC) - done[0]).total_seconds())
                low, high = sorted((nearest, farthest))
                if high < least - _TOLERANCE_S or low > most + _TOLERANCE_S:
                    raise FaultError(
                        f"broker {node}'s clock is {least:.1f} to {most:.1f} s ahead, not "
                        f"{low:.1f} to {high:.1f} s"
                    )
            proofs.append(f"broker {node} logs with a clock that is {most:+.1f} s off and drifts")
        return Evidence.joined(proofs)


#: The longest that a drift is assumed to last, seconds.
_DAY_S = 24 * 3600.0
