"""Operations on a cluster, as faults."""
