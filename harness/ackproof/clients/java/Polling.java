import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;

/** What every consumer has: its events, and the effects of its processing. */
abstract class Polling implements Client {
    static final long POLL_MS = 100;
    private static final long ERROR_PAUSE_NS = 100_000_000;
    private static final List<String> ENDING =
            Arrays.asList(
                    "TopicAuthorizationException",
                    "GroupAuthorizationException",
                    "SaslAuthenticationException",
                    "SslAuthenticationException",
                    "FencedInstanceIdException",
                    "UnsupportedVersionException",
                    "InvalidGroupIdException");

    final Spec spec;
    final Map<String, String> secrets;
    final Page page;
    final Guard guard;
    final String topic;
    private final byte[] token;
    private final ArrowStream events;
    /** Null if the consumer forwards records. */
    private final ArrowStream effects;
    /** Of an application's records; null if ackproof's producers send. */
    private final ArrowStream identities;
    long polls;
    volatile boolean terminated;

    Polling(Spec spec, Map<String, String> secrets, Page page, Guard guard) throws IOException {
        this.spec = spec;
        this.secrets = secrets;
        this.page = page;
        this.guard = guard;
        topic = spec.text("topic");
        token = spec.bytes("token");
        events = new ArrowStream(spec.path("events"), spec.bytes("events_schema"));
        effects =
                spec.part("into").isEmpty()
                        ? new ArrowStream(spec.path("effects"), spec.bytes("effects_schema"))
                        : null;
        identities =
                spec.has("identities")
                        ? new ArrowStream(
                                spec.path("identities"), spec.bytes("identities_schema"))
                        : null;
    }

    @Override
    public void terminate() {
        terminated = true;
    }

    /** Records an error, and ends this client if no poll can follow it. */
    void endAfter(KafkaException error) {
        event("error", null, String.valueOf(error.getMessage()));
        if (ENDING.contains(error.getClass().getSimpleName())) {
            throw new Failure(
                    "consumer " + spec.number("number", 0) + " ended with a fatal error: "
                            + error.getMessage(),
                    "The Java client allows no further polls after it.");
        }
        LockSupport.parkNanos(ERROR_PAUSE_NS);
    }

    /** The producer and sequence of a record of this run, else null for both. */
    Long[] name(ConsumerRecord<byte[], byte[]> record) {
        long[] name = RecordValue.name(token, record.value());
        return name == null ? new Long[2] : new Long[] {name[0], name[1]};
    }

    /**
     * Records by what the records of a poll are recognized, if an application sends them; before
     * the records themselves, so that none lacks it after a SIGKILL.
     */
    void recordIdentities(Iterable<ConsumerRecord<byte[], byte[]>> records) throws IOException {
        if (identities == null) {
            return;
        }
        ArrowStream.Rows parts = new ArrowStream.Rows(8, 4, 0, 0, 0);
        for (ConsumerRecord<byte[], byte[]> one : records) {
            byte[] value = one.value() == null ? new byte[0] : one.value();
            parts.add(polls, parts.count(), sha256(id(one)), sha256(value), sha256(one.key()));
        }
        identities.append(parts.columns());
    }

    /** The value of a record's first header with an id; clients before 0.11 have no headers. */
    private byte[] id(ConsumerRecord<byte[], byte[]> record) {
        if (!Kafka.has(ConsumerRecord.class, "headers")) {
            return null;
        }
        for (Object header : (Iterable<?>) Kafka.call(record, "headers")) {
            if (Kafka.call(header, "key").equals(spec.text("id_header"))) {
                return (byte[]) Kafka.call(header, "value");
            }
        }
        return null;
    }

    private static String sha256(byte[] content) {
        if (content == null) {
            return null;
        }
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(content);
            return String.format("%064x", new BigInteger(1, digest));
        } catch (NoSuchAlgorithmException absent) {
            throw new IllegalStateException(absent);
        }
    }

    /** Records the effects of processing these records. */
    void recordEffects(List<ConsumerRecord<byte[], byte[]>> records, long at) throws IOException {
        if (records.isEmpty()) {
            return;
        }
        ArrowStream.Rows rows = new ArrowStream.Rows(4, 8, 8, 8, 8);
        for (ConsumerRecord<byte[], byte[]> one : records) {
            Long[] name = name(one);
            rows.add(one.partition(), one.offset(), name[0], name[1], at);
        }
        effects.append(rows.columns());
    }

    /** Records an event, with a row for each partition of `offsets`. */
    void event(String event, Map<Integer, Long> offsets, String error) {
        ArrowStream.Rows rows = new ArrowStream.Rows(8, 8, 0, 0, 4, 8, 0);
        long at = Page.now();
        if (offsets == null || offsets.isEmpty()) {
            rows.add(at, polls, event, null, null, null, error);
        } else {
            offsets.forEach(
                    (partition, offset) ->
                            rows.add(at, polls, event, topic, partition, offset, error));
        }
        try {
            events.append(rows.columns());
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    void closeFiles() throws IOException {
        events.close();
        if (effects != null) {
            effects.close();
        }
        if (identities != null) {
            identities.close();
        }
    }
}
