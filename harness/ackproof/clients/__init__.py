"""Clients under test, each in a process of its own."""
