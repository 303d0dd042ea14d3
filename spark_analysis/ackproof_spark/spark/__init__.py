"""The Spark session, connector, storage and client settings."""
