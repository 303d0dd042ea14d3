"""Writes what the README shows of a comparison: `docs/report.png` and the table.

`ci/picture` calls it with the directory of the comparison.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ackproof.comparison.summary import Summary
from ackproof.console import Console
from ackproof.report.terminal import print_comparison
from ackproof.runs.directory import read_model, read_verdict

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "report.png"
_BETWEEN = re.compile(r"(?<=<!-- made by ci/picture -->\n).*?(?=<!-- end -->)", re.S)
#: Absolute, because package indexes show the README as well.
_RAW = "https://raw.githubusercontent.com/ackproof/ackproof/main"
_SIZE = "1280,1600"


def main(comparison: Path) -> None:
    """Write the picture of a comparison's page, and the README's block."""
    photograph(comparison / "report.html", PICTURE)
    text = README.read_text(encoding="utf-8")
    README.write_text(_BETWEEN.sub(lambda _: shown(comparison), text), encoding="utf-8")


def shown(comparison: Path) -> str:
    """Return the block of the README: what the terminal says of the comparison, and the picture."""
    trials = [json.loads(line) for line in (comparison / "trials.jsonl").read_text().splitlines()]
    run_dirs = [comparison.parent / trial["run_id"] for trial in trials]
    said = io.StringIO()
    console = Console(file=said, width=80, no_color=True, highlight=False)
    page = Path("runs/latest/report.html")
    verdicts = [read_verdict(run_dir) for run_dir in run_dirs]
    summary = read_model(comparison, "comparison.json", Summary)
    print_comparison(console, summary, verdicts, run_dirs, page)
    lines = "\n".join(line.rstrip() for line in said.getvalue().splitlines()).strip("\n")
    return f"```text\n{lines}\n```\n\n![The report of this comparison]({_RAW}/docs/report.png)\n\n"


def photograph(page: Path, picture: Path) -> None:
    """Write a picture of the top of a page, as a browser shows it."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        sys.exit("picture: neither chromium nor google-chrome is on the path")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--hide-scrollbars"),
                *(f"--window-size={_SIZE}", f"--user-data-dir={profile}"),
                *(
                    "--virtual-time-budget=10000",
                    f"--screenshot={picture}",
                    page.resolve().as_uri(),
                ),
            ],
            check=True,
            timeout=300,
            stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
