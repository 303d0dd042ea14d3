"""What the cluster did, as its own logs tell it."""
