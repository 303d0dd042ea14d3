"""Makes the pages of this checkout from made-up runs, and photographs them in a browser.

With another checkout, both are photographed, and a page shows the pictures that differ.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: A phone, a tablet, and a screen; with the height of a picture.
SIZES = {375: 5000, 768: 4000, 1400: 3000}
THEMES = {"light": [], "dark": ["--blink-settings=preferredColorScheme=0"]}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: A browser's window is at least 500 pixels wide, a frame in it is not.
_FRAME = (
    "<!DOCTYPE html><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>"
    '<iframe src="{page}" width="{width}" height="{height}"></iframe>'
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("other", nargs="?", type=Path, help="another checkout, the one before")
    arguments.add_argument("--to", type=Path, default=Path("screenshots"), help="folder")
    arguments.add_argument("--only", default="", help="pages whose name contains this")
    asked = arguments.parse_args()
    checkouts = {"before": asked.other.resolve()} if asked.other else {}
    checkouts["after"] = ROOT
    for name, checkout in checkouts.items():
        folder = asked.to.resolve() / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(checkout, folder)
        for page in sorted(folder.glob(f"*{asked.only}*.html")):
            print(f"screenshots: {page}")
            photograph(page)
    if asked.other:
        print(f"screenshots: {compared(asked.to.resolve())}")


def make(checkout: Path, folder: Path) -> None:
    """Let a checkout write its pages into a folder. Its own script makes them."""
    packages = ("harness", "faults", "reference_model", "spark_analysis", "tests")
    path = os.pathsep.join(str(checkout / package) for package in packages)
    script = checkout / "tests" / "support" / "sample_pages.py"
    own = script if script.exists() else ROOT / "tests" / "support" / "sample_pages.py"
    subprocess.run(
        [sys.executable, str(own), str(folder)],
        check=True,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": path},
    )


def photograph(page: Path) -> None:
    """Write a picture of a page for each width and theme beside it."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        sys.exit(f"screenshots: none of {', '.join(_BROWSERS)} is on the path")
    with tempfile.TemporaryDirectory() as profile:
        for width, height in SIZES.items():
            frame = page.with_name(f"frame-{width}.htm")
            frame.write_text(_FRAME.format(page=page.name, width=width, height=height))
            for theme, options in THEMES.items():
                picture = page.with_name(f"{page.stem}-{width}-{theme}.png")
                subprocess.run(
                    [
                        *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
                        *("--hide-scrollbars", "--virtual-time-budget=5000", *options),
                        f"--user-data-dir={profile}",
                        f"--window-size={max(width, 500)},{height}",
                        *(f"--screenshot={picture}", frame.as_uri()),
                    ],
                    check=True,
                    capture_output=True,
                    timeout=300,
                )
            frame.unlink()


def compared(folder: Path) -> Path:
    """Write a page with the pictures that differ, before and after side by side."""
    page = folder / "differences.html"
    page.write_text("<!DOCTYPE html><title>Pages that differ</title>" + "".join(_rows(folder)))
    return page


def _rows(folder: Path) -> Iterator[str]:
    names = {path.name for side in ("before", "after") for path in (folder / side).glob("*.png")}
    for name in sorted(names):
        before, after = folder / "before" / name, folder / "after" / name
        if before.exists() and after.exists() and before.read_bytes() == after.read_bytes():
            continue
        yield f"<h2>{name}</h2>"
        for picture in filter(Path.exists, (before, after)):
            yield f'<img src="{picture.relative_to(folder)}" style="max-width: 49%">'


if __name__ == "__main__":
    main()
