"""Find schedules that lose records, and compare their runs with the prediction."""
