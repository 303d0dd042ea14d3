"""A proxy between clients and brokers, or between nodes, that reads Kafka's framing."""
