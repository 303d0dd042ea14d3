"""A package of the user, named as a folder of ackproof is."""
