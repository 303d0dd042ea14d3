"""The interfaces of a cluster that faults use, as small protocols."""
