"""Benchmarks of ackproof's own cost; `ci/bench` runs them."""
