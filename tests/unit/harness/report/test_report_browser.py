"""The page in a real browser draws every plot without an error."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ackproof.report.html import write_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# Opens the second zoom button of the first run, then reports what the plots show.
PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  document.querySelectorAll("button[data-range]")[1].click();
  setTimeout(() => {
    const timed = [...document.querySelectorAll(".plot")].filter((plot) => figures[plot.id].run);
    document.body.dataset.ranges = JSON.stringify(
      timed.filter((plot) => plot.id.startsWith("run-1-")).map((plot) => plot.layout.xaxis.range),
    );
    document.body.dataset.acked = document.getElementById("run-1-rate").data[1].line.color;
    document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;
  }, 500);
}, 500));
</script></body>"""


def opened(path: Path, profile: Path, *flags: str) -> tuple[str, str]:
    """Return the DOM of the page after its scripts, and the browser's log."""
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--v=0",
            "--virtual-time-budget=5000",
            "--dump-dom",
            *flags,
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return done.stdout, done.stderr


def console(log: str) -> list[str]:
    return [line for line in log.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page(tmp_path_factory, acks_0, acks_1, finding, interrupted) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    runs = [acks_0.directory, acks_1.directory, finding.directory, interrupted]
    write_html(path, runs, title="In the browser")
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", PROBE), encoding="utf-8")
    return path


def acked_colour(dom: str) -> str:
    (colour,) = re.findall(r'data-acked="([^"]+)"', dom)
    return colour


@pytest.mark.parametrize(
    ("flags", "colour"),
    [
        (["--window-size=1400,3200"], "#3a6ea8"),
        (["--window-size=1400,3200", "--blink-settings=preferredColorScheme=0"], "#6fa5e0"),
        (["--window-size=500,3200"], "#3a6ea8"),
    ],
    ids=["light", "dark", "phone"],
)
def test_every_plot_is_drawn_without_an_error(page, tmp_path, flags, colour):
    dom, log = opened(page, tmp_path, *flags)
    assert console(log) == []
    plots = re.findall(r'<div class="plot[^"]*" id="([^"]+)"([^>]*)>', dom)
    assert len(plots) == 5 + 5 + 5 + 4
    assert [name for name, attributes in plots if 'data-drawn="yes"' not in attributes] == []
    assert dom.count('class="main-svg"') >= len(plots)
    assert acked_colour(dom) == colour
    assert 'data-wide="false"' in dom
    # The second button was pressed: every plot of the run shows its stretch of time.
    (ranges,) = re.findall(r'data-ranges="([^"]+)"', dom)
    (shown,) = set(re.findall(r"\[[^\[\]]+\]", ranges))
    assert f'data-range="{shown.replace(",", ", ")}" aria-pressed="true"' in dom


def test_an_error_of_a_script_is_in_the_log(page, tmp_path):
    broken = page.parent / "broken.html"
    source = page.read_text(encoding="utf-8").replace('"use strict";', '"use strict"; nonsense();')
    broken.write_text(source, encoding="utf-8")
    dom, log = opened(broken, tmp_path)
    assert any("nonsense is not defined" in line for line in console(log))
    assert 'data-drawn="yes"' not in dom
