"""Faults by commands of the user's own."""
