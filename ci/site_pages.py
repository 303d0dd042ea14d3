"""Writes the source of the site: `docs/`, with what is generated and not in the repository.

A page has `<!-- generated: NAME -->` where a table of `PARTS` belongs; the pages of the catalogue
are generated whole. Links to files outside `docs/`, and to folders, lead to the repository.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import indent

import catalogue_pages
import claims_page
import reference_pages

from ackproof.audit import listing
from benchmarks import ratios

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/ackproof/ackproof"
#: The configurations of the first page: folders of `docs/example`, with their files in their order.
EXAMPLES = {
    "Compose and Spring": ("compose", "docker-compose.yml", "application.yml"),
    "Strimzi and Spring": ("strimzi", "kafka.yaml", "application.yml"),
    "Properties": ("properties", "server.properties", "producer.properties"),
}
_COMMAND = "from ackproof.cli.main import main; main()"
_MARK = re.compile(r"<!-- generated: (\S+) -->")
#: In the repository a link to a case leads to its scenario, on the site to its page.
_CASE = re.compile(r"(?<=\]\()[./]*scenarios/(catalogue/[\w.-]+)\.yaml(?=\))")
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def audited(folder: str, *names: str, columns: int) -> str:
    """Return what `ackproof audit` prints of files of an example."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, "audit", *names],
        cwd=ROOT / "docs" / "example" / folder,
        env=os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def _examples() -> str:
    """Return a tab for each example: the answer, and its files."""
    lines: list[str] = []
    for title, (folder, *names) in EXAMPLES.items():
        answer = f"$ ackproof audit {' '.join(names)}\n{audited(folder, *names, columns=84)}"
        files = [_block(ROOT / "docs" / "example" / folder / name) for name in names]
        blocks = [f"```console\n{answer}\n```\n", *files]
        lines += [f'=== "{title}"', "", *indent("\n".join(blocks), " " * 4).splitlines(), ""]
    return "\n".join(lines)


def _block(path: Path) -> str:
    kind = "ini" if path.suffix == ".properties" else "yaml"
    return f'``` {{.{kind} title="{path.name}"}}\n{path.read_text(encoding="utf-8")}```\n'


PARTS: Mapping[str, Callable[[], str]] = {
    "bench": lambda: ratios.table(ratios.stored()),
    "catalogue": lambda: (
        "[Tables](tables.md) of losses, throughput and availability side by side · "
        "[other shipped scenarios](scenarios.md)\n\n"
        + catalogue_pages.overview(catalogue_pages.stored())
    ),
    "claims": lambda: claims_page.results(claims_page.listed(), claims_page.stored()),
    "commands": reference_pages.commands,
    "audit-effects": lambda: listing.effects().markdown,
    "audit-failures": lambda: listing.failures().markdown,
    "audit-risks": lambda: listing.risks().markdown,
    "examples": _examples,
    "faults": reference_pages.faults,
    "scenario-keys": reference_pages.scenario_keys,
    "tables": reference_pages.every_table,
}


def write(docs: Path, target: Path, generated: Mapping[str, str]) -> None:
    """Write the pages of `docs`, and generated ones by their paths, to `target`.

    Raises FileNotFoundError for a link to a file outside `docs` that is not there; Zensical finds
    those to other pages.
    """
    shutil.copytree(docs, target, ignore=shutil.ignore_patterns("example"), dirs_exist_ok=True)
    for name, text in generated.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for page in docs.rglob("*.md"):
        (target / page.relative_to(docs)).write_text(_completed(page, docs), encoding="utf-8")


def _completed(page: Path, docs: Path) -> str:
    """Return the text of a page with its generated parts, and the links of the site."""
    folder = posixpath.dirname(page.relative_to(docs).as_posix()) or "."
    text = page.read_text(encoding="utf-8")
    text = _CASE.sub(lambda link: posixpath.relpath(f"{link[1]}.md", folder), text)
    text = _LINK.sub(lambda link: _address(link[1], page, docs), text)
    return _MARK.sub(lambda mark: PARTS[mark[1]](), text)


def _address(link: str, page: Path, docs: Path) -> str:
    place = Path(os.path.normpath(page.parent / link))
    if place.is_relative_to(docs) and not place.is_dir():
        return link
    if not place.exists():
        raise FileNotFoundError(f"{page.relative_to(docs)}: there is no {link}")
    return f"{REPOSITORY}/blob/main/{place.relative_to(docs.parent)}"


if __name__ == "__main__":
    cases = catalogue_pages.pages(catalogue_pages.stored())
    made = {f"catalogue/{name}": text for name, text in cases.items()}
    write(ROOT / "docs", Path(sys.argv[1]), made)
