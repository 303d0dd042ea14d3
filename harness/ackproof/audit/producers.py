"""Makes the settings of a producer in force, for each value that its files leave open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ackproof.own_config.configuration import Client, Given
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
                settings={ACKS: Given(acks, ""), IDEMPOTENCE: Given(str(idempotence).lower(), "")},
                when={ACKS: acks, IDEMPOTENCE: str(idempotence).lower()},
            )
    elif not producer.library:
        for library in ("java", "librdkafka"):
            yield from _assuming(replace(producer, library=library), kafka, {LIBRARY: library})
    elif name := next((key for key, given in producer.settings.items() if not given.value), ""):
        for acks in ("0", "1", "all"):
            settings = {**producer.settings, name: Given(acks, "")}
            yield from _assuming(replace(producer, settings=settings), kafka, {ACKS: acks})
    elif producer.library == "librdkafka":
        yield _librdkafka(producer)
    elif producer.version is not None:
        yield _java(producer, _release(producer.version.value), {})
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
    refusal, default = _out_of_range(values), producer.default
    try:
        acks = parse_acks(values[ACKS].value if ACKS in values else "all")
    except ValueError as error:
        acks, refusal = "all", str(error)
    on = values.get(IDEMPOTENCE) or Given(str("transactional.id" in values).lower(), default)
    idempotence = on.value.strip().lower() == "true"
    in_flight = values.get("max.in.flight.requests.per.connection")
    timeout = values.get("delivery.timeout.ms")
    writes = ProducerSettings(
        acks=acks,
        idempotence=idempotence,
        retries=_number(values.get("retries"), _UNLIMITED),
        max_in_flight=whole(in_flight, 5 if idempotence else _LIBRDKAFKA_IN_FLIGHT),
        delivery_timeout_ms=whole(timeout, 300_000),
        settings={
            ACKS: values.get(ACKS) or Given(acks, default),
            IDEMPOTENCE: on,
        },
        when={},
        refusal=refusal,
    )
    return _checked(writes)


def _number(given: Given | None, default: int) -> int:
    """Return a number from 0."""
    return 0 if given and given.value.strip() == "0" else whole(given, default)


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
    default = f"{producer.default} {when.get(CLIENT, '')}".rstrip()
    writes = ProducerSettings(
        acks=acks,
        idempotence=idempotence,
        retries=max(retries, 0),
        max_in_flight=max(in_flight, 1),
        delivery_timeout_ms=timeout,
        settings={
            ACKS: producer.settings.get(ACKS) or Given(acks, default),
            IDEMPOTENCE: producer.settings.get(IDEMPOTENCE)
            or Given(str(idempotence).lower(), default),
        },
        when=when,
        refusal=refusal,
    )
    return _checked(writes)


#: The least numbers that clients accept.
_LEAST = {"retries": 0, "max.in.flight.requests.per.connection": 1}


def _out_of_range(values: Mapping[str, Given]) -> str:
    """Return which number a client refuses; '' if it refuses none."""
    for key, least in _LEAST.items():
        text = values[key].value.strip() if key in values else ""
        if re.fullmatch(r"-?[0-9]{1,18}", text) and not least <= int(text) <= _UNLIMITED:
            return f"{key}={text} is not from {least} to {_UNLIMITED}"
    return ""


def _checked(writes: ProducerSettings) -> ProducerSettings:
    try:
        require_legal(
            idempotence=writes.idempotence,
            acks=writes.acks,
            retries=writes.retries,
            max_in_flight=writes.max_in_flight,
        )
    except ValueError as error:
        return replace(writes, refusal=writes.refusal or str(error))
    return writes


def _release(version: str) -> str:
    return version + ".0" * (2 - version.count("."))


def whole(given: Given | None, default: int) -> int:
    """Return a count from 1; `default` for what is not a number, such as a placeholder."""
    text = given.value.strip() if given else ""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and int(text) else default
