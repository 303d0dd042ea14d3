"""Compose files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from ackproof.own_config import environment
from ackproof.own_config.commands import topics
from ackproof.own_config.configuration import Count, Holder
from ackproof.own_config.containers import Containers, env_files
from ackproof.own_config.parts import (
    Format,
    Mount,
    Mounts,
    Part,
    RefusalError,
    Source,
    UnrecognisedError,
)
from ackproof.own_config.tree import Block, Text, block, items, text


def read(source: Source) -> Part | None:
    """Read a compose file."""
    root = next(iter(source.documents), None)
    services = block(root, "services")
    first = next(iter(root.values()), None) if isinstance(root, Block) else None
    if not services and {"image", "environment"} <= block(first).keys():
        services = block(root)  # version 1 of the format
    if not any(_RUNS & block(one).keys() for one in services.values()):
        return None
    found = Containers(source)
    fill = _interpolation(source)
    for name, stated in services.items():
        if not isinstance(stated, Block):
            continue
        service = _extended(stated, services)
        image = text(service, "image")
        image = Text.at(fill(image, report=False), image.line) if image else None
        found.container(
            name,
            image,
            {
                key: Text.at(
                    fill(value, report=bool(_REPORTED.match(key))), value.line, file=value.file
                )
                for key, value in _variables(source, service).items()
            },
            service,
            count=_replicas(source, service, name),
            mounts=_mounts(source, service, services.lines[name]),
        )
        found.topics(topics(source, service))
    part = found.part("compose")
    if replace(part, kafka=None).empty:
        names = ", ".join([*services][:5])
        if found.others:
            raise RefusalError(found.others[0])
        raise UnrecognisedError(
            f"a compose file whose services ({names}) have no image of Kafka, and no "
            "variables of a client such as SPRING_KAFKA_PRODUCER_ACKS"
        )
    return part


#: Keys of a service that says what it runs.
_RUNS = frozenset({"image", "build", "extends", "environment", "env_file", "command", "deploy"})


def _extended(service: Block, services: Block) -> Block:
    """Return a service with what it extends in the same file."""
    base = service.get("extends")
    name = str(base) if isinstance(base, Text) else str(text(base, "service") or "")
    if name not in services or (isinstance(base, Block) and "file" in base):
        return service
    parent = services[name]
    if not isinstance(parent, Block) or parent is service:
        return service
    merged = Block(service.line)
    merged.update({**parent, **service})
    merged.lines = {**parent.lines, **service.lines}
    if isinstance(parent.get("environment"), Block) and isinstance(
        service.get("environment"), Block
    ):
        environments = Block(service.line)
        environments.update({**parent["environment"], **service["environment"]})
        merged["environment"] = environments
    return merged


def _variables(source: Source, service: Block) -> dict[str, Text]:
    """Return the variables of a service: its env files, then its own."""
    variables: dict[str, Text] = {}
    for name in env_files(service):
        content = source.beside(str(name))
        if content is None:
            source.warnings.append(f"{source.where(name)}: env_file {name}: there is no such file")
        file = str(PurePath(source.name).parent / name)
        parsed = environment.variables_of(
            Source(name=file, text=content or "", warnings=source.warnings)
        )
        variables |= {
            key: Text.at(str(value), value.line, file=file) for key, value in parsed.items()
        }
    own = service.get("environment")
    if isinstance(own, Block):
        variables |= {key: value for key, value in own.items() if isinstance(value, Text)}
    for entry in own if isinstance(own, list) else []:
        if isinstance(entry, Text):
            key, equals, value = entry.partition("=")
            variables |= {key.strip(): Text.at(value, entry.line)} if equals else {}
    return variables


#: Variables whose value may decide about a record: no addresses, and no secrets.
_REPORTED = re.compile(
    r"(KAFKA|CONNECT|SPRING)_(?!.*(LISTENER|HOST|QUORUM|CONNECT$|SERVERS|URL|PORT|CLUSTER_ID|OPTS"
    r"|USER|PASS|SECRET|TOKEN|KEY|JAAS))"
)
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?+])([^}]*))?\}|(\w+))")


def _interpolation(source: Source) -> Callable[..., str]:
    """Return a function that puts variables of `.env` and their defaults into a text."""
    beside = source.beside(".env")
    variables = environment.variables_of(Source(name=".env", text=beside)) if beside else {}

    def fill(value: Text, *, report: bool = True) -> str:
        def put(match: re.Match[str]) -> str:
            name = match[1] or match[4]
            if name is None:
                return "$"
            if name in variables:
                return str(variables[name])
            if match[2] in (":-", "-"):
                if report:
                    source.warnings.append(
                        f"{source.name}:{value.line}: {match[3]!r} is the default of {name}, which "
                        "may replace it"
                    )
                return match[3]
            return f"${{{name}}}"

        return _VARIABLE.sub(put, value) if "$" in value else value

    return fill


#: Keys by which a service has mounts that its file does not list.
_MOUNTS_ELSEWHERE = ("volumes_from", "extends")


def _mounts(source: Source, service: Block, line: int) -> Mounts | None:
    """Return what a service mounts; None if another file or service says it."""
    if any(key in service for key in _MOUNTS_ELSEWHERE):
        return None
    entries = items(service, "volumes")
    found = [_mount(source, entry) for entry in entries]
    tmpfs = service.get("tmpfs")
    found += [
        _at(source, one.partition(":")[0], "tmpfs", one, keeps=False)
        for one in (tmpfs if isinstance(tmpfs, list) else [tmpfs])
        if isinstance(one, Text)
    ]
    if None in found:
        return None
    return Mounts(
        mounts=tuple(filter(None, found)),
        setting="volumes",
        source=source.at(line),
        restart_keeps=True,
    )


def _mount(source: Source, entry: object) -> Mount | None:
    """Return a mount: `SOURCE:TARGET[:ro]`, `TARGET` alone (an anonymous volume), or a mapping."""
    if isinstance(entry, Block):
        target = text(entry, "target")
        if target is None:
            return None
        if text(entry, "type") == "tmpfs":
            return _at(source, target, "tmpfs", target, keeps=False)
        return _at(source, target, "volumes", target, named=text(entry, "source") is not None)
    if not isinstance(entry, Text):
        return None
    first, *others = _VARIABLE.sub("x", entry).split(":")
    path = next((one for one in others if one.startswith("/")), "")
    if not (path or first.startswith("/")):
        return None
    return _at(source, path or first, "volumes", entry, named=bool(path))


def _at(
    source: Source, path: str, setting: str, value: Text, *, named: bool = False, keeps: bool = True
) -> Mount:
    return Mount(
        path=path,
        holder=Holder.VOLUME if named else Holder.CONTAINER,
        setting=setting,
        value=str(value),
        source=source.where(value),
        restart_keeps=keeps,
    )


def _replicas(source: Source, service: Block, name: str) -> Count:
    stated = text(service, "deploy", "replicas") or text(service, "scale")
    count = source.count(stated, source.where(stated)) if stated else None
    return count or Count(1, source.at(service.line))


_EXAMPLE = """\
services:
  kafka:
    image: apache/kafka:3.9.1
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_MIN_INSYNC_REPLICAS: 2
"""
FORMAT = Format(
    name="Docker Compose",
    order=50,
    reads="brokers and applications, with anchors, `extends`, `.env` and `env_file`; images of "
    "Apache, Confluent, Bitnami",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka",
    examples={"docker-compose.yml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
