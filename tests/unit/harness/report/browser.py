"""Opens pages in a real browser, in frames of several widths, and reports defects.

A frame can be narrower than the browser's window, which is at least 500 pixels wide.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WIDE, PHONE = 1400, 390

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="neither chromium nor google-chrome is installed"
)

# Is added to a copy of the page: presses the second zoom button, then reports to the outer frame.
_PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  const before = looks();
  document.querySelectorAll("button[data-range]")[1]?.click();
  setTimeout(() => {
    const timed = [...document.querySelectorAll("#run-1 .plot")]
      .filter((plot) => plot.layout?.yaxis && figures[plot.id].run);
    const [ranges, after] = [timed.map((plot) => plot.layout.xaxis.range), looks()];
    if (timed.length) zoom("run-1", [1, 5]);
    parent.postMessage({
      ...before,
      after,
      ranges,
      quiet: looks().rates,
      acked: document.getElementById("run-1-rate")?.data?.[1].line.color,
    }, "*");
  }, 500);
}, 500));

function looks() {
  const plots = [...document.querySelectorAll(".plot")];
  return {
    drawn: plots.filter((plot) => plot.dataset.drawn).length,
    plots: plots.length,
    missing: document.querySelector(".missing")?.textContent,
    wide: wide(),
    overlaps: [
      ...plots.flatMap((plot) => overlaps(plot.id, plot.querySelectorAll("text"), -2)),
      ...[...document.querySelectorAll(".sequence .heads")].flatMap(
        (heads) => overlaps("sequence", heads.querySelectorAll("b"), 2),
      ),
    ],
    rates: document.getElementById("run-1-rate")?.layout?.yaxis.range,
  };
}

function named(element) {
  return `${element.tagName} ${element.id} ${element.className.baseVal ?? element.className}`;
}

/** What is wider than the window, or scrolls sideways on a phone. */
function wide() {
  const within = "main, header, nav, table, .plot, svg.main-svg, .sequence, p, li, dd, h2, h3";
  const found = [...document.querySelectorAll(within)].filter((element) => {
    const { right, width } = element.getBoundingClientRect();
    const scrolls = element.closest(".scroll, pre");
    return width > 1 && !scrolls && right > document.documentElement.clientWidth + 1;
  });
  const sideways = [...document.querySelectorAll(".scroll")].filter(
    (box) => innerWidth < 500 && box.scrollWidth > box.clientWidth + 1,
  );
  const all = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...all, ...found, ...sideways].map(named);
}

/** Pairs of texts that cover each other, or are less than `apart` pixels apart in a line. */
function overlaps(where, labels, apart) {
  const texts = [...labels]
    .filter((text) => text.textContent.trim() && !text.closest(".hoverlayer"))
    .map((text) => [text.textContent, extent(text)])
    .filter(([, box]) => box.width > 0 && box.height > 0);
  const pairs = [];
  texts.forEach(([one, a], at) => texts.slice(at + 1).forEach(([other, b]) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > -apart && down > 3) pairs.push(`${where}: ${one} | ${other}`);
  }));
  return pairs;
}

/** The box of the letters: an element of HTML is as wide as its column. */
function extent(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  return (text.namespaceURI.endsWith("svg") ? text : range).getBoundingClientRect();
}
</script></body>"""

_AROUND = """<!DOCTYPE html><body><script>
const seen = {};
addEventListener("message", (message) => {
  const frame = [...document.querySelectorAll("iframe")]
    .find((one) => one.contentWindow === message.source);
  seen[frame.name] = message.data;
  document.body.dataset.seen = JSON.stringify(seen);
});
</script>"""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The report of one page at one width; `seen` has the keys of the probe."""

    page: Path
    width: int
    seen: dict[str, Any]
    errors: tuple[str, ...]

    @property
    def complaints(self) -> list[str]:
        """Defects before and after a zoom."""
        seen, after = self.seen, self.seen["after"]
        return [
            *self.errors,
            *(f"wider than {self.width}: {one}" for one in {*seen["wide"], *after["wide"]}),
            *(f"overlap: {one}" for one in {*seen["overlaps"], *after["overlaps"]}),
            *([] if seen["drawn"] == seen["plots"] else ["not every plot is drawn"]),
        ]


def look(
    folder: Path,
    pages: Iterable[Path],
    *,
    widths: Sequence[int] = (WIDE, PHONE),
    dark: bool = False,
) -> list[Look]:
    """Open each page at each width, and return the reports."""
    folder.mkdir(parents=True, exist_ok=True)
    frames, copies = [], {}
    for page in pages:
        copy = page.with_name(f"probed-{page.name}")
        source = page.read_text(encoding="utf-8")
        copy.write_text(source.replace("</body>", _PROBE), encoding="utf-8")
        for width in widths:
            name = f"{page.name} {width}"
            copies[name] = (page, copy, width)
            frames.append(f'<iframe name="{name}" src="{copy.as_uri()}" width={width} height=3000>')
    around = folder / "around.html"
    around.write_text(_AROUND + "</iframe>".join([*frames, ""]), encoding="utf-8")
    dom, log = _opened(around, folder / "profile", dark=dark)
    found = re.search(r'data-seen="([^"]+)"', dom)
    seen = json.loads(html.unescape(found[1])) if found else {}
    console = [line for line in log.splitlines() if "CONSOLE" in line]
    silent = {"drawn": 0, "plots": 1, "wide": [], "overlaps": [], "rates": None}
    return [
        Look(
            page=page,
            width=width,
            seen=seen.get(name, {**silent, "after": silent}),
            errors=tuple(line for line in console if copy.name in line),
        )
        for name, (page, copy, width) in copies.items()
    ]


def _opened(path: Path, profile: Path, *, dark: bool) -> tuple[str, str]:
    """Return the DOM of a page after its scripts, and the browser's log."""
    assert CHROMIUM is not None
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
            "--window-size=1500,3200",
            "--virtual-time-budget=8000",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout, done.stderr


_AXE = """<script>%s</script><script>
addEventListener("load", () => setTimeout(async () => {
  const found = (await axe.run()).violations.map(({id, impact}) => ({id, impact}));
  document.body.dataset.axe = JSON.stringify(found);
}, 500));
</script></body>"""


def serious(page: Path, *, dark: bool = False) -> list[str]:
    """Return the rules of axe that a page violates, of impact serious or critical."""
    script = files("axe_core_python") / "axe.min.js"
    probed = page.with_name(f"axe-{page.name}")
    text = page.read_text(encoding="utf-8")
    probe = _AXE % script.read_text(encoding="utf-8")
    probed.write_text(text.replace("</body>", probe), encoding="utf-8")
    found = json.loads(dumped(probed, "data-axe", dark=dark))
    return [one["id"] for one in found if one["impact"] in ("serious", "critical")]


def dumped(page: Path, attribute: str, *, dark: bool = False) -> str:
    """Open a page, and return an attribute that its scripts set."""
    dom, log = _opened(page, page.with_suffix(".profile"), dark=dark)
    found = re.search(rf'{attribute}="([^"]+)"', dom)
    assert found, log[-2000:]
    return html.unescape(found[1])
