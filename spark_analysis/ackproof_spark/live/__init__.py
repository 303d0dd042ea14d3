"""A Structured Streaming job that follows the ledger and the topics of a run while it goes on."""
