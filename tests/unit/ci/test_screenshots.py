"""The comparison of photographed pages, with pictures of some bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import screenshots


@pytest.mark.parametrize(
    ("picture", "differ"),
    [(b"same", []), (b"changed", ["page-375-dark.png"]), (None, ["page-375-dark.png"])],
)
def test_a_picture_that_differs_or_is_gone_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture: bytes | None, differ: list[str]
) -> None:
    before = tmp_path / "checkout"
    before.mkdir()

    def made(checkout: Path, folder: Path) -> None:
        (folder / "page-375-light.png").write_bytes(b"alike")
        drawn = picture if checkout == before else b"same"
        if drawn is not None:
            (folder / "page-375-dark.png").write_bytes(drawn)

    monkeypatch.setattr(screenshots, "make", made)
    monkeypatch.setattr(sys, "argv", ["screenshots", str(before), "--to", str(tmp_path / "to")])
    assert screenshots.main() == bool(differ)
    assert screenshots.differing(tmp_path / "to") == differ
    page = tmp_path / "to" / "differences.html"
    assert page.exists() == bool(differ)
    if differ:
        assert "page-375-light" not in page.read_text()
        assert "after/page-375-dark.png" in page.read_text()
