"""Makes the settings of a producer in force, for each value that its files leave open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ackproof.own_config.configuration import Client, Given, NoFile, Origin
from ackproof.scenario.client import JavaProducerSettings
from ackproof.scenario.librdkafka import ALIASES, AcksValue, parse_acks, require_legal
from ackproof_model.configuration import Profile

ACKS = "acks"
IDEMPOTENCE = "enable.idempotence"
CLIENT = "producer.version"
LIBRARY = "producer.library"

#: KIP-679: from 3.0 the Java producer's defaults are acks=all and idempotence.
_CLIENTS = (("before 3.0", "2.8.2"), ("3.0 or later", "3.9.1"))

_UNLIMITED = 2147483647
#: librdkafka's default of max.in.flight.requests.per.connection; 5 with idempotence.
_LIBRDKAFKA_IN_FLIGHT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """The effective settings of a producer.

    refusal: why its library refuses them. client: with the library and acks that are assumed.
    """

    acks: AcksValue
    idempotence: bool
    retries: int
    max_in_flight: int
    delivery_timeout_ms: int
    settings: Mapping[str, Given]
    when: Mapping[str, str]
    refusal: str = ""
    client: Client | None = None


def producers(producer: Client | None, kafka: str) -> Iterator[ProducerSettings]:
    """Yield the effective settings of a producer, for each value of what nobody states."""
    if producer is None:
        for acks, idempotence in (("0", False), ("1", False), ("all", False), ("all", True)):
            if idempotence and not Profile.of(kafka).transactions:
                continue
            yield ProducerSettings(
                acks=parse_acks(acks),
                idempotence=idempotence,
                retries=_UNLIMITED,
                max_in_flight=5,
                delivery_timeout_ms=120_000,
                settings={
                    ACKS: Given(acks, NoFile.ASSUMED),
                    IDEMPOTENCE: Given(str(idempotence).lower(), NoFile.ASSUMED),
                },
                when={ACKS: acks, IDEMPOTENCE: str(idempotence).lower()},
            )
    elif not producer.library:
        for library in ("java", "librdkafka"):
            yield from _assuming(replace(producer, library=library), kafka, {LIBRARY: library})
    elif name := next((key for key, given in producer.settings.items() if not given.value), ""):
        for acks in ("0", "1", "all"):
            settings = {**producer.settings, name: Given(acks, NoFile.ASSUMED)}
            yield from _assuming(replace(producer, settings=settings), kafka, {ACKS: acks})
    elif producer.library == "librdkafka":
        yield _librdkafka(producer)
    elif producer.version is not None:
        version = producer.version.value
        yield _java(producer, version + ".0" * (2 - version.count(".")), {})
    else:
        old, new = (_java(producer, release, {CLIENT: era}) for era, release in _CLIENTS)
        if (old.acks, old.idempotence) == (new.acks, new.idempotence):
            yield _java(producer, _CLIENTS[-1][1], {})
        else:
            yield from (old, new)


def _assuming(client: Client, kafka: str, when: Mapping[str, str]) -> Iterator[ProducerSettings]:
    for writes in producers(client, kafka):
        yield replace(writes, client=writes.client or client, when={**writes.when, **when})


def _librdkafka(producer: Client) -> ProducerSettings:
    values = {ALIASES.get(key, key): given for key, given in producer.settings.items()}
    refusal = _out_of_range(values)
    try:
        acks = parse_acks(values[ACKS].value if ACKS in values else "all")
    except ValueError as error:
        acks, refusal = "all", str(error)
    stated = values.get(IDEMPOTENCE)
    on = stated.value.strip().lower() == "true" if stated else "transactional.id" in values
    retries = values.get("retries")
    never = retries is not None and retries.value.strip() == "0"
    in_flight = values.get("max.in.flight.requests.per.connection")
    return _in_force(
        values,
        producer.default,
        acks=acks,
        idempotence=on,
        retries=0 if never else whole(retries, _UNLIMITED),
        max_in_flight=whole(in_flight, 5 if on else _LIBRDKAFKA_IN_FLIGHT),
        delivery_timeout_ms=whole(values.get("delivery.timeout.ms"), 300_000),
        when={},
        refusal=refusal,
    )


def _java(producer: Client, release: str, when: Mapping[str, str]) -> ProducerSettings:
    values = {key: given.value.strip() for key, given in producer.settings.items()}
    if "transactional.id" in values:
        values.setdefault(IDEMPOTENCE, "true")  # ProducerConfig.idempotenceEnabled
    settings = JavaProducerSettings.unchecked(values, release)
    refusal = _out_of_range(producer.settings)
    try:
        effective = (settings.acks, settings.idempotence, settings.retries, settings.max_in_flight)
        timeout = settings.delivery_timeout_ms
    except ValueError as error:
        effective, timeout, refusal = ("all", False, _UNLIMITED, 5), 120_000, str(error)
    acks, idempotence, retries, in_flight = effective
    return _in_force(
        producer.settings,
        replace(producer.default, version=when[CLIENT]) if CLIENT in when else producer.default,
        acks=acks,
        idempotence=idempotence,
        retries=max(retries, 0),
        max_in_flight=max(in_flight, 1),
        delivery_timeout_ms=timeout,
        when=when,
        refusal=refusal,
    )


def _in_force(
    stated: Mapping[str, Given], default: Origin, *, refusal: str, **effective: Any
) -> ProducerSettings:
    """Return the effective settings, those that are not stated with the source `default`."""
    acks, idempotence = effective["acks"], effective["idempotence"]
    try:
        require_legal(
            idempotence=idempotence,
            acks=acks,
            retries=effective["retries"],
            max_in_flight=effective["max_in_flight"],
        )
    except ValueError as error:
        refusal = refusal or str(error)
    return ProducerSettings(
        settings={
            ACKS: stated.get(ACKS) or Given(acks, default),
            IDEMPOTENCE: stated.get(IDEMPOTENCE) or Given(str(idempotence).lower(), default),
        },
        refusal=refusal,
        **effective,
    )


#: The least numbers that clients accept.
_LEAST = {"retries": 0, "max.in.flight.requests.per.connection": 1}


def _out_of_range(values: Mapping[str, Given]) -> str:
    """Return which number a client refuses; '' if it refuses none."""
    for key, least in _LEAST.items():
        text = values[key].value.strip() if key in values else ""
        if re.fullmatch(r"-?[0-9]{1,18}", text) and not least <= int(text) <= _UNLIMITED:
            return f"{key}={text} is not from {least} to {_UNLIMITED}"
    return ""


def whole(given: Given | None, default: int) -> int:
    """Return a count from 1; `default` for what is not a number, such as a placeholder."""
    text = given.value.strip() if given else ""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and int(text) else default
