"""Benchmarks of ackproof's own cost; `ci/lab/bench` runs them."""
