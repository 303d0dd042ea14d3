"""Makes the pages of this checkout from made-up runs, and photographs them in a browser.

With an earlier commit or another checkout, both are photographed, a page shows the pictures that
differ, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("before", nargs="?", help="an earlier commit, or another checkout")
    arguments.add_argument("--to", type=Path, default=Path("screenshots"), help="folder")
    arguments.add_argument("--only", default="", help="pages whose name contains this")
    asked = arguments.parse_args()
    to: Path = asked.to.resolve()
    with contextlib.ExitStack() as stack:
        checkouts = {"after": ROOT}
        if asked.before:
            checkouts["before"] = stack.enter_context(checkout_of(asked.before))
        for name, checkout in checkouts.items():
            shutil.rmtree(to / name, ignore_errors=True)
            (to / name).mkdir(parents=True)
            make(checkout, to / name)
            for page in sorted((to / name).glob("*.html")):
                if asked.only in page.name:
                    print(f"screenshots: {page}")
                    photograph(page)
    names = differing(to) if asked.before else []
    if names:
        print(f"screenshots: {len(names)} pictures differ ({', '.join(names)}): {shown(to, names)}")
    return int(bool(names))


@contextlib.contextmanager
def checkout_of(before: str) -> Iterator[Path]:
    """Yield a folder with the files of a commit; a folder is its own."""
    if Path(before).is_dir():
        yield Path(before).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(files), before], check=True)
        try:
            yield files
        finally:
            subprocess.run([*git, "remove", "--force", str(files)], check=True)


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


def differing(folder: Path) -> list[str]:
    """Return the names of the pictures that differ, or are only before or after."""
    sides = (folder / "before", folder / "after")
    names = {path.name for side in sides for path in side.glob("*.png")}

    def contents(name: str) -> set[bytes]:
        return {(side / name).read_bytes() if (side / name).exists() else b"" for side in sides}

    return [name for name in sorted(names) if len(contents(name)) > 1]


def shown(folder: Path, names: Sequence[str]) -> Path:
    """Write a page with these pictures, before and after side by side."""
    page = folder / "differences.html"
    rows = ["<!DOCTYPE html><title>Pages that differ</title>"]
    for name in names:
        rows.append(f"<h2>{name}</h2>")
        rows += [
            f'<img src="{side}/{name}" style="max-width: 49%">'
            for side in ("before", "after")
            if (folder / side / name).exists()
        ]
    page.write_text("\n".join(rows))
    return page


if __name__ == "__main__":
    sys.exit(main())
