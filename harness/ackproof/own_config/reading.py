"""Reads a user's files into one configuration: finds the kind of each file by its content."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import translate
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path, PurePath, PurePosixPath

from ackproof import safe_files
from ackproof.errors import ScenarioError
from ackproof.own_config.clusters import clusters
from ackproof.own_config.combining import combine
from ackproof.own_config.configuration import FileRefused, OwnConfig
from ackproof.own_config.formats import formats, names
from ackproof.own_config.parts import (
    UNRECOGNISED,
    Format,
    Hint,
    Part,
    RefusalError,
    Source,
    UnrecognisedError,
    refuse_unrendered,
)
from ackproof.own_config.properties import parse
from ackproof.own_config.stated import stated, stated_unread
from ackproof.own_config.tree import NotYamlError, in_base64, without_comments
from ackproof.scenario.kafka_keys import known

#: More than any configuration has.
MOST_BYTES = 4_000_000
#: A folder with these files is the directory of a run: it has what the run was told.
_OF_A_RUN = {"run.json", "scenario.yaml"}
#: Folders in which nobody has a configuration of their own.
_SKIPPED = {".git", "node_modules", "target", "build", ".venv", "venv", "__pycache__", ".idea"}
#: Names of files that a folder has beside configurations.
_NO_CONFIGURATION = {".ackproof.yaml", "package.json", "package-lock.json"}
_MOST_FILES = 20_000
#: Names of files that take long to parse.
_TREES = (".yml", ".yaml", ".json", ".tf")

#: The name of a file with what it says, or with the reason for which it is refused.
_Outcome = tuple[str, Part | RefusalError]


def read_clusters(paths: Sequence[Path], *, kafka: str = "") -> tuple[OwnConfig, ...]:
    """Return the configuration of each cluster that files and folders describe.

    kafka: the version if an option states it. Raises ScenarioError for a path that does not exist.
    """
    return _combined([(path, "") for path in paths], kafka=kafka)


def read_options(files: Sequence[tuple[Path, Hint]]) -> OwnConfig:
    """Read the files of --config, --server, --producer and --topic-config.

    Raises ScenarioError if a file cannot be used, or if they describe several clusters.
    """
    own, *others = _combined(files)
    if others:
        names = "; ".join(
            f"{one.cluster} ({', '.join(each.file for each in one.read)})" for one in (own, *others)
        )
        raise ScenarioError(
            f"the files describe {len(others) + 1} clusters: {names}",
            hint="Name the files of one; `ackproof audit` answers about all.",
        )
    for refused in own.refused:
        raise ScenarioError(f"{refused.file}: {refused.reason}")
    return own


def client_settings(path: Path) -> dict[str, str]:
    """Return the properties of a client, with its secrets. Raises ScenarioError."""
    name, data = _data(path)
    if isinstance(data, RefusalError):
        raise ScenarioError(f"{name}: {data}")
    try:
        return {key: str(value) for key, value in parse(_decoded(data)).items()}
    except RefusalError as error:
        raise ScenarioError(f"{name}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Files that texts refer to and that are none of them, such as those of a git revision.

    content: returns a file; None if it is missing. names: returns the names of a folder's files.
    """

    content: Callable[[str], bytes | None]
    names: Callable[[str], Sequence[str]]


def read_texts(
    texts: Mapping[str, bytes], *, kafka: str = "", elsewhere: Elsewhere | None = None
) -> tuple[OwnConfig, ...]:
    """Return the configurations of texts by their names, such as the files of a git revision."""

    def beside(folder: PurePosixPath, other: str) -> str | None:
        name = str(folder / other)
        data = texts.get(name)
        if data is None and elsewhere is not None:
            data = elsewhere.content(name)
        return None if data is None else _decoded(data)

    def names(folder: PurePosixPath) -> Sequence[str]:
        given = [one.name for one in map(PurePosixPath, texts) if one.parent == folder]
        return [*given, *(elsewhere.names(str(folder)) if elsewhere else ())]

    outcomes: list[_Outcome] = []
    for name, data in texts.items():
        folder = PurePosixPath(name).parent
        near = _Near(content=partial(beside, folder), names=partial(names, folder))
        outcomes.append(
            (name, unfit)
            if (unfit := _unfit(data))
            else _outcome(name, data, "", near, mentioned=True)
        )
    return _together(outcomes, kafka)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """The files in the folder of a file."""

    content: Callable[[str], str | None]
    names: Callable[[], Sequence[str]]


def _combined(paths: Sequence[tuple[Path, Hint]], kafka: str = "") -> tuple[OwnConfig, ...]:
    outcomes: list[_Outcome] = []
    passed_over: list[_Outcome] = []
    for path, hint in paths:
        if path.is_dir():
            found = [_read(one, hint, mentioned=True) for one in _walk(path)]
            understood = [outcome for outcome in found if not _irrelevant(outcome)]
            if understood:
                passed_over += [outcome for outcome in found if _irrelevant(outcome)]
            of_known_kinds = [outcome for outcome in found if _cause(outcome)][:_MOST_CAUSES]
            nothing = "a folder without a file in which a setting of Kafka is recognised"
            empty: list[_Outcome] = [(str(path), RefusalError(nothing)), *of_known_kinds]
            outcomes += understood or empty
        else:
            outcomes.append(_read(path, hint))
    first, *others = _together(outcomes, kafka)
    if not passed_over:
        return (first, *others)
    notes = [f"{name}: {cause}" for name, one in passed_over if (cause := _cause((name, one)))]
    notes = notes[:_MOST_CAUSES]
    plain = [name for name, one in passed_over if not _cause((name, one))]
    if plain:
        more = f" and {len(plain) - 5} more" if len(plain) > 5 else ""
        notes.append(f"{UNRECOGNISED} in {', '.join(plain[:5])}{more}")
    return replace(first, warnings=(*first.warnings, *notes)), *others


def _together(outcomes: Sequence[_Outcome], kafka: str) -> tuple[OwnConfig, ...]:
    refused = [
        FileRefused(file=name, reason=str(refusal), stated=refusal.stated)
        for name, refusal in outcomes
        if isinstance(refusal, RefusalError)
    ]
    understood = [(name, part) for name, part in outcomes if isinstance(part, Part)]
    found = clusters(understood)
    in_file = {name: part.stated for name, part in understood}
    return tuple(
        replace(
            combine(parts, refused, kafka=kafka),
            cluster=name if len(found) > 1 else "",
            stated=tuple(chain.from_iterable(in_file[file] for file in dict(parts))),
        )
        for name, parts in found
    )


#: The most files of a folder that are reported with the reason for which they are passed over.
_MOST_CAUSES = 10


def _cause(outcome: _Outcome) -> str:
    """Return why a file that mentions Kafka is not read; '' if only its form is unknown."""
    return outcome[1].cause if isinstance(outcome[1], UnrecognisedError) else ""


def _irrelevant(outcome: _Outcome) -> bool:
    return isinstance(outcome[1], UnrecognisedError)


@cache
def _patterns() -> re.Pattern[str]:
    every = {pattern for each in formats() for pattern in each.patterns}
    return re.compile("|".join(map(translate, sorted(every))))


def may_be_configuration(name: PurePath) -> bool:
    """Return whether a file with this name inside a folder may be somebody's configuration."""
    return (
        bool(_patterns().match(name.name))
        and name.name not in _NO_CONFIGURATION
        and not _SKIPPED.intersection(name.parts[:-1])
    )


def is_of_a_run(names: Iterable[str]) -> bool:
    """Return whether a folder with these names is the directory of a run."""
    return _OF_A_RUN.issubset(names)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that may be configurations, by name."""
    found = 0
    stack = [folder]
    while stack:
        entries = sorted(stack.pop().iterdir(), reverse=True)
        if is_of_a_run(one.name for one in entries):
            continue
        stack += [
            one
            for one in entries
            if one.is_dir() and one.name not in _SKIPPED and not one.is_symlink()
        ]
        for entry in reversed(entries):
            if may_be_configuration(PurePath(entry.name)) and entry.is_file():
                found += 1
                if found > _MOST_FILES:
                    raise ScenarioError(
                        f"{folder}: more than {_MOST_FILES:,} files that may be configurations",
                        hint="Name a smaller folder.",
                    )
                yield entry


def _read(path: Path, hint: Hint, *, mentioned: bool = False) -> _Outcome:
    """Read a file. mentioned: pass over a tree without a word that some format mentions."""

    def beside(name: str) -> str | None:
        try:
            return _decoded(safe_files.read(path.parent / name, most=MOST_BYTES))
        except OSError:
            return None

    def names() -> list[str]:
        try:
            return sorted(one.name for one in islice(path.parent.iterdir(), _MOST_FILES))
        except OSError:
            return []

    name, data = _data(path)
    near = _Near(content=beside, names=names)
    if isinstance(data, RefusalError):
        return name, data
    return _outcome(name, data, hint, near, mentioned=mentioned)


def _data(path: Path) -> tuple[str, bytes | RefusalError]:
    """Return the name of a file with its content, or with the reason why it cannot be read.

    `-` is standard input. Raises ScenarioError if there is no such file.
    """
    if str(path) == "-":
        piped = sys.stdin.buffer.read(MOST_BYTES + 1)
        return "-", _unfit(piped) or piped
    try:
        data = safe_files.read(path, most=MOST_BYTES)
    except FileNotFoundError:
        folder = path.parent
        near = get_close_matches(path.name, [one.name for one in folder.glob("*")], n=1)
        guess = f" Did you mean {folder / near[0]}?" if near else ""
        hint = "Name files or folders that exist; `ackproof audit --help` lists what is read."
        raise ScenarioError(f"{path}: no such file.{guess}", hint=hint) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
        return str(path), RefusalError(f"it cannot be read: {error.strerror}")
    return str(path), _unfit(data) or data


def _unfit(data: bytes) -> RefusalError | None:
    if len(data) > MOST_BYTES:
        return RefusalError(f"it has {len(data):,} bytes, and {MOST_BYTES:,} is the most")
    if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return RefusalError("a binary file")
    return None


def _decoded(data: bytes) -> str:
    """Decode UTF-8, UTF-16 with a byte order mark, else ISO 8859-1 like `java.util.Properties`."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _outcome(
    name: str, data: bytes, hint: Hint, near: _Near, *, mentioned: bool = False
) -> _Outcome:
    text = _decoded(data)
    if mentioned and name.endswith(_TREES) and not any(map(_mentions().search, _texts(text))):
        return name, UnrecognisedError("it mentions no setting of Kafka", known=False)
    source = Source(
        name=name,
        text=without_comments(text),
        hint=hint,
        beside=near.content,
        names_beside=near.names,
    )
    try:
        part = _understood(source)
    except UnrecognisedError as refusal:
        return name, refusal
    except RefusalError as refusal:
        refusal.stated = stated_unread(source)
        return name, refusal
    except NotYamlError as error:
        if _language(source) == "Shell":
            return name, _unrecognised(source)
        where = f" (line {error.line})" if error.line else ""
        invalid = RefusalError(f"not valid YAML or JSON{where}: {error}")
        invalid.stated = stated_unread(source)
        return name, invalid
    warnings = tuple(dict.fromkeys((*source.warnings, *part.warnings)))
    return name, replace(part, warnings=warnings, stated=stated(source, part))


def _texts(text: str) -> Iterator[str]:
    """Yield the text of a file, and the texts that it has in base64."""
    yield text
    yield from in_base64(text)


def _understood(source: Source) -> Part:
    """Return what a file describes. Raises RefusalError, NotYamlError."""
    if not source.text.strip():
        raise RefusalError("an empty file")
    if reason := _of_ackproof(source.text):
        raise RefusalError(reason)
    if len(source.text) < _LONG or _mentions().search(source.text):
        if tool := _tool(source.text):
            raise UnrecognisedError(_of_tool(tool))
        refuse_unrendered(source)
        if found := recognised(source):
            return _made_by(*found)
    raise _unrecognised(source)


def _made_by(read_by: Format, part: Part) -> Part:
    """Return a part with the tool that makes its brokers, if there is one."""
    tool = read_by.name if read_by.makes_brokers else ""
    others = tuple(replace(one, tool=tool) for one in part.others)
    return replace(part, tool=tool, others=others)


def recognised(source: Source) -> tuple[Format, Part] | None:
    """Return the first format that recognises a file, and what the file says.

    Raises RefusalError, NotYamlError.
    """
    for each in formats():
        if _may_be(each, source) and (part := each.read(source)) is not None:
            return each, part
    return None


def _of_ackproof(text: str) -> str:
    """Return which kind of ackproof's own files a text is; '' if it is none of them."""
    if re.match(r"\s*(\{[^\n]*\}\s*\n|\{[^{}]*\})\s*\{", text):
        return (
            "lines of JSON: an acked log? `ackproof check FILE --from-cluster HOST:PORT` "
            "checks it against a cluster"
        )
    if re.search(r"(?m)^workload:", text) and re.search(r"(?m)^topics:", text):
        return "a scenario of ackproof: `ackproof predict FILE` answers it"
    return ""


#: A long text without a word that some format mentions has no setting of Kafka: it is not parsed.
_LONG = 20_000


@cache
def _mentions() -> re.Pattern[str]:
    return re.compile("|".join(each.mentions for each in formats()), re.IGNORECASE)


def _may_be(each: Format, source: Source) -> bool:
    """Whether a text has the notation of a format."""
    if each.notation == "lines":
        return not (source.is_tree or _language(source))
    return each.notation == "any" or source.is_tree


def _read_formats() -> str:
    return f"Files that are read: {names()}."


_SOURCES = (
    (r"^package \w+$|sarama\.[A-Z]|kafka\.ConfigMap|^\s*\w+ := ", "Go"),
    (r"^import java|public (static|class|final)|ProducerConfig\.[A-Z_]+", "Java"),
    (r"^(import|from) \w+.*|^def |^class \w+.*:$", "Python"),
    (r"\bconst \w+ = |\) => |require\(", "JavaScript"),
    (r"^using [\w.]+;|new (Producer|Consumer)Config", "C#"),
    (r"^(data )?class \w+\(|\bfun \w+\(", "Kotlin"),
)
#: How a script begins that does not name its shell.
_COMMANDS = re.compile(r"(curl|kubectl|oc)\s|cat\s<<.*\|\s*(kubectl|oc)\s")


_CLOUDFORMATION = r"""(?m)^\s*["']?Type["']?\s*:\s*["']?AWS::\w+::"""
_PROGRAMS = (
    (r"(?m)^\[\[(outputs|inputs)\.kafka", "Telegraf"),
    (r"(?m)^\s*@type kafka", "fluentd"),
    (r"(?mi)^\s*name\s+kafka\s*$", "Fluent Bit"),
    (r"(?m)^apiVersion: dapr\.io/", "Dapr"),
    (r"(?m)^kafkastore\.", "Schema Registry"),
)


#: Tools that make the files of brokers, with templates of their own inside.
_TOOLS = (
    (r"(?m)^\s*job \"[^\"]+\" \{", "Nomad"),
    (r"(?m)^\s*(?:default|normal|override|node\.default)(?:\[['\"]\w+['\"]\])+\s*=", "Chef"),
    (r"(?m)^\s*(?:class|define) [\w:]+\s*[({]|^\s*class \{ ['\"]", "Puppet"),
)


def _tool(text: str) -> str:
    """Return the tool of whose language a text is that mentions Kafka; '' if it is none."""
    if not re.search("kafka", text, re.IGNORECASE):
        return ""
    return next((name for shows, name in _TOOLS if re.search(shows, text)), "")


def _of_tool(tool: str) -> str:
    return (
        f"a file of {tool}, which is not read. Name the server.properties that it makes, or its "
        "variables in an env file"
    )


def _language(source: Source) -> str:
    """Return the programming language of a text; '' if the text is not a program."""
    code = "\n".join(line for line in source.lines if line.lstrip()[:1] not in ("#", "!"))
    if re.match(r"#!.*sh\b", source.text) or _COMMANDS.match(code.lstrip()):
        return "Shell"
    return next((name for shows, name in _SOURCES if re.search(shows, code, re.MULTILINE)), "")


def _unrecognised(source: Source) -> UnrecognisedError:
    """Return why a file is refused: what it looks like, and what can be read."""
    if cause := _of_known_kind(source):
        return UnrecognisedError(cause, known=bool(re.search("kafka", source.text, re.IGNORECASE)))
    kinds = re.findall(r"(?m)^kind:\s*(\w+)", source.text)
    if kinds and (maps := dict.fromkeys(_MAPS.findall(source.text))):
        return UnrecognisedError(
            f"resources of Kubernetes ({', '.join(dict.fromkeys(kinds))}) without variables of "
            f"Kafka; name the ConfigMaps that they mount, too: {', '.join(maps)}",
            known=bool(re.search("kafka", source.text, re.IGNORECASE)),
        )
    keys = re.findall(r"""(?m)^\s*["']?([A-Za-z][\w.-]*)["']?\s*[:=]""", source.text)
    some = ", ".join(dict.fromkeys(kinds or keys[:3]))
    looks = "Kubernetes resources" if kinds else "settings" if keys else "text"
    listed = f" ({some})" if some else ""
    return UnrecognisedError(f"it looks like {looks}{listed}. {_read_formats()}", known=False)


#: What scripts do that make brokers, with what to name instead.
_SCRIPTS = (
    (
        r"(?m)^\s*helm (upgrade|install)\b",
        "a shell script that installs a chart: name its values in a file, or its manifest "
        "(`helm template`)",
    ),
)
#: The name of a ConfigMap that a pod mounts.
_MAPS = re.compile(r"(?m)^\s*(?:- )?configMap:\s*\n\s*(?:defaultMode:.*\n\s*)?name:\s*([\w.-]+)")


def _of_roles(source: Source) -> list[str]:
    """Return the variables of a role of Ansible that are called like settings of brokers."""
    names = re.findall(r"(?m)^(kafka_[a-z_]*(?:replica|isr|unclean|flush)[a-z_]*)\s*:", source.text)
    return [name for name in names if name[6:].replace("_", ".") in known("broker")]


def _made_elsewhere(source: Source) -> str:
    """Return why a file is not read of which a tool makes settings; '' for another file."""
    if variables := _of_roles(source):
        return (
            f"variables of a role of Ansible ({', '.join(variables[:3])}), of which its template "
            "makes settings. Render it (`ansible --check --diff`), and name the server.properties"
        )
    return next((why for shows, why in _SCRIPTS if re.search(shows, source.text)), "")


def _of_known_kind(source: Source) -> str:
    """Return what a file is and why it is not read; '' if it is of no known kind."""
    language = _language(source)
    if language == "Shell":
        return (
            "a shell script; of its commands `kafka-topics --create --topic NAME`, "
            "`kafka-configs --add-config` of topics and `kafka-server-start --override` are read"
        )
    if language:
        return (
            f"{language} source; programs are not read. Name the settings in a "
            "properties file, or the block `ProducerConfig values:` of the program's log"
        )
    if re.search(_CLOUDFORMATION, source.text):
        return (
            "a template of CloudFormation without a cluster or configuration of Amazon MSK, "
            "which alone are read"
        )
    if cause := _made_elsewhere(source):
        return cause
    if other := next((name for shows, name in _PROGRAMS if re.search(shows, source.text)), ""):
        return (
            f"a configuration of {other}, which is not read. Name acks and the like in "
            "a properties file"
        )
    return ""
