"""Writes one page of every kind into a folder, from made-up runs and files: `ci/screenshots`."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from ackproof.report.dashboard import write_dashboard
from ackproof.report.html import write_html
from command_line import ackproof
from support import synthetic_run as synthetic
from support.dead_disks import dead
from support.sample_trends import TRENDS

INPUTS = Path(__file__).parents[1] / "data"
#: The files of an audit by the name of its page.
AUDITS = {
    "audit": ["cases/min-kraft-three.properties", "cases/min-producer.properties"],
    "audit-little-known": ["cases/min-producer-acks-1.properties"],
    "audit-several": [
        "own_config/server-combined.properties",
        "own_config/topics-described.txt",
        "own_config/application.yml",
    ],
}


def main(folder: Path) -> None:
    os.chdir(tempfile.mkdtemp())
    # Pages name files as they were given: so those of two checkouts name the same.
    inputs = Path("data")
    inputs.symlink_to(INPUTS)
    runs = Path("runs")
    names = {"0": "acks=0", "1": "acks=1", "all": "acks=all, min.insync.replicas=2"}
    for acks, name in names.items():
        options = synthetic.Options(rate=300, acks=acks)
        synthetic.make(runs / f"acks-{acks}", options, name=name)
    synthetic.explain(runs / "acks-1")
    write_html(folder / "run.html", [runs / "acks-1"], title="acks-1")
    write_html(folder / "comparison.html", [runs / f"acks-{acks}" for acks in names], title="acks")
    write_dashboard(folder / "dashboard.html", TRENDS, title="Trends")
    with contextlib.redirect_stdout(sys.stderr):
        for page, files in AUDITS.items():
            paths = [inputs / name for name in files]
            ackproof("audit", *paths, "--kafka", "3.9.1", "--html", folder / f"{page}.html")
        disks = Path("disks")
        disks.mkdir()
        ackproof("advise", "start", *dead(disks), "--html", folder / "advise.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
