"""INI and TOML: each section is a client, which also has the settings of `[default]`."""

from __future__ import annotations

import re

from ackproof.own_config.names import is_consumers, is_producers
from ackproof.own_config.parts import HEADING, Format, Part, Source
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import Text
from ackproof.scenario.kafka_keys import known

_PAIR = re.compile(r"\s*([\w.\"'-]+)\s*[=:]\s*(.*)")
#: Sections whose settings the others share.
_COMMON = ("default", "common", "global", "kafka")


def read(source: Source) -> Part | None:
    """Read INI and TOML: each section is a client, which also has the settings of `[default]`."""
    sections: dict[str, dict[str, Text]] = {}
    pairs: dict[str, Text] = {}
    for number, line in enumerate(source.lines, start=1):
        if heading := HEADING.fullmatch(line):
            pairs = sections.setdefault(heading[1].lower(), {})
        elif (match := _PAIR.fullmatch(line)) and line.lstrip()[0] not in "#;":
            pairs[_key(match[1])] = Text.at(_value(match[2]), number)
    if not sections:
        return None
    shared = next((name for name in _COMMON if name in sections), "")
    common = sections.get(shared, {})
    others = [name for name in sections if name != shared and any(map(_shows, sections[name]))]
    if shared == "kafka":  # it may be a client itself
        others = [name for name in others if re.search("producer|consumer", name)]
    found = {
        name: pairs if name == shared else {**common, **pairs}
        for name, pairs in sections.items()
        if name != shared or not others
    }
    return joined(source, "settings in sections", [*found.values()], headings=[*found])


def _shows(key: str) -> bool:
    """Whether only clients have this setting."""
    return (is_producers(key) or is_consumers(key)) and key not in known("broker")


def _key(written: str) -> str:
    """Return a name without quotes; for `options."message.timeout.ms"` only the quoted part."""
    quoted = re.search(r"[\"']([^\"']+)[\"']$", written)
    return quoted[1] if quoted else written.removeprefix("librdkafka_options.")


def _value(written: str) -> str:
    quoted = re.match(r"([\"'])(.*?)\1", written)
    return quoted[2] if quoted else re.sub(r"(\s+#|\s*;).*$", "", written)


_EXAMPLE = """\
[default]
bootstrap.servers=kafka:9092
[producer]
acks=all
"""
FORMAT = Format(
    name="INI and TOML",
    order=220,
    reads="sections with settings of librdkafka or Java",
    patterns=("*.ini", "*.cfg", "*.toml", "*.conf"),
    mentions="acks|bootstrap|produc|consum|group",
    examples={"client.ini": _EXAMPLE},
    read=read,
    notation="lines",
)
