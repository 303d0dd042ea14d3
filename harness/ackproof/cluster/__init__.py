"""Kafka clusters in containers: the engine, images, topology, volumes and lifecycle."""
