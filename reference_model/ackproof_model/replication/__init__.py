"""The abstract state machine of one replicated partition."""
