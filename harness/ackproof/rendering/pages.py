"""HTML pages that work offline: the settings of their templates, and the style sheet."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def environment(package: str) -> Environment:
    """Return an environment for the templates of a package; it escapes every value."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def style_sheet() -> Markup:
    file = resources.files("ackproof.rendering") / "templates" / "report.css"
    return Markup(file.read_text(encoding="utf-8"))  # noqa: S704 - our own file


def static_page(package: str, template: str, **values: Any) -> str:
    """Return a page that has no script."""
    return environment(package).get_template(template).render(style=style_sheet(), **values)
