"""A proxy between clients and brokers that understands Kafka's framing."""
