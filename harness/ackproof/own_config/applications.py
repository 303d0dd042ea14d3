"""The settings of an application with its profiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from ackproof.own_config.clients import under
from ackproof.own_config.configuration import Client, Topic
from ackproof.own_config.names import is_client
from ackproof.own_config.parts import Part, Source
from ackproof.own_config.properties import parse
from ackproof.own_config.tree import Block, NotYamlError, Text, flat


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework of applications.

    recognises: whether settings are of this framework, given the text of the file. clients: returns
    the clients that settings describe.
    """

    recognises: Callable[[Source, Mapping[str, Text]], bool]
    clients: Callable[[Source, Mapping[str, Text]], Part | None]


def read(source: Source, framework: Framework) -> Part | None:
    """Read an application's properties or YAML, with its profiles."""
    documents = _documents(source)
    every = {key: value for _, pairs in documents for key, value in pairs.items()}
    if not framework.recognises(source, every):
        return None
    shared, pairs_of_all = _shared(source)
    base: dict[str, Text] = {**pairs_of_all}
    for profile, pairs in documents:
        base |= {} if profile else pairs
    of_profiles = [("", base), *((name, base | pairs) for name, pairs in documents if name)]
    parts = [
        (name, part)
        for name, pairs in of_profiles
        if framework.recognises(source, pairs) and (part := framework.clients(source, pairs))
    ]
    if not parts:
        return None
    return Part(
        shape=parts[0][1].shape,
        topics=_topics([(name, part.topics) for name, part in parts]),
        producers=_named([(name, part.producers) for name, part in parts], source.name, shared),
        consumers=_named([(name, part.consumers) for name, part in parts], source.name, shared),
        taken=tuple(dict.fromkeys(given for _, part in parts for given in part.taken)),
    )


_APPLICATION = re.compile(r"(application|bootstrap|microprofile-config)[\w.-]*$")
#: Settings of a document that name the profile in which it counts.
_ACTIVATES = ("spring.config.activate.on-profile", "spring.profiles")
_PROFILE = re.compile(r"(?:application|bootstrap)-([\w-]+)\.(?:ya?ml|properties)")


def _shared(source: Source) -> tuple[str, dict[str, Text]]:
    """Return the name and settings of `application.yml` for the file of a profile beside it."""
    path = PurePath(source.name)
    if not _PROFILE.fullmatch(path.name):
        return "", {}
    for name in ("application.yml", "application.yaml", "application.properties"):
        if content := source.beside(name):
            file = str(path.parent / name)
            return file, {
                key: Text.at(str(value), value.line, file=file)
                for profile, pairs in _documents(Source(name=file, text=content))
                if not profile
                for key, value in pairs.items()
            }
    return "", {}


def _named(
    clients: Sequence[tuple[str, tuple[Client, ...]]], source: str, shared: str
) -> tuple[Client, ...]:
    """Return the clients of a profile, with its name in theirs if the profile changes them.

    source: the file. shared: the file of the clients without a profile if it is another one.
    """
    common = next((own for profile, own in clients if not profile), ())
    changed = (
        replace(
            one,
            name=f"{one.name} (profile {profile})",
            profile=profile,
            replaces=f"{shared or source}{one.name.removeprefix(source)}",
        )
        for profile, own in clients
        for one in own
        if profile and one not in common
    )
    return (*(() if shared else common), *changed)


def _topics(found: Sequence[tuple[str, tuple[Topic, ...]]]) -> tuple[Topic, ...]:
    """Return the topics of all profiles; one that a profile changes has the profile's name."""
    common = {topic.name: topic for profile, own in found if not profile for topic in own}
    changed = (
        replace(
            topic,
            name=f"{topic.name} (profile {profile})" if topic.name in common else topic.name,
            profile=profile,
            replaces=topic.name,
        )
        for profile, own in found
        for topic in own
        if profile and common.get(topic.name) != topic
    )
    return (*common.values(), *changed)


def _documents(source: Source) -> list[tuple[str, dict[str, Text]]]:
    """Return the settings of each profile; '' stands for those that all profiles share."""
    named = _PROFILE.fullmatch(PurePath(source.name).name)
    default = named[1] if named else ""
    found: list[tuple[str, dict[str, Text]]] = []
    for pairs in _settings(source):
        profile = next((str(value) for key, value in pairs.items() if key in _ACTIVATES), default)
        quarkus: dict[str, dict[str, Text]] = {}
        for key, value in pairs.items():
            match = re.fullmatch(r"\"?%([\w,-]+)\"?\.(.+)", key)
            of, name = (match[1], match[2]) if match else (profile, key)
            quarkus.setdefault(of, {})[name] = value
        found += quarkus.items()
    return found


def _settings(source: Source) -> list[dict[str, Text]]:
    """Return the settings of each document of YAML, or of each section of properties."""
    stripped = (line.strip() for line in source.lines)
    first = next((line for line in stripped if line and line[0] not in "#!"), "")
    if source.is_properties or re.match(r"[\w.%\"\[\]\\*>-]+\s*=", first):
        line, found = 1, []
        for section in re.split(r"(?m)^[#!]---.*$", source.text):
            found.append(parse(section, line))
            line += section.count("\n")
        return found
    try:
        roots = source.documents
    except NotYamlError:
        if re.search(r"(?m)^\s*(spring|kafka|mp|micronaut):", source.text):
            raise
        return []
    return [
        {unquoted(key): value for key, value in flat(root).items()}
        for root in roots
        if isinstance(root, Block)
    ]


def unquoted(key: str) -> str:
    """Return a path without quotes and brackets around names that have dots."""
    return re.sub(r"\.?\[\"?([A-Za-z][^\]]*?)\"?\]", r".\1", key).replace('"', "").replace("'", "")


def relaxed(key: str) -> str:
    """Return a setting of Spring by its canonical name, as far as prefixes need it."""
    return key.lower().replace("_", "-")


def names_kafka(source: Source, pairs: Mapping[str, Text]) -> bool:
    """Whether a file has an application's usual name and settings `kafka.…`."""
    if not _APPLICATION.match(PurePath(source.name).name):
        return False
    own = under({relaxed(key): value for key, value in pairs.items()}, "kafka.")
    return "bootstrap.servers" in own or any(map(is_client, own))
