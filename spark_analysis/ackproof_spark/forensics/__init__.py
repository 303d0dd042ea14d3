"""Why records were lost, and whether the replicas agree: read from what the brokers left."""
