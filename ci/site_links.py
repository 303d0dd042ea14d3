"""Hook of mkdocs: links from a page to files outside `docs/` lead to the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page with its links to files outside `docs/`, and to folders, as addresses."""
    docs = Path(config["docs_dir"])
    folder = (docs / page.file.src_uri).parent

    def address(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[1]))
        if target.is_relative_to(docs) and not target.is_dir():
            return link[1]  # mkdocs checks these
        inside = target.relative_to(docs.parent)
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri}: there is no {inside}")
        return f"{config['repo_url']}/blob/main/{inside}"

    return _LINK.sub(address, markdown)
