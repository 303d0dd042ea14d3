"""Why records were lost, and whether replicas agree, by the brokers' logs and segments."""
