"""An operator's work on a cluster, as faults."""
