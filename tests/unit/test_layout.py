"""The layout of the four packages: no circles, few levels, modules of one concept.

Who may import whom is import-linter's (`pyproject.toml`); what it cannot say is here.
"""

from __future__ import annotations

import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "ackproof": ROOT / "harness",
    "ackproof_faults": ROOT / "faults",
    "ackproof_model": ROOT / "reference_model",
    "ackproof_spark": ROOT / "spark_analysis",
}

#: The most levels of packages on a path of imports.
LEVELS = {"ackproof": 13, "ackproof_faults": 8, "ackproof_model": 8, "ackproof_spark": 8}

#: The most levels of modules inside a subpackage.
LEVELS_INSIDE = 8

#: The most lines of a module that needs no reason. One concept a module is the rule.
MOST_LINES = 600
#: Modules that may have more, each with its reason.
LONG = {
    "ackproof/report/run_plots.py": "the plots of a run, which share its time axis and bands",
    "ackproof_model/effects.py": "the vocabulary of effects, and what each means to the model",
}
#: Folders whose modules are registered: each is one fault, format, output, risk, or some commands.
REGISTERED = (
    "ackproof.cli.",
    "ackproof_faults.",
    "ackproof.own_config.formats.",
    "ackproof.audit.outputs.",
    "ackproof.audit.risks.",
)
#: Modules of fewer than 40 lines with a single importer, each with the reason not to be part of it.
SMALL = {
    "ackproof_spark.spark.executor_zip": "a command of its own, too",
}


def imports(package: str) -> dict[str, set[str]]:
    """The imports between the modules of a package, those for type checking included."""
    graph = grimp.build_graph(package, cache_dir=None)
    return {
        module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)
    }


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def levels(graph: dict[str, set[str]]) -> int:
    """The number of nodes on the longest path."""
    depth: dict[str, int] = {}
    for node in TopologicalSorter(graph).static_order():
        depth[node] = 1 + max((depth[below] for below in graph.get(node, ())), default=0)
    return max(depth.values())


def by_stage(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports between what lies directly in a package: its modules and subpackages."""

    def stage(module: str) -> str:
        return ".".join(module.split(".")[:2])

    stages: dict[str, set[str]] = {}
    for module, imported in graph.items():
        if "." in module:  # the package's own __init__ re-exports
            below = stages.setdefault(stage(module), set())
            below |= {stage(one) for one in imported if "." in one} - {stage(module)}
    return stages


def inside(graph: dict[str, set[str]]) -> dict[str, dict[str, set[str]]]:
    """The imports inside each subpackage that lies directly in a package."""
    subpackages: dict[str, dict[str, set[str]]] = {}
    for module, imported in graph.items():
        if module.count(".") > 1:
            name = ".".join(module.split(".")[:2])
            own = {below for below in imported if below.startswith(f"{name}.")}
            subpackages.setdefault(name, {})[module] = own
    return subpackages


def too_long(lines: dict[str, int], *, most: int, allowed: dict[str, str]) -> dict[str, int]:
    return {name: count for name, count in lines.items() if count > most and name not in allowed}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_through_others(package: str) -> None:
    assert circle(imports(package)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_stages_have_few_levels_and_no_circle(package: str) -> None:
    stages = by_stage(imports(package))
    assert circle(stages) == []
    assert levels(stages) <= LEVELS[package]


@pytest.mark.parametrize("package", PACKAGES)
def test_subpackages_have_few_levels_inside(package: str) -> None:
    depths = {name: levels(graph) for name, graph in inside(imports(package)).items()}
    assert {name: depth for name, depth in depths.items() if depth > LEVELS_INSIDE} == {}


def test_a_circle_and_its_levels_are_noticed() -> None:
    graph = {"a.x.one": {"a.y.two"}, "a.y.two": {"a.z.three"}, "a.z.three": set[str]()}
    assert circle(graph) == []
    assert levels(by_stage(graph)) == 3
    assert levels(inside({"a.x.one": {"a.x.two", "a.y.three"}, "a.x.two": set()})["a.x"]) == 2
    assert circle(graph | {"a.z.three": {"a.x.one"}}) != []
    assert circle(by_stage(graph | {"a.y.other": {"a.x.another"}})) == ["a.x", "a.y", "a.x"]


def lines_of(root: Path, pattern: str) -> dict[str, int]:
    found = {
        str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines())
        for path in root.rglob(pattern)
    }
    assert found, f"no file below {root}"
    return found


def test_a_longer_module_gives_its_reason() -> None:
    lines = {
        name: count
        for source in PACKAGES.values()
        for name, count in lines_of(source, "*.py").items()
    }
    assert too_long(lines, most=MOST_LINES, allowed=LONG) == {}
    assert all(lines[name] > MOST_LINES for name in LONG), "a reason that is no longer needed"


def small_with_one_importer(lines: dict[str, int], graph: dict[str, set[str]]) -> set[str]:
    importers = Counter(imported for below in graph.values() for imported in below)
    return {
        module
        for module, count in lines.items()
        if count < 40 and importers[module] == 1 and not module.startswith(REGISTERED)
    }


def test_no_small_module_has_a_single_importer_without_a_reason() -> None:
    built = grimp.build_graph(*PACKAGES, cache_dir=None)
    graph = {module: built.find_modules_directly_imported_by(module) for module in built.modules}
    lines = {
        name.removesuffix(".py").replace("/", "."): count
        for source in PACKAGES.values()
        for name, count in lines_of(source, "*.py").items()
    }
    assert small_with_one_importer(lines, graph) == set(SMALL)


def test_a_small_module_with_one_importer_is_noticed() -> None:
    graph = {"a": {"small", "shared", "long"}, "b": {"shared"}}
    assert small_with_one_importer({"small": 39, "shared": 9, "long": 40}, graph) == {"small"}
    assert small_with_one_importer({f"{REGISTERED[0]}a": 39}, {"b": {f"{REGISTERED[0]}a"}}) == set()


def test_a_long_module_is_noticed() -> None:
    lines = {"a.py": 601, "b.py": 600, "c.py": 700}
    assert too_long(lines, most=MOST_LINES, allowed={"c.py": "why"}) == {"a.py": 601}


#: An import from a test module.
TEST_IMPORT = re.compile(r"^(from (\w+\.)*test_\w+ import|from [\w.]+ import .*\btest_\w+)", re.M)


def test_no_test_imports_from_a_test_module() -> None:
    importers = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if TEST_IMPORT.search(path.read_text(encoding="utf-8"))
    ]
    assert importers == []


def test_an_import_from_a_test_module_is_noticed() -> None:
    assert TEST_IMPORT.search("import a\nfrom unit.harness.test_api import example\n")
    assert TEST_IMPORT.search("from unit.harness import test_api\n")
    assert not TEST_IMPORT.search("from support.examples import example\n")
