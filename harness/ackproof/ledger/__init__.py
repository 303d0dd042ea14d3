"""The crash-safe record of sends, reads and processing."""
