"""The error of faults."""

from __future__ import annotations


class FaultError(Exception):
    """A fault could not be injected, did not hold, or could not be healed."""
