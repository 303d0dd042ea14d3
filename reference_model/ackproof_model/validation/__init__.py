"""Trace validation: metadata logs and replica logs of real clusters against the rules."""
