"""Starts clusters, runs clients and faults against them, and says what came of it."""
