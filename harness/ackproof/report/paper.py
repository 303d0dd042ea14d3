"""A comparison as a paper of one page, in Markdown or PDF.

A PDF is the page of the comparison without its runs, printed by a Chromium browser.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ackproof.comparison.summary import Summary
from ackproof.errors import AckproofError, ScenarioError
from ackproof.report import certainty, comparison, recommendation, wording
from ackproof.report import formatting as fmt
from ackproof.report.html import write_html
from ackproof.report.premise import Fact
from ackproof.runs.directory import disk_errors
from ackproof.runs.verdict import Verdict
from ackproof.safe_files import replacing

FORMATS = (".md", ".pdf")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PRINTING_S = 120


def require_writable(path: Path) -> None:
    """Raise an error unless format and folder exist and, for a PDF, a browser."""
    if path.suffix not in FORMATS:
        raise ScenarioError(
            f"--to {path}: a paper is Markdown or PDF", hint="Name a file .md or .pdf."
        )
    if not path.resolve().parent.is_dir():
        raise ScenarioError(
            f"--to {path}: no such folder", hint=f"Create it: mkdir -p {path.parent}"
        )
    if path.suffix == ".pdf":
        _browser()


def write_paper(
    path: Path,
    summary: Summary,
    verdicts: Sequence[Verdict],
    facts: Sequence[Fact],
    *,
    title: str,
) -> None:
    """Write the paper. Raises DiskError, and AckproofError without a browser for a PDF."""
    if path.suffix == ".pdf":
        _print(path, summary, verdicts, facts, title=title)
        return
    with disk_errors(path), replacing(path) as partial:
        partial.write_text(markdown(summary, verdicts, facts, title=title), encoding="utf-8")


def markdown(
    summary: Summary, verdicts: Sequence[Verdict], facts: Sequence[Fact], *, title: str
) -> str:
    """Return the recommendation, what was tried, the table, its conditions and the statistics.

    The page has the same, in this order.
    """
    questions = comparison.questions(summary)
    rows = [
        [
            f"{answer.text}<br>{answer.note}" if answer.note else answer.text
            for answer in (question.answers[number] for question in questions)
        ]
        for number in range(len(summary.cells))
    ]
    parts = [
        f"# {title}",
        *(f"**{sentence}**" for sentence in comparison.outages(summary)),
        *recommendation.of_comparison(summary),
        *(["\n".join(map(_item, facts))] if facts else []),
        "\n".join(
            fmt.markdown_row(cells)
            for cells in (
                [question.text for question in questions],
                ["---"] * len(questions),
                *rows,
            )
        ),
        *comparison.notes(summary),
        *(sentence for sentence, _ in wording.agreement_sentences(verdicts)),
        *certainty.statistics(summary),
    ]
    return "\n\n".join(parts) + "\n"


def _item(fact: Fact) -> str:
    text = f"`{fact.text}`" if fact.command else fact.text
    return f"- **{fact.label}**: {text}"


def _browser() -> str:
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        raise AckproofError(
            f"a PDF needs a Chromium browser, and none is on the path: {', '.join(_BROWSERS)}",
            hint="Install one, or write Markdown: --to decision.md",
        )
    return found


def _print(
    path: Path,
    summary: Summary,
    verdicts: Sequence[Verdict],
    facts: Sequence[Fact],
    *,
    title: str,
) -> None:
    with disk_errors(path), tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_html(page, [], title=title, summary=summary, verdicts=verdicts, facts=facts)
        command = [
            *(_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"),
            *(f"--user-data-dir={folder}/profile", "--virtual-time-budget=5000"),
            *(f"--print-to-pdf={path.resolve()}", page.as_uri()),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PRINTING_S, check=False)
            complaint = done.stderr.decode(errors="replace").strip()[-300:]
        except subprocess.TimeoutExpired:
            complaint = f"no answer within {_PRINTING_S} s"
        if not path.exists():
            raise AckproofError(
                f"the browser did not print {path}: {complaint}",
                hint="Write Markdown instead: --to decision.md",
            )
