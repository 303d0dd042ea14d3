"""A user's own configuration files, as parts of a scenario."""
