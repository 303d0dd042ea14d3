"""What a fault may ask of a cluster, as small protocols."""
