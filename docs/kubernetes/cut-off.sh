#!/bin/sh
# Ends with 0 if the pod of broker $BROKER waits in vain for every other broker's replication port.
# Only a connection that times out counts (124): "not allowed to exec" is no proof of a cut.
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
