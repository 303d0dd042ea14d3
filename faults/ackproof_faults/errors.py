"""The errors of faults."""

from __future__ import annotations


class FaultError(Exception):
    """A fault could not be injected, was not seen to hold, or could not be healed."""
