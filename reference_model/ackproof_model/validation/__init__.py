"""Real traces held against the rules of replication."""
