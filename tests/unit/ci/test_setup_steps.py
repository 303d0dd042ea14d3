"""What `ci/setup demo` installs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError, requires

import pytest
import setup_steps
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setup_steps import CONSTRAINTS, DEMO_PACKAGES, IMAGE_PACKAGES

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


#: Prints the packages that are imported with what makes images.
IMPORTED = """
import sys
from importlib.metadata import packages_distributions
from ackproof.containers import images
packages = packages_distributions()
print(*{package for name in list(sys.modules) for package in packages.get(name, [])})
"""


def test_images_are_made_with_the_packages_that_are_installed_first() -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    # Every process imports setuptools, for distutils.
    assert set(done.stdout.split()) - {"setuptools", "ackproof"} == set(IMAGE_PACKAGES)
    assert needed("docker") == set(IMAGE_PACKAGES)


@pytest.mark.parametrize("can", [True, False])
def test_python_waits_for_system_packages_only_if_it_needs_one(
    can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, made = [], threading.Event()

    def packages(demo: bool) -> str:
        if can:
            assert made.wait(60)
        order.append("system packages")
        return ""

    def environment() -> str:
        order.append("python")
        made.set()
        return ""

    monkeypatch.setattr(setup_steps, "_makes_environments", lambda: can)
    monkeypatch.setattr(setup_steps, "packages", packages)
    monkeypatch.setattr(setup_steps, "virtual_environment", environment)
    for name in ("image_packages", "python_packages", "spark", "java", "connector"):
        monkeypatch.setattr(setup_steps, name, lambda demo: "")
    for name in ("engine", "image_parts", "images"):
        monkeypatch.setattr(setup_steps, name, str)
    setup_steps.main("demo")
    assert order == (["python", "system packages"] if can else ["system packages", "python"])
