"""Commands of `ackproof` that have a module of their own."""
