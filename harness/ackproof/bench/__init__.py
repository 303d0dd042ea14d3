"""What ackproof itself costs, measured on the user's own machine."""
