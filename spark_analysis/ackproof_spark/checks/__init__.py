"""The checks: each finds the rows of an anomaly, and `comparison` runs them."""
