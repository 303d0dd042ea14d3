"""Faults of broker and controller processes."""
