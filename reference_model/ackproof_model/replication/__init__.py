"""The rules of one replicated partition, and the state machine that `prediction` searches."""
