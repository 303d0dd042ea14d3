"""`ackproof advise`: what each step of an operator does to a cluster that is down."""
