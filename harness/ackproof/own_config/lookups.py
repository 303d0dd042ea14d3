"""Settings that record which names are looked up, so that a report knows what was used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ackproof.own_config.configuration import Bearer, Client, Given, OwnConfig

_Value = TypeVar("_Value")


class Watched(dict[str, _Value]):
    """A mapping that records each name that is looked up and stands in it.

    Copies and iterations record nothing. names: the names to record, where keys were renamed.
    """

    __slots__ = ("asked", "names")

    def __init__(
        self,
        settings: Mapping[str, _Value],
        asked: set[str],
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(settings)
        self.asked = asked
        self.names = names or {}

    def __getitem__(self, key: str) -> _Value:
        self.asked.add(self.names.get(key, key))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        if found:
            self.asked.add(self.names.get(str(key), str(key)))
        return found

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if super().__contains__(key) else default


def converted(
    settings: Mapping[str, Given],
    value: Callable[[Given], _Value],
    name: Callable[[str], str] = str,
) -> Mapping[str, _Value]:
    """Return settings with other values and names; lookups are recorded by the names before."""
    pairs = {name(key): value(given) for key, given in settings.items()}
    if not isinstance(settings, Watched):
        return pairs
    before = {name(key): settings.names.get(key, key) for key in settings}
    return Watched(pairs, settings.asked, before)


def recorded_with(settings: Mapping[str, Any], result: dict[str, _Value]) -> dict[str, _Value]:
    """Return a mapping made of settings whose lookups are recorded as those of the settings."""
    return Watched(result, settings.asked) if isinstance(settings, Watched) else result


@dataclass(frozen=True, slots=True)
class Lookups:
    """The names that were looked up in the settings of brokers, of topics, and so on."""

    of: Mapping[Bearer, set[str]] = field(
        default_factory=lambda: {
            bearer: set() for bearer in ("broker", "controller", "topic", "producer", "consumer")
        }
    )

    def watch(self, own: OwnConfig) -> OwnConfig:
        """Return a configuration whose lookups are recorded here."""
        return replace(
            own,
            broker=Watched(own.broker, self.of["broker"]),
            controller=Watched(own.controller, self.of["controller"]),
            dynamic=Watched(own.dynamic, self.of["broker"]),
            topics=tuple(
                replace(one, settings=Watched(one.settings, self.of["topic"])) for one in own.topics
            ),
            producers=self._clients(own.producers, "producer"),
            consumers=self._clients(own.consumers, "consumer"),
        )

    def _clients(self, clients: tuple[Client, ...], bearer: Bearer) -> tuple[Client, ...]:
        return tuple(
            replace(one, settings=Watched(one.settings, self.of[bearer])) for one in clients
        )
