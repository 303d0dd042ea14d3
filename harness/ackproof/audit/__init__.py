"""The answer about a configuration: what it may lose, after which failures, why, what to change."""
