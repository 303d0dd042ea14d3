"""The outputs of an audit, by name. Each has a module here with `render(audit) -> str`.

`terminal` is here, too; it prints to a console in place of returning text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from ackproof.audit.detail import FINDINGS, Detail

if TYPE_CHECKING:
    from ackproof.audit.answer import Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A form in which an audit is shown.

    name: of its option; a word of letters, digits and underscores, because it names a field, too.
    module: in this folder; it is imported only for a command that asks for this output. to: a file
    that an option names, or standard output or error. shows: what it needs besides the risks.
    tables: of how many groups of topics it shows the table. help: of the option.
    """

    name: str
    module: str
    to: Literal["file", "stdout", "stderr"]
    shows: Detail = Detail.NOTHING
    tables: int = 0
    help: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                f"name of an output: {self.name!r} is not one word; write letters, digits and _"
            )

    def render(self, audit: Audit) -> str:
        text: str = import_module(f"{__name__}.{self.module}").render(audit)
        return text


#: What a table for all values of what files leave open needs.
IN_FULL = Detail.TABLES | Detail.EVERY_VALUE

OUTPUTS: Mapping[str, Output] = {
    output.name: output
    for output in (
        Output(
            name="sarif",
            module="sarif",
            to="file",
            shows=FINDINGS,
            help="For code scanning.",
        ),
        Output(name="junit", module="junit", to="file", shows=FINDINGS),
        Output(
            name="markdown",
            module="markdown",
            to="file",
            shows=IN_FULL,
            tables=20,
            help="For a pull request; - is standard output.",
        ),
        Output(name="html", module="page", to="file", shows=IN_FULL, tables=100, help="A page."),
        Output(
            name="annotations",
            module="annotations",
            to="stderr",
            shows=FINDINGS,
            help="GitHub's annotations, on standard error. Default: in GitHub Actions.",
        ),
        Output(
            name="json",
            module="json_document",
            to="stdout",
            shows=Detail.CHANGED | FINDINGS,
        ),
    )
}
