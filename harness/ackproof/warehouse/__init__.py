"""Stored runs in a warehouse: their rows, and opening the warehouse for them."""
