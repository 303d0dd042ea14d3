"""Ports of Kafka's classes, one file a class."""
