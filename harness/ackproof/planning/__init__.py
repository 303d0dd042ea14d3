"""Plans schedules from the reference model, and holds runs of them against what it said."""
