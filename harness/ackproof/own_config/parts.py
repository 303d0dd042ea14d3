"""The content of one file, as a format read it; `combining` joins them into an OwnConfig."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal

from ackproof.own_config.configuration import (
    Client,
    Count,
    FileLine,
    Given,
    Holder,
    Origin,
    Settings,
    Stated,
    Storage,
    Topic,
)
from ackproof.own_config.tree import Block, NotYamlError, Text, documents
from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    MIN_INSYNC_REPLICAS,
    RETENTION_BYTES,
    RETENTION_MS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)
from ackproof_model.removal import setting_names

#: Settings whose values are never stored.
_SECRET = re.compile(
    r".*(password|passphrase|secret|credential|token|jaas|private.?key|api.?key|user\.?info"
    r"|certificate).*|.*ssl\.(keystore|key)\.(key|pem)|.*keystore\.key",
    re.IGNORECASE,
)
#: A value that contains one: of a login module, or of an address.
_SECRET_VALUE = re.compile(
    r"(password|secret|token)[\"']?\s*[=:]|://[^/@\s]+:[^/@\s]+@|LoginModule", re.IGNORECASE
)
#: A value that a program fills in: `${NAME}` of a shell, Spring or Terraform.
_PLACEHOLDER = re.compile(r"\$\{([^}:]*)(?::-?([^}]*))?\}")
#: Settings whose value is a number or a switch, and a value that something else replaces.
_COUNT = re.compile(r"acks|.*(replicas|factor|isr|enable|idempotence|commit|retries)")
_UNFILLED = re.compile(r"<[\w .-]+>|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|@[\w.]+@|__\w+__|%\w+%|\$\w+")
#: Settings that are open, with an empty value, if something fills them in: no default counts.
OPEN_OF_TOPICS = (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    *(CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES),
)
OPEN_OF_BROKERS = (
    *OPEN_OF_TOPICS[:2],
    *(name for key in OPEN_OF_TOPICS for name in setting_names(key)[1:]),
)
_OPEN = frozenset((*OPEN_OF_TOPICS, *OPEN_OF_BROKERS, "acks", "request.required.acks"))
#: Values that Docker Swarm's engine fills in for each task (`docker service create`).
_OF_ENGINE = re.compile(r"\{\{\s*\.((?:Service|Node|Task)\.[\w.]+)\s*\}\}")
_OTHER_MARK = r"\{\{(?!\s*\.(?:Service|Node|Task)\.[\w.]+\s*\}\})|\{%|<%="
_TEMPLATE = re.compile(_OTHER_MARK)
#: Settings that may decide about a record: a report names those that a file leaves open.
_DECIDES = re.compile(
    r"acks|.*(insync|unclean|idempotence|replica|retention|cleanup|flush|transaction"
    r"|retries|in\.flight|delivery|offset|commit|isolation|process\.roles|broker\.rack|version).*"
    r"|(group|node|broker)\.id|message\.timestamp.*|elr.*|eligible.*",
    re.IGNORECASE,
)


#: The heading of a section in INI or TOML.
HEADING = re.compile(r"\s*\[\[?\s*([\w .\"':-]+?)\s*\]?\]\s*([#;].*)?")


#: The kind of settings that an option names, for a file that does not show it.
Hint = Literal["", "broker", "topic", "producer"]


UNRECOGNISED = "no setting of Kafka is recognised"


class RefusalError(Exception):
    """A file cannot be used. The message is shown to the user.

    stated: what the file has with known names of settings, if its form is known.
    """

    stated: tuple[Stated, ...] = ()


class UnrecognisedError(RefusalError):
    """A file has no settings of Kafka, like many files of a folder.

    cause: the reason if the file is of a known kind; '' if the file only looks like no format.
    """

    def __init__(self, reason: str, *, known: bool = True) -> None:
        super().__init__(f"{UNRECOGNISED}: {reason}")
        self.cause = reason if known else ""


class Rank(IntEnum):
    """Kafka's order of precedence for settings of brokers; a higher rank wins."""

    STATIC = 1
    DYNAMIC_DEFAULT = 2
    DYNAMIC_BROKER = 3
    IN_FORCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of a container, and what holds it; None if the file does not show it.

    setting, value, source: the entry of the file.
    """

    path: str
    holder: Holder | None
    setting: str
    value: str
    source: FileLine
    restart_keeps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounts:
    """What a container mounts. log_dirs: those of its image; empty if they are not known.

    setting: the key of the file that lists mounts. source: the container. restart_keeps: whether
    its own layer outlives the broker's process.
    """

    mounts: tuple[Mount, ...]
    log_dirs: tuple[str, ...] = ()
    setting: str
    source: FileLine
    restart_keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Brokers or controllers with the same settings: a service, a pool, a file.

    name: distinguishes nodes of one file. count: how many there are; None if the file describes one
    node and there may be more. roles: `broker`, `controller` or both. storage: what holds its logs,
    or what its container mounts; None if its file does not show it.
    """

    name: str
    count: Count | None = None
    roles: frozenset[str] = frozenset({"broker"})
    settings: Settings = field(default_factory=dict)
    rank: Rank = Rank.STATIC
    storage: Storage | Mounts | None = None

    @property
    def ids(self) -> list[Given]:
        """The node ids in its file; -1 means that the broker generates its id."""
        return [self.settings[key] for key in ("node.id", "broker.id") if key in self.settings]


def process_roles(settings: Settings) -> frozenset[str]:
    """Return the roles of a node; `broker` if the settings do not state them."""
    stated = settings["process.roles"].value if "process.roles" in settings else ""
    return frozenset(filter(None, map(str.strip, stated.split(",")))) or frozenset({"broker"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one file describes.

    shape: its kind, in words. tool: the format of a tool that makes brokers from the file, such as
    compose or Helm; '' if the file only configures them. cluster: the name of the cluster if the
    file states it. unread: files with brokers' settings to which it refers. others: the parts
    about further clusters. taken: values that the reader took for something else than a setting,
    such as the name of a topic. stated: every setting with a known name in the file, once it is
    read.
    """

    shape: str
    tool: str = ""
    cluster: str = ""
    kafka: Given | None = None
    since: Given | None = None
    below: Given | None = None
    mode: Given | None = None
    nodes: tuple[Node, ...] = ()
    topics: tuple[Topic, ...] = ()
    producers: tuple[Client, ...] = ()
    consumers: tuple[Client, ...] = ()
    warnings: tuple[str, ...] = ()
    unread: tuple[Given, ...] = ()
    others: tuple[Part, ...] = ()
    taken: tuple[Given, ...] = ()
    stated: tuple[Stated, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.nodes or self.topics or self.producers or self.consumers or self.kafka)

    def named(self, name: str) -> Part:
        """Return the part with its producers and consumers renamed."""
        return replace(
            self,
            producers=tuple(
                replace(one, name=f"{name} ({one.writes})" if one.writes else name)
                for one in self.producers
            ),
            consumers=tuple(replace(one, name=name) for one in self.consumers),
        )


def together(shape: str, parts: Sequence[Part], *, cluster: str = "") -> Part:
    """Join the parts of one file about one cluster; the first stated version is used."""
    return Part(
        shape=shape,
        cluster=cluster,
        kafka=next((one.kafka for one in parts if one.kafka), None),
        mode=next((one.mode for one in parts if one.mode), None),
        nodes=tuple(node for one in parts for node in one.nodes),
        topics=tuple(topic for one in parts for topic in one.topics),
        producers=tuple(client for one in parts for client in one.producers),
        consumers=tuple(client for one in parts for client in one.consumers),
        taken=tuple(given for one in parts for given in one.taken),
    )


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file's text.

    beside: returns the text of a file that it refers to; None if missing. names_beside: returns the
    names of the files in its folder. line: the line of the file that has the whole text, such as
    one in quotes; 0 if each line of the text is one of the file.
    """

    name: str
    text: str
    hint: Hint = ""
    beside: Callable[[str], str | None] = lambda name: None
    names_beside: Callable[[], Sequence[str]] = tuple
    line: int = 0
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def is_properties(self) -> bool:
        """Whether a file of properties has no nested lines: `key: value` in it is not YAML."""
        nested = any(re.match(r"[ \t{[-]", line) for line in self.lines)
        return self.name.endswith(".properties") and not nested

    @cached_property
    def is_tree(self) -> bool:
        """Whether the text is YAML or JSON with a mapping or a list at its top.

        Raises NotYamlError if the text looks like YAML or JSON but is not.
        """
        if self.is_properties:
            return False
        first = next((line for line in self.lines if line.strip() and line.lstrip()[0] != "#"), "")
        if HEADING.fullmatch(first) and re.search(r"(?m)^[\w .\"-]+(=| {2,})", self.text):
            return False
        if re.match(r"\s*[\w.\\\[\]\"-]+\s*=", first) or (
            re.match(r"\s*\{?\s*$", first) and "=" in self.text and ":" not in self.text
        ):
            return False
        begins = r"""(---|%YAML|\s*[\[{]|-\s|["']?[\w./$<-][^=]*?["']?\s*:(\s|$))"""
        if not re.match(begins, first):
            return False
        try:
            return any(isinstance(root, Block | list) for root in self.documents)
        except NotYamlError:
            shows = r"(?m)^(apiVersion|kind|services|spring|kafka|image|replicaCount):|\A\s*[{[]"
            if re.search(shows, self.text) or self.name.endswith((".yml", ".yaml")):
                raise
            return False

    @cached_property
    def documents(self) -> list[Any]:
        """The documents of YAML or JSON. Raises RefusalError if it is neither."""
        return documents(self.text, self.name, self.warnings)

    def given(self, value: Text) -> Given:
        return Given(str(value), self.where(value))

    def count(self, value: str, source: Origin) -> Count | None:
        """Return a number of nodes; None if the text is not a number, such as a placeholder."""
        legal = value.isdecimal() and len(value) <= _MOST_DIGITS
        return Count(int(value), source) if legal else None

    def at(self, line: int) -> FileLine:
        return FileLine(self.name, self.line or line)

    def where(self, value: Text) -> FileLine:
        return FileLine(value.file, value.line) if value.file else self.at(value.line)

    def settings(self, pairs: Mapping[str, object] | Iterable[tuple[str, object]]) -> Settings:
        """Return settings with their sources; secrets and values without text are left out.

        A placeholder as a value adds a warning.
        """
        items = pairs.items() if isinstance(pairs, Mapping) else pairs
        settings: dict[str, Given] = {}
        filled: dict[tuple[FileLine, str], list[str]] = {}
        for key, value in items:
            if not isinstance(value, Text) or secret(key) or _SECRET_VALUE.search(value):
                continue
            refuse_template(value)
            if by := _filled_in(key, value):
                filled.setdefault((self.where(value), by), []).append(key)
                settings |= {key: Given("", self.where(value))} if key in _OPEN else {}
            else:
                settings |= self._setting(key, value)
        for (where, by), keys in filled.items():
            if named := ", ".join(key for key in keys if may_decide(key)):
                self.warnings.append(f"{where}: {named}: not stated: {by}")
        return settings

    def _setting(self, key: str, value: Text) -> dict[str, Given]:
        where = self.where(value)
        if match := _PLACEHOLDER.search(value):
            filled = _PLACEHOLDER.sub(lambda found: found[2] or "", value)
            may = f"the default of {match[1]}, which may replace it"
            self._note(f"{where}: {key}={filled}: {may}", key)
            return {key: Given(filled, where)}
        if not value.isprintable():
            raise RefusalError(f"line {value.line}: the value of {key} does not print")
        if not value.strip():
            self._note(f"{where}: {key} is empty: taken as not stated", key)
            return {}
        return {key: Given(value.strip(), where)}

    def _note(self, warning: str, key: str) -> None:
        if may_decide(key):
            self.warnings.append(warning)


def _filled_in(key: str, value: str) -> str:
    """Return what fills in a value; '' if its file states it, at least a default."""
    if _COUNT.fullmatch(key) and _UNFILLED.fullmatch(value):
        return f"{value} fills it in"
    if match := _OF_ENGINE.search(value):
        return f"the engine fills in {match[1]}"
    match = _PLACEHOLDER.search(value)
    return f"{match[1]} fills it in" if match and match[2] is None else ""


def may_decide(key: str) -> bool:
    """Whether a setting may decide about a record, by its name."""
    return bool(_DECIDES.fullmatch(key))


def has_value(key: str, value: str) -> bool:
    """Whether a file states the value of a setting: it is not empty, and nothing fills it in."""
    return value.strip() not in ("", "null", "[]") and not _filled_in(key, value)


def refuse_template(value: Text) -> None:
    """Raise RefusalError if a value belongs to a template that was not rendered."""
    if match := _TEMPLATE.search(value):
        raise RefusalError(template(match[0], value.line))


def secret(key: str) -> bool:
    return bool(_SECRET.fullmatch(key))


def template(mark: str, line: int) -> str:
    """Return why a template is refused. mark: the characters that show it."""
    if mark == "<%=":
        return f"a template (line {line}): render it first"
    return (
        f"a template of Helm, Jinja or the like (line {line}): render it first (`helm template`, "
        "`ansible --check --diff`)"
    )


#: The most digits of a number of nodes.
_MOST_DIGITS = 9
#: What a reader reads: only YAML and JSON; neither of them, nor a program; any text.
Notation = Literal["tree", "lines", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of files. `formats/ADDING_A_FORMAT.md` describes how to add one.

    name: of the format in lists. order: a file is read by the first format that recognises it.
    reads: which parts are read, in Markdown. patterns: for names of files, when a folder is
    searched. mentions: a regular expression that matches in every such file, ignoring case.
    examples: texts of small files, by name. read: returns None for a file of another format; raises
    RefusalError. makes_brokers: whether a tool makes brokers from the file alone, so that files of
    two such formats describe two clusters.
    """

    name: str
    order: int
    reads: str
    patterns: tuple[str, ...]
    mentions: str
    examples: Mapping[str, str]
    read: Callable[[Source], Part | None]
    notation: Notation = "any"
    makes_brokers: bool = False


_OF_KAFKA = re.compile(r"kafka|insync|broker|zookeeper|replication", re.IGNORECASE)
_MARK = re.compile(rf"""(?:^|[:=,\[(\s-])\s*({_OTHER_MARK})""")
_BLOCK_BEGINS = re.compile(r"( *)(?:- +)*[^#]*?[:-] +[|>][+-]?\d?[+-]?\s*(#.*)?")
_SETTING = re.compile(r"\s*(acks|[a-z]+(\.[a-z]+)+)\s*=")


def _foreign_blocks(lines: Sequence[str]) -> set[int]:
    """Return the lines of YAML block scalars that have no settings, such as a Vault template."""
    found: set[int] = set()
    inside: list[int] = []
    depth = -1
    for number, line in enumerate([*lines, "end"], start=1):
        if depth >= 0 and (not line.strip() or len(line) - len(line.lstrip()) > depth):
            inside.append(number)
            continue
        if not any(_SETTING.match(lines[at - 1]) for at in inside):
            found.update(inside)
        inside = []
        begins = _BLOCK_BEGINS.fullmatch(line)
        depth = len(begins[1]) if begins else -1
    return found


def refuse_unrendered(source: Source) -> None:
    """Raise RefusalError for template syntax outside comments, quotes and foreign blocks."""
    if not _TEMPLATE.search(source.text):
        return
    foreign = _foreign_blocks(source.lines)
    for number, line in enumerate(source.lines, start=1):
        if number in foreign or line.lstrip().startswith("#"):
            continue
        if match := _MARK.search(re.sub(r"""("[^"]*"|'[^']*')""", "''", line)):
            kind = RefusalError if _OF_KAFKA.search(source.text) else UnrecognisedError
            raise kind(template(match[1], number))
