"""The container engine, images and the sidecar; knows no Kafka topology."""
