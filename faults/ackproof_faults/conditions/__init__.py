"""Conditions, targets and durations, and their text form."""
