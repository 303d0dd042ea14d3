#!/bin/sh
# Exits with 0 if connections from the pod of broker $BROKER to the replication port of every other
# broker time out (124). Any other failure, such as a refused exec, does not prove the cut.
for id in 3 4 5; do
    [ "$id" = "$BROKER" ] && continue
    kubectl -n "$NAMESPACE" exec "my-cluster-broker-$BROKER" -- timeout 3 bash -c \
        "exec 3<>/dev/tcp/my-cluster-broker-$id.my-cluster-kafka-brokers/9091"
    code=$?
    if [ "$code" -ne 124 ]; then
        echo "broker $BROKER to $id: exit $code, not a timeout"
        exit 1
    fi
done
echo "broker $BROKER reaches no other broker"
