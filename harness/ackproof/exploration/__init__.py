"""Shows how much of what the model reaches was seen on brokers, and what would get to the rest."""
