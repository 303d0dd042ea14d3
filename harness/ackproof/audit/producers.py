"""Computes the settings of a producer that are in force, for each value that is not stated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ackproof.kafka_versions import eras
from ackproof.own_config.configuration import Client, Default, Given, NoFile, Origin
from ackproof.own_config.lookups import converted, recorded_with
from ackproof.scenario.kafka_clients import (
    ALIASES,
    LIBRDKAFKA_BEFORE_1_0,
    LIBRDKAFKA_PRODUCER,
    LIBRDKAFKA_SINCE_1_0,
    MOST,
    AcksValue,
    JavaProducer,
    java_producer_defaults,
    out_of_range,
    parse_acks,
    require_legal,
)
from ackproof_model.configuration import MOST_IN_FLIGHT_IDEMPOTENT, Profile
from ackproof_model.kafka_settings import (
    ACKS,
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    RETRIES,
    TRANSACTIONAL_ID,
)

CLIENT = "producer.version"
LIBRARY = "producer.library"

#: The versions of the Java client that differ in the defaults of acks and idempotence.
_CLIENTS = eras(
    lambda release: [java_producer_defaults(release)[key] for key in (ACKS, ENABLE_IDEMPOTENCE)]
)


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
    """Yield the effective settings of a producer, for each combination of unstated values."""
    if producer is None:
        for acks, idempotence in (("0", False), ("1", False), ("all", False), ("all", True)):
            if idempotence and not Profile.of(kafka).transactions:
                continue
            yield ProducerSettings(
                acks=parse_acks(acks),
                idempotence=idempotence,
                retries=MOST,
                max_in_flight=5,
                delivery_timeout_ms=120_000,
                settings={
                    ACKS: Given(acks, NoFile.ASSUMED),
                    ENABLE_IDEMPOTENCE: Given(str(idempotence).lower(), NoFile.ASSUMED),
                },
                when={ACKS: acks, ENABLE_IDEMPOTENCE: str(idempotence).lower()},
            )
    elif not producer.library:
        for library in ("java", "librdkafka"):
            yield from _assuming(replace(producer, library=library), kafka, {LIBRARY: library})
    elif name := next((key for key, given in producer.settings.items() if not given.value), ""):
        for acks in ("0", "1", "all"):
            settings = recorded_with(
                producer.settings, {**producer.settings, name: Given(acks, NoFile.ASSUMED)}
            )
            yield from _assuming(replace(producer, settings=settings), kafka, {ACKS: acks})
    elif producer.library == "librdkafka":
        yield from _librdkafka_by_version(producer)
    elif producer.version is not None:
        yield _java(producer, producer.release, {})
    else:
        before = f"before {_CLIENTS[1].since}"
        labels = (before, *(era.label for era in _CLIENTS[1:]))
        each = [
            _java(producer, era.release, {CLIENT: label})
            for era, label in zip(_CLIENTS, labels, strict=True)
        ]
        if len({(one.acks, one.idempotence) for one in each}) == 1:
            yield _java(producer, _CLIENTS[-1].release, {})
        else:
            yield from each


def _assuming(client: Client, kafka: str, when: Mapping[str, str]) -> Iterator[ProducerSettings]:
    for writes in producers(client, kafka):
        yield replace(writes, client=writes.client or client, when={**writes.when, **when})


def _as_given(given: Given) -> Given:
    return given


def _librdkafka_by_version(producer: Client) -> Iterator[ProducerSettings]:
    """Yield the settings by both defaults of acks, unless a file shows which one counts."""
    names = {ALIASES.get(key, key) for key in producer.settings}
    if names & {ACKS, *LIBRDKAFKA_SINCE_1_0}:
        yield _librdkafka(producer, producer.default)
        return
    before, since = (
        replace(producer.default, version=one) for one in ("before 1.0", "1.0 or later")
    )
    older = {key: Given(one, before) for key, one in LIBRDKAFKA_BEFORE_1_0.items()}
    settings = recorded_with(producer.settings, {**older, **producer.settings})
    of_older = _librdkafka(replace(producer, settings=settings), before)
    yield replace(of_older, when={CLIENT: before.version})
    yield replace(_librdkafka(producer, since), when={CLIENT: since.version})


def _librdkafka(producer: Client, default: Default) -> ProducerSettings:
    values = converted(producer.settings, _as_given, lambda key: ALIASES.get(key, key))
    refusal = _out_of_range(values)
    try:
        acks = parse_acks(values[ACKS].value if ACKS in values else LIBRDKAFKA_PRODUCER[ACKS])
    except ValueError as error:
        acks, refusal = "all", str(error)
    stated = values.get(ENABLE_IDEMPOTENCE)
    on = stated.value.strip().lower() == "true" if stated else TRANSACTIONAL_ID in values
    retries = values.get(RETRIES)
    never = retries is not None and retries.value.strip() == "0"
    most = int(LIBRDKAFKA_PRODUCER[MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION])
    return _in_force(
        values,
        default,
        acks=acks,
        idempotence=on,
        retries=0 if never else whole(retries, MOST),
        max_in_flight=whole(
            values.get(MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION),
            MOST_IN_FLIGHT_IDEMPOTENT if on else most,
        ),
        delivery_timeout_ms=whole(
            values.get(DELIVERY_TIMEOUT_MS), int(LIBRDKAFKA_PRODUCER[DELIVERY_TIMEOUT_MS])
        ),
        when={},
        refusal=refusal,
    )


def _java(producer: Client, release: str, when: Mapping[str, str]) -> ProducerSettings:
    values = converted(producer.settings, lambda given: given.value.strip())
    java = JavaProducer(settings=values, version=release)
    refusal, started = _out_of_range(producer.settings), True
    try:
        effective = (java.acks, java.idempotence, java.retries, java.max_in_flight)
        timeout = java.delivery_timeout_ms
    except ValueError as error:
        effective, timeout, refusal = ("all", False, MOST, 5), 120_000, str(error)
        started = False  # no default is in force
    acks, idempotence, retries, in_flight = effective
    found = _in_force(
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
    of_file = {key: one for key, one in found.settings.items() if key in producer.settings}
    return found if started else replace(found, settings=of_file)


def _in_force(
    stated: Mapping[str, Given], default: Origin, *, refusal: str, **effective: Any
) -> ProducerSettings:
    """Return the effective settings; those that are not stated have a default as source."""
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
            ENABLE_IDEMPOTENCE: stated.get(ENABLE_IDEMPOTENCE)
            or Given(str(idempotence).lower(), default),
        },
        refusal=refusal,
        **effective,
    )


def _out_of_range(settings: Mapping[str, Given]) -> str:
    return out_of_range({key: given.value for key, given in settings.items()})


def whole(given: Given | None, default: int) -> int:
    """Return a number of at least 1; `default` if the text is no number, such as a placeholder."""
    text = given.value.strip() if given else ""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and int(text) else default
