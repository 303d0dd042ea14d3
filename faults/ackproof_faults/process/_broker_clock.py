"""The offset of a broker's clock, from a log line that the broker is made to write.

It is the time of day of the broker's JVM (`Time.milliseconds`). The monotonic clock, by which
sessions, purgatories and group timers count, is not changed. On the time of day depend, among
others:

- timestamps that the broker sets (`message.timestamp.type=LogAppendTime`), and which timestamps of
  producers it accepts (`message.timestamp.before.max.ms` and `after.max.ms`): a broker that is an
  hour behind refuses what everybody sends (INVALID_TIMESTAMP, KIP-937);
- retention by time: for a clock further ahead than `retention.ms`, every segment is too old;
- the ISR (`Replica.isCaughtUp`): after a jump forward by more than `replica.lag.time.max.ms` a
  follower that lacks a record leaves it at once; after a jump back, a follower that no longer
  fetches stays in it until the clock has caught up;
- transactions, which time out at once after a jump forward (`transaction.timeout.ms`) and last
  longer after one back; expiry of producer ids (`producer.id.expiration.ms`, one day), of
  transactional ids and of committed offsets (7 days);
- requests that the broker sends as a client, which time out at once after a jump forward
  (`NetworkClient`); after a jump back it reconnects to a node only when the clock has reached the
  time of the last attempt (`ClusterConnectionStates`);
- timeouts of `Timer`, those of the metadata quorum among them: over at once after a jump forward,
  and after one back only when the clock has caught up;
- the validity of certificates and delegation tokens.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.cluster import Cluster

#: What a broker logs on a request that claims a size of -1 bytes (`Selector.pollSelectionKeys`),
#: at once and without any other effect.
_LOG_LINE = "Unexpected error from"
_REQUEST = r"exec 3<> /dev/tcp/{address}/{port} && printf '\xff\xff\xff\xff' >&3"

#: The time at the beginning of a log line; log4j 1 and 2 differ in the separator.
_TIME = re.compile(r"\[(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d),(\d{3})\]")


def clock_offset(cluster: Cluster, broker: int, *, within_s: float) -> tuple[float, float]:
    """Return the bounds of how many seconds the broker's clock is ahead of this machine's.

    The request is sent from the broker's own network namespace to its INTERNAL listener, so that
    no cut is in the way. Raises FaultError if the broker does not log within `within_s`.
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
