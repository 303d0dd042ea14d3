"""Faults of the network between nodes and clients."""
