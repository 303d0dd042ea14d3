"""Faults of producers and consumers."""
