"""Answers what a configuration may lose, after which failures, why, and what to change."""
