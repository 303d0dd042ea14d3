"""What `ci/setup demo` installs."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setup_steps import CONSTRAINTS, DEMO_PACKAGES

from documented import ROOT


def needed(package: str, extra: str = "") -> set[str]:
    """Return the packages that one needs, with those that these need, and itself."""
    found, waiting = set(), {(package, extra)}
    while waiting:
        found.add(asked := waiting.pop())
        try:
            lines = requires(asked[0]) or []
        except PackageNotFoundError:  # of another platform
            continue
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": asked[1]}):
                of = {
                    (canonicalize_name(requirement.name), one) for one in {"", *requirement.extras}
                }
                waiting |= of - found
    return {name for name, _ in found}


def test_the_demo_gets_what_ackproof_needs_to_run() -> None:
    """If this fails, write these names to ci/demo-packages.txt."""
    text = (ROOT / CONSTRAINTS).read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9-]+)==", text, re.M))
    every = needed("ackproof", "run") | needed("hatchling")
    assert {"mypy", "pytest", "duckdb"} <= pinned - every
    assert (ROOT / DEMO_PACKAGES).read_text(encoding="utf-8").split() == sorted(pinned & every)
