"""Faults of attached clusters: by the user's own commands, or on listed containers."""
