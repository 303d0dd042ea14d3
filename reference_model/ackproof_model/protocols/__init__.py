"""ISR replication compared with majority quorums."""
