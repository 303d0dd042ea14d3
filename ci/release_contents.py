"""Checks the files of an sdist and a wheel against version control, and their version.

`ci/release` calls it with the folder of both and, for a release, the tag.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any


def of_wheel(tracked: Iterable[str], build: Mapping[str, Any]) -> set[str]:
    """Return the names that these files have in the wheel, by `tool.hatch.build.targets.wheel`."""
    packages = [PurePosixPath(package) for package in build["packages"]]
    moved = {PurePosixPath(source): target for source, target in build["force-include"].items()}
    names = set()
    for path in map(PurePosixPath, tracked):
        names |= {str(path.relative_to(one.parent)) for one in packages if path.is_relative_to(one)}
        names |= {
            str(target / path.relative_to(source))
            for source, target in moved.items()
            if path.is_relative_to(source)
        }
    return names


def differences(archive: str, found: set[str], expected: set[str]) -> list[str]:
    return [
        *(f"{archive} has {name}, which no commit has" for name in sorted(found - expected)),
        *(f"{archive} lacks {name}" for name in sorted(expected - found)),
    ]


def wrong_versions(version: str, *, built: str, changelog: str, tag: str) -> list[str]:
    """Return what contradicts the `version` of pyproject.toml; a tag needs a dated changelog."""
    heading = re.search(r"^## (\S+) \((.+)\)$", changelog, re.M)
    latest, date = heading.groups() if heading else ("none", "none")
    problems = [
        f"{what} is {found}, that of pyproject.toml {version}"
        for what, found in (("the version of the wheel", built), ("of the changelog", latest))
        if found != version
    ]
    if tag and tag != f"v{version}":
        problems.append(f"the tag is {tag}, and the version {version} needs v{version}")
    if tag and not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        problems.append(f"the changelog says {version} ({date}): a release needs its date")
    return problems


def main(folder: Path, tag: str = "") -> list[str]:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    tracked = set(listed.stdout.splitlines())
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as zipped:
        names = set(zipped.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        built = re.search(r"^Version: (.+)$", zipped.read(metadata).decode(), re.M)
    with tarfile.open(sdist) as tar:
        unpacked = {PurePosixPath(*PurePosixPath(one).parts[1:]) for one in tar.getnames()}
    build = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    return [
        *differences(
            wheel.name,
            {name for name in names if ".dist-info/" not in name},
            of_wheel(tracked, build),
        ),
        *differences(sdist.name, {str(name) for name in unpacked}, tracked | {"PKG-INFO"}),
        *wrong_versions(
            project["project"]["version"],
            built=built[1] if built else "none",
            changelog=Path("CHANGELOG.md").read_text(encoding="utf-8"),
            tag=tag,
        ),
    ]


if __name__ == "__main__":
    sys.exit("\n".join(main(Path(sys.argv[1]), *sys.argv[2:])) or 0)
