"""The container engine, images and sidecars. This package does not know Kafka's topology."""
