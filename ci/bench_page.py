"""Stores the ratios of `ackproof bench all --json`, and writes the page of their history.

`ci/bench` calls it; its usage is there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

from ackproof.bench.ratios import MEANING

DOCS = Path(__file__).parents[1] / "docs"
STORED = DOCS / "bench-history.json"
PAGE = DOCS / "bench-history.md"

#: The page shows so many measurements, the latest ones.
SHOWN = 8

_INTRO = """\
# Ratios over time

Made by `ci/bench` from bench-history.json: `ackproof bench all` on one machine, each bench once.
Compare columns of equal cores and little load. On a shared machine a ratio may be off by half all
the same: a change means something when several columns show it.
"""


def page(stored: list[dict[str, Any]]) -> str:
    """Return the page of these measurements, oldest first, each with the commit it measured."""
    shown = stored[-SHOWN:]
    dates = [
        datetime.datetime.fromtimestamp(each["at"], datetime.UTC).date().isoformat()
        for each in shown
    ]
    heads = [
        f"{date}, `{each['commit']}`, {each['cores']} cores, load {each['load']:.1f}"
        for date, each in zip(dates, shown, strict=True)
    ]
    lines = [_INTRO, f"| bench | {' | '.join(heads)} |", "|---|" + "---:|" * len(shown)]
    for bench, (compared, better) in MEANING.items():
        lines.append(f"| **{bench}**: {compared}; {better} is better |" + " |" * len(shown))
        names = dict.fromkeys(name for each in shown for name in each["ratios"].get(bench, {}))
        for name in names:
            values = [each["ratios"].get(bench, {}).get(name) for each in shown]
            cells = ["" if value is None else f"{value:.2f}" for value in values]
            lines.append(
                f"| {name.replace('_to_', ' / ').replace('_', ' ')} | {' | '.join(cells)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--add", metavar="COMMIT", help="store the measurement on standard input")
    commit = parser.parse_args().add
    stored = json.loads(STORED.read_text()) if STORED.exists() else []
    if commit is not None:
        stored.append({"commit": commit, **json.load(sys.stdin)})
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
        return
    PAGE.write_text(page(stored))


if __name__ == "__main__":
    main()
