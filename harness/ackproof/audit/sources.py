"""The sources of settings in the answers for topics that share a search with another topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ackproof.audit.answer import Answer, Risk
from ackproof.own_config.configuration import Given, Origin, Topic

Sources = Mapping[Origin, Origin]


def renamed(first: Topic, other: Topic) -> Sources:
    """Map the sources of the first topic's settings to those of the second topic."""
    pairs = [(first.replication_factor, other.replication_factor)]
    pairs += [(given, other.settings.get(key)) for key, given in first.settings.items()]
    return {one.source: two.source for one, two in pairs if one and two}


def of_topic(answer: Answer, name: str, sources: Sources) -> Answer:
    """Return the answer for another topic with the same settings; its risks are shared.

    `with_own_sources` makes them its own: of thousands of topics few are shown.
    """
    settings = {
        key: Given(given.value, sources.get(given.source, given.source))
        for key, given in answer.settings.items()
    }
    return replace(answer, topic=name, settings=settings, sources=sources)


def with_own_sources(answer: Answer) -> Answer:
    """Return an answer whose risks name the sources of its own topic's settings."""
    if not answer.sources:
        return answer
    risks = tuple(with_sources(risk, answer.sources) for risk in answer.risks)
    return replace(answer, risks=risks, sources={})


def with_sources(risk: Risk, sources: Sources | Callable[[Origin], Origin]) -> Risk:
    """Return a risk with other sources of the settings that decide it."""
    if not risk.decided_by:
        return risk
    source = sources if callable(sources) else lambda one: sources.get(one, one)
    changes = tuple(replace(one, source=source(one.source)) for one in risk.decided_by)
    return replace(risk, decided_by=changes)
