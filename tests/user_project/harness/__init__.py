"""The user's own package; its name is also a part of ackproof's."""
