"""What both arms of a conformance test have in common."""

#: What the mock gives every topic; it creates them when they are first asked for.
PARTITIONS = 4
#: Seconds that anything awaited may take.
WITHIN = 60.0
