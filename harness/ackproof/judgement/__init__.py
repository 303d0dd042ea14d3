"""Judges a run: from its tables to verdict and findings."""
