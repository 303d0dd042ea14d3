"""The search over one fault schedule, and its narrative."""
