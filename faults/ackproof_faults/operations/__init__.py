"""What an operator does to a cluster, as faults."""
