"""Hook of mkdocs: the pages and tables of the site that are generated, and not in the repository.

A page of `docs/` has `<!-- generated: NAME -->` where a table of `PARTS` belongs. The pages of the
catalogue are generated whole.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any

import catalogue_pages
import claims_page
import reference_pages
from mkdocs.structure.files import File, Files

from ackproof.audit import listing
from benchmarks import ratios

_MARK = re.compile(r"<!-- generated: (\S+) -->")
#: In the repository a link to a case leads to its scenario, on the site to its page.
_CASE = re.compile(r"(?<=\]\()[./]*scenarios/(catalogue/[\w.-]+)\.yaml(?=\))")

PARTS: dict[str, Callable[[], str]] = {
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
    "faults": reference_pages.faults,
    "scenario-keys": reference_pages.scenario_keys,
    "tables": reference_pages.every_table,
}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the catalogue's pages and plots."""
    for name, text in catalogue_pages.pages(catalogue_pages.stored()).items():
        files.append(File.generated(config, f"catalogue/{name}", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page with its generated parts."""
    file = page.file
    if file.generated_by is not None:
        return markdown
    folder = posixpath.dirname(file.src_uri) or "."
    text = _CASE.sub(lambda link: posixpath.relpath(f"{link[1]}.md", folder), markdown)
    return _MARK.sub(lambda mark: PARTS[mark[1]](), text)
