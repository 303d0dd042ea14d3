"""Annotations of GitHub Actions: lines that it shows at a line of a file."""

from __future__ import annotations

from pathlib import Path


def annotation(kind: str, path: Path, line: int, title: str, text: str) -> str:
    """Return a workflow command. kind: `error` or `warning`."""
    return (
        f"::{kind} file={_property(str(path))},line={line},title={_property(title)}::{_data(text)}"
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
