"""The fenced blocks of README and docs, and how they are run as written.

A block of the language `sh` has commands. A comment above a block says how to treat it, in parts
joined by `;`:

    <!-- slow -->            brokers, Spark, or more than a few seconds: run by ci/slow
    <!-- exits 1 -->         its commands end with this exit code
    <!-- not run: why -->    nobody but the reader can run it
    <!-- file: a.yaml -->    save it under this name before the later blocks of the page are run
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.cli.main import command_tree

ROOT = Path(__file__).parents[1]
#: Where `ackproof` is.
PROGRAMS = ROOT / ".venv" / "bin"
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    line: int
    kind: str
    text: str
    marks: tuple[str, ...] = ()

    def mark(self, name: str) -> str | None:
        """Return what follows the name of a mark, `""` if nothing does; None without it."""
        for mark in self.marks:
            if mark.startswith(name):
                return mark.removeprefix(name).lstrip(": ")
        return None

    @property
    def runs(self) -> bool:
        return self.kind == "sh" and self.mark("not run") is None

    @property
    def slow(self) -> bool:
        return self.mark("slow") is not None

    @property
    def exit_code(self) -> int:
        return int(self.mark("exits") or 0)


def pages() -> list[Path]:
    """Return README, CONTRIBUTING and every page of docs."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]
    return found + sorted((ROOT / "docs").rglob("*.md"))


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(
            line=text.count("\n", 0, found.start("kind")) + 1,
            kind=found["kind"],
            text=found["text"],
            marks=tuple(part.strip() for part in (found["mark"] or "").split(";") if part.strip()),
        )
        for found in _BLOCK.finditer(text)
    ]


def lines(block: Block) -> list[str]:
    """Return the commands of a block: joined after backslashes, without comments."""
    joined = block.text.replace("\\\n", " ")
    return [
        line
        for line in (re.sub(r"(^|\s)#.*", "", one).strip() for one in joined.splitlines())
        if line
    ]


def unknown_words(command: str) -> list[str]:
    """Return the words of an `ackproof` command that are no command and no option of it."""
    known: Any = command_tree()
    words = shlex.split(command)[1:]
    while words and (commands := getattr(known, "commands", None)):
        if words[0] not in commands:
            return [] if words[0].startswith("-") else [words[0]]
        known = commands[words.pop(0)]
    options = {option for one in known.params for option in (*one.opts, *one.secondary_opts)}
    given = (word.split("=")[0] for word in words if word.startswith("--"))
    return [word for word in given if word not in options | {"--help"}]


def workplace(folder: Path) -> Path:
    """Fill a folder with links to the checkout, so that commands leave their files in it alone."""
    for path in ROOT.iterdir():
        if path.name not in ("runs", "plans", "site"):
            (folder / path.name).symlink_to(path)
    return folder


def run_block(block: Block, *, folder: Path, timeout_s: float, programs: Path = PROGRAMS) -> str:
    """Run a block as a reader would, with `programs` on the path; return why it failed, or ""."""
    shell = subprocess.Popen(
        ["bash", "-eo", "pipefail", "-c", block.text],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=timeout_s)
        problem = f"ended with {shell.returncode}, not {block.exit_code}"
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGTERM)  # so that a run removes its brokers
        said, _ = shell.communicate()
        problem = f"had not ended after {timeout_s} s"
    else:
        if shell.returncode == block.exit_code:
            return ""
    return f"line {block.line} {problem}:\n{block.text}\n{said[-3000:]}"


def run_page(
    path: Path, *, folder: Path, slow: bool, timeout_s: float, programs: Path = PROGRAMS
) -> list[str]:
    """Run the blocks of a page in order; return what failed."""
    failed = []
    for block in blocks(path.read_text(encoding="utf-8")):
        if name := block.mark("file"):
            (folder / name).write_text(block.text, encoding="utf-8")
        if block.runs and (slow or not block.slow):
            failed.append(run_block(block, folder=folder, timeout_s=timeout_s, programs=programs))
    return [one for one in failed if one]
