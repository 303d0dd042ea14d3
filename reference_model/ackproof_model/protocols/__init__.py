"""Comparison of ISR replication with majority quorums."""
