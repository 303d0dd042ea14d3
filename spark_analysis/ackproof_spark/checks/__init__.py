"""The checks: one anomaly, one file."""
