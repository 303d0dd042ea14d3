"""Benchmarks of ackproof's own cost, for the user's machine."""
