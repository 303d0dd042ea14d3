"""While a run goes on: a Structured Streaming job that follows its ledger and its topics."""
