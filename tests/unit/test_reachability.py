"""No code of the product that only tests use: commands and exports lead to all of it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from ackproof.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "ackproof": "harness",
    "ackproof_faults": "faults",
    "ackproof_model": "reference_model",
    "ackproof_spark": "spark_analysis",
}
#: Modules whose names are for users, or are found by their place.
EXPORTS = ("ackproof.api", "ackproof.pytest_plugin", "ackproof_faults.conditions.builders")

#: Folders whose modules a registry imports by their names, and what it calls in them.
REGISTERED = {
    "ackproof.audit.outputs": {"render"},
    "ackproof.audit.risks": {"KIND", "risks"},
    "ackproof.cli": {
        place.partition(".")[2] for names in COMMANDS.values() for place in names.values()
    },
    "ackproof.own_config.formats": {"FORMAT"},
    "ackproof_spark.checks": {"CHECKS"},
}

ALLOWED = {
    "ackproof.ledger.producer_ledger.recover": "reads a ledger that is still being written",
    "ackproof_model.planning.plan.shortest_loss": "ci/lab/audit-truth attacks by its schedules",
    "ackproof.containers.images.prepare": "ci/setup calls it while the engine starts",
    "ackproof_model.transactions.search.ANOMALIES": "tests go through all of them",
}

#: A module and a name in it.
Name = tuple[str, str]


def unreachable(modules: Mapping[str, ast.Module], *, used_elsewhere: set[str]) -> set[str]:
    """Return the top-level names that neither a root nor anything that a root reaches refers to.

    Roots are statements without a name, decorated definitions, `main`, the modules of commands and
    `EXPORTS`, classes (faults are registered by their export), and words in `used_elsewhere`.
    """
    places = {
        (module, name): node
        for module, tree in modules.items()
        for node in tree.body
        for name in _names(node)
    }
    imports = {module: _imports(tree, modules) for module, tree in modules.items()}

    def defined(name: Name) -> Name:
        """Follow a name through modules that only import it."""
        while name not in places and name[0] in imports and name[1] in imports[name[0]][0]:
            name = imports[name[0]][0][name[1]]
        return name

    leads_to: dict[Name, set[Name]] = defaultdict(set)
    live: set[Name] = set()
    for module, tree in modules.items():
        for node in tree.body:
            references = _references(node, module, *imports[module], places)
            found = {defined(name) for name in references} & places.keys()
            for name in _names(node):
                leads_to[module, name] |= found - {(module, own) for own in _names(node)}
            if _is_root(module, node, used_elsewhere):
                live |= found | {(module, name) for name in _names(node)}
    todo = list(live)
    while todo:
        for one in leads_to[todo.pop()] - live:
            live.add(one)
            todo.append(one)
    return {".".join(name) for name in places.keys() - live}


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
    else:
        targets = [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_root(module: str, node: ast.stmt, used_elsewhere: set[str]) -> bool:
    names = _names(node)
    return (
        not names
        or isinstance(node, ast.ClassDef)
        or bool(getattr(node, "decorator_list", ()))
        or module in (*EXPORTS, *PACKAGES)
        or bool(REGISTERED.get(module.rpartition(".")[0], set()).intersection(names))
        or any(name == "main" or name.startswith("__") or name in used_elsewhere for name in names)
    )


def _imports(
    tree: ast.Module, modules: Mapping[str, ast.Module]
) -> tuple[dict[str, Name], dict[str, str]]:
    """Return what the module's local names mean: names of other modules, and whole modules."""
    names: dict[str, Name] = {}
    whole: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.names[0].name == "*" and node.module in modules:
                names |= _imports(modules[node.module], modules)[0]
                continue
            for alias in node.names:
                local, path = alias.asname or alias.name, f"{node.module}.{alias.name}"
                names[local] = (node.module, alias.name)
                if path in modules:
                    whole[local] = path
        elif isinstance(node, ast.Import):
            whole |= {alias.name: alias.name for alias in node.names if alias.name in modules}
    return names, whole


def _references(
    node: ast.AST,
    module: str,
    imported: Mapping[str, Name],
    whole: Mapping[str, str],
    places: Mapping[Name, ast.stmt],
) -> Iterator[Name]:
    inside = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield imported.get(part.id, (module, part.id))
            if part.id in whole and id(part) not in inside:  # the module itself is passed on
                yield from (place for place in places if place[0] == whole[part.id])
        elif (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.value.id in whole
        ):
            yield whole[part.value.id], part.attr


def _product() -> dict[str, ast.Module]:
    modules = {}
    for package, folder in PACKAGES.items():
        for path in (ROOT / folder / package).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join(part for part in parts if part != "__init__")
            modules[name] = ast.parse(path.read_text())
    return modules


def test_no_code_is_for_tests_only() -> None:
    templates = (ROOT / "harness/ackproof").rglob("templates/*")
    words = {word for path in templates for word in re.findall(r"\w+", path.read_text())}
    idle = unreachable(_product(), used_elsewhere=words)
    assert idle == ALLOWED.keys(), "move it to tests, or list it in ALLOWED with the reason"


def test_a_function_that_nothing_refers_to_is_found() -> None:
    modules = {
        "a": ast.parse("from b import used\nused()"),
        "b": ast.parse(
            "def used(): return _helper()\ndef _helper(): ...\ndef idle(): _own()\n"
            "def _own(): ...\n_FIRST, _SECOND = 1, 2\nprint(_FIRST)\n"
        ),
    }
    assert unreachable(modules, used_elsewhere=set()) == {"b.idle", "b._own", "b._SECOND"}
    assert unreachable(modules, used_elsewhere={"idle"}) == {"b._SECOND"}
