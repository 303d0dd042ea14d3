"""The reference that the code determines: commands, scenario keys, tables, faults.

`ci/site` puts it into the pages of the site. `ci/reference` writes the short tables that are in the
repository, too; a test compares them with `pages()`.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import catalogue_pages
import hunt
import pyarrow as pa
import rediscover
import truth
import typer
from pydantic import BaseModel
from typer.cli import get_docs_for_click

from ackproof.cli.main import command_tree, name_formats
from ackproof.errors import ExitCode
from ackproof.judgement import invariants
from ackproof.ledger.acked_log import AckedSend
from ackproof.ledger.delivery_log import DeliveryEvent
from ackproof.own_config.formats import formats
from ackproof.scenario.model import json_schema
from ackproof_faults import registered
from ackproof_faults.fault_table import entries
from ackproof_spark import tables
from ackproof_spark.warehouse import schemas

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
_BEGIN, _END = "<!-- made by ci/reference -->\n", "<!-- end -->"
_EXIT_CODES = {
    ExitCode.HOLDS: "everything was as expected, or the command did its work",
    ExitCode.VIOLATED: "an expectation was not met, such as: no acked record is lost",
    ExitCode.USAGE: "a wrong option, or a file that is not valid",
    ExitCode.INCONCLUSIVE: "the run cannot tell; also a run that was interrupted",
    ExitCode.ENVIRONMENT: "something on the machine is missing or failed: engine, Java, disk",
}
#: Keys whose values another place describes.
_ELSEWHERE = {
    "faults": "[faults](faults.md) and blocks of them ([schedules](schedules.md))",
    "workload.beside": "other topics that are written to in the same run, with keys of `workload`",
}


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"reference: {path.relative_to(ROOT)}\n")


def pages() -> dict[Path, str]:
    """Return the text of each page that has a generated part in the repository."""
    return {
        path: _with_part(path, part)
        for path, part in (
            (REFERENCE / "acked-log.md", log_keys(AckedSend)),
            (REFERENCE / "delivery-log.md", log_keys(DeliveryEvent)),
            (REFERENCE / "audit.md", config_formats()),
            (ROOT / "docs" / "catalogue" / "README.md", catalogue_pages.cases()),
            (ROOT / "docs" / "explanation" / "trust.md", invariants.table()),
            (
                REFERENCE / "explore.md",
                "\n".join(rediscover.table(truth.stored(rediscover.RESULTS))),
            ),
            (ROOT / "docs" / "reports-to-kafka" / "README.md", stored_table(hunt)),
        )
    }


def _with_part(path: Path, part: str) -> str:
    before, begin, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{begin}{part}\n{end}{after}"


def stored_table(entry: ModuleType) -> str:
    """Return the table of the stored results of an entry of `ci/lab`."""
    return "\n".join(entry.table(truth.stored(entry.RESULTS)))


def log_keys(line: type[BaseModel]) -> str:
    """Return the keys of a log of the user, as the model of its lines has them."""
    schema = line.model_json_schema()
    rows = "".join(
        f"| `{name}` | {'required' if name in schema['required'] else _default(field)} | "
        f"{_cell(field['description'])} |\n"
        for name, field in schema["properties"].items()
    )
    return f"| key | default | meaning |\n|---|---|---|\n{rows}"


def config_formats() -> str:
    """Return the formats of a user's files, the most general first."""
    rows = "".join(f"| {each.name} | {each.reads} |\n" for each in reversed(formats()))
    return f"| format | what is read |\n|---|---|\n{rows}"


def faults() -> str:
    """Return the table of all faults."""
    rows = []
    for entry in entries(registered()):
        cells = (
            f"`{entry.name}`",
            entry.summary,
            "<br>".join(f"`{name}`: {text}" for name, text in entry.fields.items()),
            ", ".join(entry.requires) or "nothing",
            ", ".join(entry.needs) or "nothing",
            entry.proof,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    head = "| fault | what it does | fields | uses | needs | proof |\n|---|---|---|---|---|---|"
    return "\n".join([head, *rows])


def commands() -> str:
    """Return every command with its arguments and options, as their code has them."""
    command = command_tree()
    name_formats(command)
    made = get_docs_for_click(
        obj=command, ctx=typer.Context(command, info_name="ackproof"), name="ackproof"
    )
    _, _, made = made.partition("\n## ")  # the first part is a list of cut sentences
    made = re.sub(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n?", "", made)  # so are these
    made = re.sub(r"\[bold\](.*?)\[/\]", r"`\1`", "\n## " + made)
    made = made.replace("```console\n$ ", "```text\n").replace("**Usage**:\n\n", "")
    made = re.sub(r"^\* `--help`.*\n", "", made, flags=re.M)
    made = re.sub(r"\n\*\*Options\*\*:\n\n(?=\n|\Z)", "\n", made)
    codes = "".join(
        f"| {code.value} | {code.name.lower()} | {_EXIT_CODES[code]} |\n" for code in ExitCode
    )
    return (
        f"## Exit codes\n\n| code | name | meaning |\n|---|---|---|\n{codes}\n"
        "In a suite of several runs 1 outranks 4, and 4 outranks 3.\n"
        + re.sub(r"\n{3,}", "\n\n", html.unescape(made)).rstrip()
        + "\n"
    )


def scenario_keys() -> str:
    """Return every key of a scenario with its type, default and description, from the schema."""
    schema = json_schema()
    rows = "".join(
        f"| `{path}` | {kind} | {default} | {_cell(text)} |\n"
        for path, kind, default, text in _keys(schema, schema, "")
    )
    return f"| key | type | default | meaning |\n|---|---|---|---|\n{rows}"


def _keys(
    schema: Mapping[str, Any], node: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str, str, str]]:
    required = node.get("required", [])
    for name, field in node.get("properties", {}).items():
        path = f"{prefix}{name}"
        inner, joint = _model(schema, field)
        text = str(field.get("description") or (inner or {}).get("description") or "")
        default = "required" if name in required else _default(field)
        if path in _ELSEWHERE:
            yield path, _type(field), default, _ELSEWHERE[path]
        elif inner is None:
            yield path, _type(field), default, text
        else:
            yield path, "map" if joint != "[]." else "list", "" if inner else default, text
            yield from _keys(schema, inner, f"{path}{joint}")


def _model(
    schema: Mapping[str, Any], field: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the model of a field's value or of the values in it, and how its keys are joined."""
    if "properties" in field:
        return field, "."
    for one in (field, *field.get("anyOf", ())):
        if "$ref" in one:
            found = schema["$defs"][one["$ref"].rsplit("/", 1)[1]]
            return (found, ".") if "properties" in found else (None, "")
        named = (one.get("additionalProperties"), *one.get("patternProperties", {}).values())
        for value, joint in (*((value, ".NAME.") for value in named), (one.get("items"), "[].")):
            if isinstance(value, dict) and "$ref" in value:
                return _model(schema, value)[0], joint
    return None, ""


def _type(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(dict.fromkeys(f"`{value}`" for value in field["enum"]))
    if "anyOf" in field or "oneOf" in field:
        kinds = [_type(one) for one in field.get("anyOf") or field["oneOf"]]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    kind: str = field.get("type", "any")
    return {"object": "map", "string": "text"}.get(kind, kind)


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def every_table() -> str:
    """Return the columns and types of every table of a run and of a warehouse."""
    found = {name: getattr(tables, name.upper(), None) for name in tables.LOCATION}
    of_run = "".join(
        _table(name, schema, where=f"`{tables.LOCATION[name]}` in the run directory")
        for name, schema in found.items()
        if schema is not None
    )
    of_warehouse = "".join(
        f"### {name}\n\n{table.comment}.\n\n| column | type | meaning |\n|---|---|---|\n"
        + "".join(
            f"| `{field.name}` | {_arrow(field.type)}{'?' if field.nullable else ''} "
            f"| {_cell(schemas.comment_of(field))} |\n"
            for field in table.schema
        )
        + "\n"
        for name, table in schemas.TABLES.items()
    )
    return f"## Tables of a run\n\n{of_run}## Tables of a warehouse\n\n{of_warehouse}"


def _table(name: str, schema: pa.Schema, *, where: str = "") -> str:
    columns = ", ".join(
        f"`{field.name}` {_arrow(field.type)}{'?' if field.nullable else ''}"
        for field in schema
        if field.name not in ("schema_version", "run_id")
    )
    return f"### {name}\n\n{where}{': ' if where else ''}{columns}\n\n"


def _arrow(kind: pa.DataType) -> str:
    return (
        "time"
        if pa.types.is_timestamp(kind)
        else re.sub(r"list<\w+: (.*?)( not null)?>", r"list of \1", str(kind))
    )


if __name__ == "__main__":
    main()
