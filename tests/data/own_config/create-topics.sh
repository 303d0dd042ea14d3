#!/bin/bash
# kafka-topics --create --topic old --replication-factor 9
for try in 1 2; do echo "const x = $try"; done
kafka-topics.sh --bootstrap-server kafka:9092 --create \
  --topic orders --replication-factor 3 --config min.insync.replicas=2
docker exec kafka kafka-topics --create --topic clicks --replication-factor 1
