"""Faults of the network."""
