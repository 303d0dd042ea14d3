"""What a comparison is made of: its plan, its trials, and what they say together."""
