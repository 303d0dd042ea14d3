"""The scenarios that ackproof ships, found by name without a checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def folder(name: str = "scenarios", in_checkout: str = "scenarios") -> Path:
    """Return the folder of shipped files: in the package, or at its place in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / name
    return installed if installed.is_dir() else package.parents[1] / in_checkout


def schema_of(output: str) -> dict[str, Any]:
    """Return the JSON schema of what `audit` or `advise` prints with --json."""
    path = folder("schemas", in_checkout="docs") / f"{output}.v1.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def files() -> list[Path]:
    return sorted(folder().rglob("*.yaml"))


def find(name: str) -> Path | None:
    """Return the shipped file or folder of a name, or None.

    A name is a case's number (`B6`), a file without its suffix (`acks`), or a path in the folder
    (`catalogue`, `guarantees/order`). Upper and lower case are the same.
    """
    name = name.lower()
    exact = folder() / name
    if exact.is_dir():
        return exact
    for path in files():
        names = (name_of(path), path.stem)
        if name.removesuffix(".yaml") in names or name.upper() == case_id(path):
            return path
    return None


def case_id(path: Path) -> str | None:
    """Return the upper-case number that a file's name begins with: `B6` for `b06-name.yaml`."""
    match = re.match(r"([a-z])0*([1-9][0-9]*[a-z]?)-", path.stem)
    return f"{match[1]}{match[2]}".upper() if match else None


def names() -> list[str]:
    """Return the words by which shipped files are found: their names and the numbers of cases."""
    return [name for path in files() for name in (path.stem, case_id(path)) if name]


def name_of(path: Path) -> str:
    return path.relative_to(folder()).with_suffix("").as_posix()


def without_schema(text: str) -> str:
    """Return a shipped file without the line that names the schema by its path in the checkout."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if "yaml-language-server" not in line)
