"""The names of settings: which software has them, and the nearest name of a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache

from ackproof.scenario.kafka_clients import ALIASES
from ackproof.scenario.kafka_keys import Framework, Scope, known
from ackproof.scenario.librdkafka import KNOWN

#: librdkafka's names besides those of scenarios (CONFIGURATION.md); none of them is Java's.
_LIBRDKAFKA = re.compile(
    r"metadata\.broker\.list|log\.(connection\.close|queue|thread\.name)|socket\..+"
    r"|topic\.metadata\..+|topic\.blacklist|message\.copy\.max\.bytes|queue\.buffering\..+"
    r"|queued\..+|enable\.(auto\.offset\.store|partition\.eof|sparse\.connections|random\.seed)"
    r"|api\.version\..+|broker\.(version\.fallback|address\..+)|statistics\.interval\.ms|debug"
    r"|delivery\.report\.only\.error|produce\.offset\.report|compression\.codec|enabled_events"
    r"|auto\.commit\.enable|offset\.store\..+|fetch\.(wait\.max\.ms|message\.max\.bytes)"
    r"|fetch\.(error|queue)\.backoff\.ms|log_level|builtin\.features|reconnect\.backoff\.jitter\.ms"
    r"|batch\.num\.messages|plugin\.library\.paths|ssl\.(ca|certificate|key)\.(location|pem)"
    r"|sasl\.(mechanisms|username)|queuing\.strategy|receive\.message\.max\.bytes"
)
_OF_CONSUMERS = re.compile(
    r"group\.(id|protocol|instance\.id|remote\.assignor)|auto\.(offset\.reset|commit\..+)"
    r"|enable\.(auto\.(commit|offset\.store)|partition\.eof)|isolation\.level|fetch\..+|max\.poll\..+"
    r"|queued\..+|offset\.store\..+|partition\.assignment\.strategy"
)
_OF_PRODUCERS = re.compile(
    r"acks|request\.required\.acks|enable\.(idempotence|gapless\.guarantee)|linger\.ms|batch\..+"
    r"|queue\.buffering\..+|message\.(timeout\.ms|send\.max\.retries)|transaction(al)?\..+|buffer\.memory"
    r"|max\.(in\.flight.*|block\.ms|request\.size)|delivery\..+|retries|compression\..+|partitioner.*"
    r"|produce\..+|sticky\..+"
)


@cache
def only_of(scope: str) -> frozenset[str]:
    """Return the settings that only brokers, only topics or only clients have."""
    keys = {name: known(name) for name in ("broker", "topic", "producer", "consumer")}
    others = frozenset[str]().union(*(keys[name] for name in keys if name != scope))
    return keys[scope] - others


def is_librdkafka(key: str) -> bool:
    """Whether only librdkafka has a setting of this name."""
    if key in known("producer") or key in known("consumer"):
        return False
    return key in KNOWN or key in ALIASES or bool(_LIBRDKAFKA.fullmatch(key))


@cache
def _of_kafka() -> frozenset[str]:
    scopes: tuple[Scope, ...] = ("broker", "topic", "producer", "consumer")
    return frozenset[str]().union(*map(known, scopes))


@cache
def is_known(key: str) -> bool:
    """Whether Kafka, or a client of it, has a setting of this name."""
    return key in _of_kafka() or is_librdkafka(key)


@cache
def _of_frameworks() -> frozenset[str]:
    """Return the names of Connect, Streams and the admin client; not those of a single word."""
    frameworks: tuple[Framework, ...] = ("admin", "connect", "streams")
    return frozenset(key for one in frameworks for key in known(one) if "." in key)


@cache
def of_framework(key: str) -> bool:
    """Whether only Connect, MirrorMaker 2, Streams or the admin client has such a setting.

    Settings of clients of their own have a prefix: `admin.`, `restore.consumer.`.
    """
    if match := _OF_OWN_CLIENTS.match(key):
        return is_known(key[match.end() :])
    return key in _of_frameworks() and not is_known(key)


#: Clients of Connect and of Streams that neither write nor process records of an application.
OF_ADMIN = re.compile(r"admin\.((override|properties)\.)?")
_OF_OWN_CLIENTS = re.compile(rf"{OF_ADMIN.pattern}|(restore|global)\.consumer\.")


@cache
def is_stated(key: str) -> bool:
    """Whether anything of Kafka has a setting of this name."""
    return is_known(key) or of_framework(key)


def prefix_of(words: Sequence[str]) -> str:
    """Return the prefix of a client of Connect or Streams with which words end; '' without one."""
    for length in (2, 1):
        prefix = "".join(f"{word}." for word in words[-length:])
        if _OF_OWN_CLIENTS.fullmatch(prefix):
            return prefix
    return ""


@cache
def last_words() -> frozenset[str]:
    """Return the last words of all names, such as `ms`: most other names end differently."""
    names = (*_of_kafka(), *_of_frameworks(), *KNOWN, *ALIASES)
    return frozenset(key.rpartition(".")[2] for key in names)


def is_producers(key: str) -> bool:
    return key in only_of("producer") or bool(_OF_PRODUCERS.fullmatch(key))


def is_consumers(key: str) -> bool:
    return key in only_of("consumer") or bool(_OF_CONSUMERS.fullmatch(key))


def is_client(key: str) -> bool:
    return is_producers(key) or is_consumers(key)


def misspelt(key: str, scopes: tuple[str, ...]) -> str:
    """Return the setting that a name probably means; '' if it is known, or similar to none."""
    names = [name for scope in scopes for name in known(scope)]
    if key in names:
        return ""
    return next(iter(get_close_matches(key, names, n=1, cutoff=0.85)), "")


def misspelt_of_client(key: str, scope: Scope) -> str:
    """Return the setting of a client that a name probably means; '' if the name is known.

    Some tools write `_` in place of a dot.
    """
    if is_known(key) or is_known(key.replace("_", ".")):
        return ""
    names = [*known(scope), *KNOWN, *ALIASES]
    short = [name for name in names if "." not in name]
    near = get_close_matches(key, names, n=1, cutoff=0.85)
    return next(iter(near or get_close_matches(key, short, n=1, cutoff=_ONE_OF_FOUR)), "")


#: The similarity of two words of four letters, such as `acks` and `ackz`, that differ in one.
_ONE_OF_FOUR = 0.75


def dotted(key: str) -> str:
    """Return Kafka's name of `enableIdempotence`, or of .NET's `EnableIdempotence`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", ".", key).lower()
