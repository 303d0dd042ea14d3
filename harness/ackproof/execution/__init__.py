"""One run from boot to final log: runner, suite, workload, faults, live view."""
