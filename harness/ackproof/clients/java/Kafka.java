import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What differs between versions of kafka-clients, reached by reflection. */
final class Kafka {
    /** librdkafka's codes for what has no code in Kafka's protocol. */
    static final short MSG_TIMED_OUT = -192;
    static final short DESTROY = -197;
    static final short QUEUE_FULL = -184;
    static final short PURGE_QUEUE = -152;
    static final short FATAL = -150;

    private Kafka() {}

    /** Calls a public method that some versions lack; throws what it throws. */
    static Object call(Object target, String method, Class<?>[] types, Object... arguments) {
        try {
            return target.getClass().getMethod(method, types).invoke(target, arguments);
        } catch (InvocationTargetException thrown) {
            Throwable cause = thrown.getCause();
            if (cause instanceof RuntimeException) {
                throw (RuntimeException) cause;
            }
            throw new IllegalStateException(cause);
        } catch (ReflectiveOperationException missing) {
            throw new UnsupportedOperationException(
                    "this version of kafka-clients has no " + method + ": use a later one");
        }
    }

    static Object call(Object target, String method) {
        return call(target, method, new Class<?>[0]);
    }

    static boolean has(Class<?> owner, String method, Class<?>... types) {
        try {
            owner.getMethod(method, types);
            return true;
        } catch (NoSuchMethodException missing) {
            return false;
        }
    }

    /** The error code of a report: Kafka's, or librdkafka's where Kafka has none. */
    static short code(Throwable error) {
        String name = error.getClass().getSimpleName();
        String said = String.valueOf(error.getMessage());
        if (said.startsWith("Expiring ")) {
            return MSG_TIMED_OUT;
        }
        if (name.equals("BufferExhaustedException") || said.startsWith("Failed to allocate ")) {
            return QUEUE_FULL;
        }
        if (name.equals("TransactionAbortedException") || said.contains("transaction was aborted")) {
            return PURGE_QUEUE; // Sender fails batches that it has not sent
        }
        if (said.contains("closed forcefully") || said.contains("Producer is closed")) {
            return DESTROY;
        }
        short code = Errors.forException(error).code();
        return code == -1 && !(error instanceof ApiException) ? FATAL : code;
    }

    /** Settings as the clients take them, with those that every client of ours has. */
    static Map<String, Object> settings(
            Spec spec, String part, String role, Map<String, String> secrets) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", spec.text("bootstrap_servers"));
        settings.put("client.id", "ackproof-" + role + "-" + spec.text("number"));
        settings.putAll(spec.part(part));
        settings.putAll(secrets);
        return settings;
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Waits for records; the timeout's type differs between versions. */
    @SuppressWarnings("unchecked")
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer, long ms) {
        Object polled;
        if (has(KafkaConsumer.class, "poll", Duration.class)) {
            polled = call(consumer, "poll", new Class<?>[] {Duration.class}, Duration.ofMillis(ms));
        } else {
            polled = call(consumer, "poll", new Class<?>[] {long.class}, ms);
        }
        return (ConsumerRecords<byte[], byte[]>) polled;
    }

    /** Returns the committed offset of a partition; null if there is none. */
    static OffsetAndMetadata committed(KafkaConsumer<?, ?> consumer, TopicPartition partition) {
        if (has(KafkaConsumer.class, "committed", Set.class)) {
            Class<?>[] types = {Set.class};
            Object found = call(consumer, "committed", types, Collections.singleton(partition));
            return (OffsetAndMetadata) ((Map<?, ?>) found).get(partition);
        }
        Class<?>[] types = {TopicPartition.class};
        return (OffsetAndMetadata) call(consumer, "committed", types, partition);
    }

    /** Fails batches that have no answer at once; the timeout's type differs between versions. */
    static void abandon(KafkaProducer<?, ?> producer) {
        if (has(KafkaProducer.class, "close", Duration.class)) {
            call(producer, "close", new Class<?>[] {Duration.class}, Duration.ZERO);
        } else {
            Class<?>[] types = {long.class, TimeUnit.class};
            call(producer, "close", types, 0L, TimeUnit.MILLISECONDS);
        }
    }

    /**
     * What a producer works with, whatever was asked for: the values in its sender, which every
     * version has. Fields are private: what cannot be read is absent.
     */
    static Map<String, Object> inForce(KafkaProducer<?, ?> producer) {
        Map<String, Object> found = new LinkedHashMap<>();
        Object sender = field(producer, "sender");
        Object acks = field(sender, "acks");
        if (acks != null) {
            found.put("acks", ((Number) acks).intValue() == -1 ? "all" : acks.toString());
        }
        Object retries = field(sender, "retries");
        if (retries != null) {
            found.put("retries", retries);
        }
        if (sender != null) {
            found.put("enable.idempotence", field(producer, "transactionManager") != null);
        }
        return found;
    }

    /** 2 if each transaction has an epoch of its own (KIP-890), known once they are initialized. */
    static int transactionProtocol(KafkaProducer<?, ?> producer) {
        Object second = field(field(producer, "transactionManager"), "isTransactionV2Enabled");
        return Boolean.TRUE.equals(second) ? 2 : 1;
    }

    private static Object field(Object owner, String name) {
        if (owner == null) {
            return null;
        }
        try {
            Field field = owner.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return field.get(owner);
        } catch (ReflectiveOperationException missing) {
            return null;
        }
    }
}
