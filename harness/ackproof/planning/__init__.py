"""From a configuration to schedules that lose records, and runs compared with the prediction."""
