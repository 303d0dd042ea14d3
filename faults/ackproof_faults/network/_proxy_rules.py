"""Where the Kafka proxy can apply a rule, and the proof that it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackproof_faults.conditions.targets import TargetSpec
from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Problem
from ackproof_faults.interfaces.kafka_proxy import (
    BETWEEN_BROKERS,
    TO_CONTROLLERS,
    Api,
    Link,
    Rule,
)
from ackproof_model.effects import Intercepts

#: How many of the messages are named in the evidence.
_NAMED = 3


def interception(rule: Rule) -> Intercepts:
    return Intercepts(
        api=rule.api,
        direction=rule.direction,
        action=rule.action,
        by=rule.delay_s or None,
        client=rule.client,
        count=rule.count,
    )


def proxy_problems(api: Api, proxied: Sequence[str], target: TargetSpec) -> Iterator[Problem]:
    """Yield why no message of this API passes the proxy on its way to the target."""
    if not proxied:
        yield (
            "fault",
            "'link' needs a listener behind the Kafka proxy: name one in cluster.listeners, "
            "cluster.proxied and workload.listener",
        )
        return
    if api in BETWEEN_BROKERS and "INTERNAL" not in proxied:
        yield "api", f"{api} needs INTERNAL in cluster.proxied"
    if (target.of_controllers or api in TO_CONTROLLERS) and "CONTROLLER" not in proxied:
        yield "api", f"{api} to controllers needs CONTROLLER in cluster.proxied"
    elif api in TO_CONTROLLERS and not target.of_controllers:
        yield "target", f"{api} is sent to controllers: write 'active controller'"


def require_hit(proxy: Link, rule: Rule, *, within_s: float) -> Evidence:
    """Wait until the rule was applied to a message; raise FaultError after `within_s`."""
    hits = proxy.hits(rule, at_least=1, within_s=within_s)
    if not hits:
        raise FaultError(
            f"no {rule.api} {rule.direction} passed broker "
            f"{', '.join(map(str, sorted(rule.brokers)))} within {within_s:g} s"
        )
    more = f" and {len(hits) - _NAMED} more" if len(hits) > _NAMED else ""
    return Evidence(text=f"{rule.action}: {'; '.join(hits[:_NAMED])}{more}")
