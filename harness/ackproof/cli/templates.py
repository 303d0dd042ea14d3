"""`ackproof templates`: files for CI and Grafana that ackproof ships."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli.options import Json, print_json


def templates(
    name: Annotated[str, typer.Argument(help="A template; without it, the list of all.")] = "",
    to: Annotated[
        Path | None, typer.Option("--to", help="Copy its files into this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List, print or copy templates: CI pipelines, a Grafana dashboard and its alert.

    Examples: [bold]ackproof templates[/],
    [bold]ackproof templates github --to .github/workflows[/]
    """
    from ackproof.cli.options import write_new
    from ackproof.runs.directory import disk_errors
    from ackproof.scenario.shipped import folder

    root = folder("templates", "ci/templates")
    every = {
        path.name: sorted(file for file in path.rglob("*") if file.is_file())
        for path in sorted(root.iterdir())
    }
    if name and name not in every:
        raise typer.BadParameter(f"{name!r} is no template; there are: {', '.join(every)}")
    if to is not None and not name:
        raise typer.BadParameter("name the template to copy", param_hint="--to")
    files = every[name] if name else []
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    if to is not None:
        with disk_errors(to):
            to.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write_new(to / file, text)
            typer.echo(to / file)
    elif as_json:
        print_json(texts or {name: [file.name for file in files] for name, files in every.items()})
    elif name:
        typer.echo("\n".join(texts.values()), nl=False)
    else:
        for each, files in every.items():
            typer.echo(f"{each:10}{', '.join(file.name for file in files)}")
