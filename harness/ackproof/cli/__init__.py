"""The commands of `ackproof`, one module for each command or group of commands."""
