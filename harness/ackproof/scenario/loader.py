"""Reads scenario files.

An error message has file, line, key, value, and the legal values::

    scenarios/acks.yaml:14: faults.1.target: 'leeder of orders-0' is not a target (…)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from ackproof.errors import ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario import changes
from ackproof.scenario.changes import Overrides, Overriding
from ackproof.scenario.documents import locate, parse, shortened
from ackproof.scenario.fault_validation import fault_problems
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import removal_problems
from ackproof.scenario.share_validation import share_group_problems
from ackproof.scenario.types import Setting, YamlPath
from ackproof.scenario.validation import problems
from ackproof_faults import Fault, registered
from ackproof_faults.schedule.blocks import BLOCKS

#: The type of the error for fields that are illegal in combination.
IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """One configuration of a scenario file."""

    scenario: Scenario
    #: Name within the matrix; empty for a file without a matrix.
    name: str
    #: This configuration's values of the settings that the matrix varies.
    varied: dict[str, Setting]
    path: Path
    #: Replacements of the file's values.
    overrides: Overrides = field(default_factory=Overrides)

    @property
    def skip(self) -> str:
        """The reason to skip it; empty if it runs."""
        return self.scenario.case.skip if self.scenario.case else ""


#: Whether a configuration is used, by its name and Kafka version.
Wanted = Callable[[str, str], bool]


def load(
    path: Path, overriding: Overriding = changes.none, wanted: Wanted | None = None
) -> list[Configured]:
    """Return the configurations of a file: one, or one for each entry of its matrix.

    `overriding` replaces values of the file. Configurations that are not `wanted` are left out, and
    need not be legal. Raises ScenarioError.
    """
    document = parse(path)
    own = overriding(document)
    base = own.on_file({key: value for key, value in document.items() if key != "matrix"})
    entries = [changes.Entry(name="", changes={}, path=())]
    try:
        if "matrix" in document:
            entries = changes.entries(document["matrix"])
    except changes.MatrixError as error:
        line, _ = locate(document, error.path)
        raise ScenarioError(f"{path}:{line}: {shortened(str(error))}") from None
    result = []
    for entry in entries:
        configuration = changes.configured(changes.configured(base, entry.changes), own.merged)
        if not wanted or wanted(entry.name, str(configuration.get("kafka", DEFAULT_KAFKA))):
            scenario = _validate(path, document, configuration, own, entry)
            result.append(
                Configured(
                    scenario=scenario,
                    name=entry.name,
                    varied=changes.varied(entry.changes),
                    path=path,
                    overrides=own,
                )
            )
    return result


def validate(document: Mapping[str, Any]) -> Scenario:
    """Return the scenario that a document describes.

    Raises pydantic's ValidationError with all illegal fields or, if the fields are legal, with the
    first problem of their combination; `loc` is its YamlPath.
    """
    scenario = Scenario.model_validate(document)
    for path, problem in chain(
        problems(scenario),
        share_group_problems(scenario),
        removal_problems(scenario),
        fault_problems(scenario),
    ):
        kind = PydanticCustomError(IMPOSSIBLE, "{problem}", {"problem": problem})
        error = InitErrorDetails(type=kind, loc=path, input=document)
        raise ValidationError.from_exception_data("Scenario", [error])
    return scenario


def load_stored(run_dir: Path) -> Configured:
    """Return the configuration of a stored run. Raises ScenarioError."""
    return load(run_dir / "scenario.yaml")[0]


def load_all(
    path: Path, overriding: Overriding = changes.none, wanted: Wanted | None = None
) -> list[Configured]:
    return [one for file in scenario_files(path) for one in load(file, overriding, wanted)]


def scenario_files(path: Path) -> list[Path]:
    """Return a file, or all scenario files in a folder and the folders in it, by path.

    Raises ScenarioError if the folder holds none.
    """
    if not path.is_dir():
        return [path]
    files = sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")])
    if not files:
        raise ScenarioError(
            f"{path} holds no scenario file", hint="Name a folder with *.yaml or *.yml files."
        )
    return files


def dump(scenario: Scenario, path: Path, *, defaults: bool = True) -> None:
    """Write a scenario; without `defaults` only changed values, Kafka version and seed."""
    yaml = YAML()
    yaml.default_flow_style = False
    document = scenario.model_dump(mode="json", by_alias=True, exclude={"matrix"})
    if not defaults:
        brief = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        steps = [_brief(step) for step in scenario.faults]
        always = {"seed": scenario.seed, "kafka": scenario.kafka, "faults": steps}
        document = {key: {**brief, **always}[key] for key in document if key in {**brief, **always}}
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(document, file)


def _brief(step: BaseModel) -> dict[str, Any]:
    """Return a step without the values at their defaults, but with the name of its fault."""
    settings = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"fault": step.name, **settings} if isinstance(step, Fault) else settings


def _validate(
    path: Path,
    document: CommentedMap,
    content: Mapping[str, Any],
    own: Overrides,
    entry: changes.Entry,
) -> Scenario:
    within = entry.path
    try:
        return validate(content)
    except ValidationError as invalid:
        lines = []
        errors = invalid.errors(include_url=False)
        for error in errors[:_MOST_ERRORS]:
            location, problem = _explain(error)
            line, in_matrix = locate(document, (*within, *location))
            combined = within == ("matrix",)
            if not (within and in_matrix):
                line, in_matrix = locate(document, location)[0], False
            dotted = shortened(".".join(map(str, location))) or "scenario"
            problem = shortened(problem)
            unknown = error["type"] == "extra_forbidden"
            if source := _source(own, location, problem, unknown=unknown):
                lines.append(f"{source}: {dotted}: {problem}")
                continue
            named = in_matrix or combined
            configuration = f" (in the configuration {entry.name!r})" if named else ""
            lines.append(f"{path}:{line}: {dotted}: {problem}{configuration}")
        if (more := len(errors) - _MOST_ERRORS) > 0:
            lines.append(f"{path}: and {more:,} more errors")
        missing = {error["loc"] for error in errors if error["type"] == "missing"}
        if {("name",), ("topics",), ("workload",)} <= missing:
            raise ScenarioError(
                f"{path}: this is no scenario: it has no name, topics and workload",
                hint="`ackproof audit FILE` answers about configuration files, and `ackproof init "
                "--config FILE` makes a scenario of them.",
            ) from invalid
        raise ScenarioError("\n".join(dict.fromkeys(lines))) from invalid


def _source(own: Overrides, location: YamlPath, problem: str, *, unknown: bool) -> str:
    """Return the origin of the value at `location`, or of the values in it that `problem` names.

    unknown: `location` is a key that no scenario has.
    """
    if source := own.source_of(location):
        return source
    words = set(re.findall(r"[\w.]*\w", problem))
    return ", ".join(
        source
        for path, source in own.sources.items()
        if path[: len(location)] == location
        and (unknown or words & set(map(str, path[len(location) :])))
    )


def _explain(error: Any) -> tuple[YamlPath, str]:  # noqa: PLR0911 - one for each kind of error
    """Return where a validation error is, and the message for the user."""
    kind, location, value = error["type"], tuple(error["loc"]), error.get("input")
    context = error.get("ctx", {})
    if kind == IMPOSSIBLE:
        return location, context["problem"]
    tags = _step_tags(location)
    location = tuple(part for index, part in enumerate(location) if index not in tags)
    if kind == "extra_forbidden":
        return location, _unknown_key(tuple(error["loc"]))
    if kind == "missing":
        return location, "is missing: it is required"
    if kind == "union_tag_invalid":
        tags_here = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
        names = [tag for tag in tags_here if tag not in BLOCKS]
        near = difflib.get_close_matches(str(context["tag"]), names)
        guess = f"did you mean {near[0]!r}?" if near else "there is no similar name"
        return (
            (*location, "fault"),
            f"{context['tag']!r} is not a fault; {guess} (`ackproof faults` lists them)",
        )
    if kind == "union_tag_not_found":
        blocks = ", ".join(BLOCKS)
        return (
            location,
            "a fault needs the key 'fault' (`ackproof faults` lists the faults), a block of steps "
            f"one of {blocks}",
        )
    if location and location[-1] in ("str", "int", "float", "bool"):  # of a setting
        return location[:-1], f"it must be text, a number, true or false, not {_plain(value)}"
    if kind in _EXPECTED:
        return location, f"it must be {_EXPECTED[kind]}, not {_plain(value)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        least_or_most = f"{context[bound]:,}".removesuffix(".0")
        return location, f"it must be {words} {least_or_most}, not {value!r}"
    if kind == "literal_error":
        return location, f"it must be {context['expected']}, not {value!r}"
    if kind == "string_pattern_mismatch" and context["pattern"] in PATTERNS:
        return location, f"it must be {PATTERNS[context['pattern']]}, not {value!r}"
    message = error["msg"].removeprefix("Value error, ")
    shown = "" if kind == "value_error" else f"{value!r}: "
    return location, f"{shown}{message[:1].lower()}{message[1:]}"


#: The most errors of one file that are explained.
_MOST_ERRORS = 20

#: The expected kind of value in YAML's terms, by pydantic's type of error.
_EXPECTED = {
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "invalid_key": "text (every key here is)",
}

#: The relation that a number must fulfil and the key of its bound, by pydantic's type of error.
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}

_SIZE = "megabytes or gigabytes, such as"
_VERSION = f"a version of Kafka such as {DEFAULT_KAFKA}"

#: The text that a pattern of a scenario's keys stands for, in words.
PATTERNS = {
    r"^>=? ?[0-9]+(\.[0-9]+)? ?%$": "a least share of the run such as '>= 99%' or '> 0%'",
    r"^[A-Z][1-9][0-9]*[a-z]?$": "a letter and a number such as B6",
    r"^(B[1-9][0-9]*|recreated|unexplained)$": "a case such as B6, recreated, or unexplained",
    r"^[a-z0-9][a-z0-9._-]*$": (
        "small letters, digits, '.', '_' and '-', with a letter or digit first"
    ),
    r"^([1-9][0-9]{2,3}m|[1-9]g)$": f"{_SIZE} 256m or 1g",
    r"^([1-9][0-9]{2,4}m|[1-9][0-9]?g)$": f"{_SIZE} 600m or 1g",
    r"^[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*$": "HOST:PORT, or several with ',' between them",
    r"^[A-Za-z0-9._-]{3,100}$": "3 to 100 letters, digits, '.', '_' and '-'",
    r"^[A-Za-z0-9._-]{1,200}$": "1 to 200 letters, digits, '.', '_' and '-'",
    r"^[1-9][0-9]*(kbit|mbit|gbit)$": "a rate such as 1mbit (kbit, mbit, gbit)",
    r"^(producers|consumers|(producer|consumer) [0-9]+)$": (
        "producers, consumers, or one by its number from 0, such as producer 0"
    ),
    r"^(producers|producer [0-9]+)$": "producers, or one by its number from 0, such as producer 0",
    r"^(consumers|consumer [0-9]+)$": "consumers, or one by its number from 0, such as consumer 0",
    r"^([a-z][a-z0-9_-]*)?$": "small letters, digits, '_' and '-', with a letter first",
    r"^[0-9]+(\.[0-9]+){2,3}(-rc[0-9]+)?$": _VERSION,
    r"^[a-z][a-z.]*\.version$": "the name of a feature such as transaction.version",
    r"^([1-9][0-9]*|[0-9]+\.[0-9]+-IV[0-9]+)$": (
        "a level from 1, or of metadata.version a name such as 4.0-IV3"
    ),
}


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)


def _step_tags(location: YamlPath) -> dict[int, type[BaseModel]]:
    """Return the parts of a path that are tags of a union, by index, with their models.

    pydantic adds these: faults.0.kill.target, faults.0.parallel.parallel.1.kill.
    """
    if not location or location[0] != "faults":
        return {}
    kinds: dict[str, type[BaseModel]] = {**registered(), **BLOCKS}
    return {
        index: kinds[str(part)]
        for index, part in enumerate(location)
        if index and isinstance(location[index - 1], int) and part in kinds
    }


def _unknown_key(location: YamlPath) -> str:
    key = str(location[-1])
    legal = _legal_keys(location[:-1])
    near = difflib.get_close_matches(key, legal)
    advice = f"; did you mean {near[0]!r}?" if near else f" ({', '.join(legal)})"
    return f"{key!r} is not a key here{advice}"


def _legal_keys(location: YamlPath) -> list[str]:
    model: type[BaseModel] = Scenario
    if tags := _step_tags(location):
        last = max(tags)
        model, location = tags[last], location[last + 1 :]
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in an annotation such as `dict[str, TopicSpec]`, or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for one in get_args(annotation) if (model := _model_in(one))), None)
