import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Polls, records what each poll returned, processes it, and commits; see `consumer.py`. */
final class ConsumerLoop extends Polling implements ConsumerRebalanceListener {
    /** A partition and its end offset. */
    private static final Pattern END = Pattern.compile("\"(\\d+)\": (\\d+)");

    private final String commit;
    private final ArrowStream reads;
    private final Forwarder forwarder;
    /** Behind the last record of each assigned partition, or its committed offset, else null. */
    private final Map<Integer, Long> positions = new TreeMap<>();
    private KafkaConsumer<byte[], byte[]> consumer;
    private long read;
    private long processed;
    private long assignedNs;

    ConsumerLoop(Spec spec, Map<String, String> secrets, Page page, Guard guard)
            throws IOException {
        super(spec, secrets, page, guard);
        commit = spec.text("commit");
        reads = new ArrowStream(spec.path("reads"), spec.bytes("reads_schema"));
        forwarder = spec.part("into").isEmpty() ? null : new Forwarder(spec, secrets);
        consumer = connect();
    }

    @Override
    public void run() throws IOException {
        page.startedAt(Page.now());
        page.state(Page.CONSUMING);
        event("started", null, null);
        join();
        while (!terminated && !guard.orphaned() && !caughtUp()) {
            try {
                handle(Kafka.poll(consumer, POLL_MS));
            } catch (KafkaException error) {
                endAfter(error);
            }
            rejoin();
        }
        page.state(Page.SETTLING);
        if (caughtUp()) {
            event("caught-up", reached(), null);
        }
        consumer.close();
        event("closed", null, null);
        reads.close();
        closeFiles();
    }

    private KafkaConsumer<byte[], byte[]> connect() {
        Map<String, Object> settings = Kafka.settings(spec, "settings", "consumer", secrets);
        settings.put("group.id", spec.text("group"));
        settings.put("enable.auto.commit", String.valueOf(commit.equals("auto")));
        settings.put("max.poll.records", String.valueOf(spec.integer("poll")));
        if (commit.equals("auto")) {
            settings.put("interceptor.classes", AutoCommits.class.getName());
            AutoCommits.listener = offsets -> event("committed", byPartition(offsets), null);
        }
        return new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void join() {
        if (!spec.has("partitions")) {
            consumer.subscribe(Collections.singletonList(topic), this);
            return;
        }
        List<TopicPartition> assigned = new ArrayList<>();
        for (int partition : spec.integers("partitions")) {
            assigned.add(new TopicPartition(topic, partition));
        }
        consumer.assign(assigned);
        onPartitionsAssigned(assigned);
    }

    /** Leaves the group and joins it again, if the order `REJOIN` makes that due. */
    private void rejoin() {
        if (page.order() != Page.REJOIN || spec.has("partitions") || positions.isEmpty()) {
            return;
        }
        if (System.nanoTime() - assignedNs >= page.argumentMs() * 1_000_000) {
            consumer.close();
            consumer = connect();
            join();
        }
    }

    private void handle(ConsumerRecords<byte[], byte[]> polled) throws IOException {
        if (polled.isEmpty()) {
            return;
        }
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>(polled.count());
        polled.forEach(records::add);
        long at = Page.now();
        record(records, at);
        if (page.order() == Page.SLOW) {
            LockSupport.parkNanos(page.argumentMs() * 1_000_000);
            page.addObeyed(1);
        }
        for (ConsumerRecord<byte[], byte[]> one : records) {
            positions.put(one.partition(), one.offset() + 1);
        }
        read += records.size();
        if (commit.equals("before")) {
            commitSync();
        }
        if (read >= spec.number("crash_after", Long.MAX_VALUE) && records.size() > 1) {
            process(records.subList(0, records.size() / 2), at);
            processed += records.size() / 2;
            page.count(read, processed, 0, 0);
            Guard.kill();
        }
        boolean done = process(records, at);
        if (commit.equals("transaction")) {
            done = endTransaction(done);
        }
        if (!done) {
            rewind(records);
            return;
        }
        processed += records.size();
        if (commit.equals("after")) {
            commitSync();
        }
        page.count(read, processed, 0, 0);
    }

    private void record(List<ConsumerRecord<byte[], byte[]>> records, long at) throws IOException {
        ArrowStream.Rows rows = new ArrowStream.Rows(8, 4, 4, 8, 8, 8, 8);
        for (ConsumerRecord<byte[], byte[]> one : records) {
            Long[] name = name(one);
            rows.add(
                    polls,
                    rows.count(),
                    one.partition(),
                    one.offset(),
                    name[0],
                    name[1],
                    at);
        }
        recordIdentities(records);
        reads.append(rows.columns());
        polls++;
    }

    /** Processes records; returns false if some could not be forwarded. */
    private boolean process(List<ConsumerRecord<byte[], byte[]>> records, long at)
            throws IOException {
        if (forwarder != null) {
            return forwarder.send(records);
        }
        recordEffects(records, at);
        return true;
    }

    private boolean endTransaction(boolean forwarded) {
        if (!forwarded) {
            forwarder.abort();
            return false;
        }
        RuntimeException refused = forwarder.commit(offsets(), consumer);
        if (refused != null) {
            event("commit-failed", null, refused.getMessage());
            return false;
        }
        event("committed", positions, null);
        return true;
    }

    /** Seeks back, so that these records are polled again, in partitions still assigned. */
    private void rewind(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<Integer, Long> back = new TreeMap<>();
        for (ConsumerRecord<byte[], byte[]> one : records) {
            if (positions.containsKey(one.partition())) {
                back.putIfAbsent(one.partition(), one.offset());
            }
        }
        back.forEach((partition, at) -> consumer.seek(new TopicPartition(topic, partition), at));
        positions.putAll(back);
        event("rewound", back, null);
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets() {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        positions.forEach(
                (partition, at) -> {
                    if (at != null) {
                        found.put(new TopicPartition(topic, partition), new OffsetAndMetadata(at));
                    }
                });
        return found;
    }

    private void commitSync() {
        Map<TopicPartition, OffsetAndMetadata> offsets = offsets();
        try {
            consumer.commitSync(offsets);
        } catch (KafkaException error) { // also during a rebalance
            event("commit-failed", null, error.getMessage());
            return;
        }
        event("committed", byPartition(offsets), null);
    }

    /** Whether the harness asked for the end and all assigned partitions are consumed. */
    private boolean caughtUp() throws IOException {
        if (!page.stop()) {
            return false;
        }
        Map<Integer, Long> ends = new HashMap<>();
        try {
            Matcher found = END.matcher(Files.readString(spec.path("ends")));
            while (found.find()) {
                ends.put(Integer.valueOf(found.group(1)), Long.valueOf(found.group(2)));
            }
        } catch (NoSuchFileException none) {
            return true;
        }
        for (Map.Entry<Integer, Long> one : reached().entrySet()) {
            if (one.getValue() == null || one.getValue() < ends.getOrDefault(one.getKey(), 0L)) {
                return false;
            }
        }
        return !positions.isEmpty();
    }

    /** The positions, also of partitions of which no record was read; null if unknown. */
    private Map<Integer, Long> reached() {
        Map<Integer, Long> reached = new TreeMap<>(positions);
        reached.replaceAll((partition, at) -> at == null ? position(partition) : at);
        return reached;
    }

    private Long position(int partition) {
        try {
            return consumer.position(new TopicPartition(topic, partition));
        } catch (KafkaException unavailable) {
            return null;
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        Map<Integer, Long> assigned = new TreeMap<>();
        for (TopicPartition one : partitions) {
            assigned.put(one.partition(), committed(one));
        }
        positions.putAll(assigned);
        assignedNs = System.nanoTime();
        if (page.order() == Page.REJOIN) {
            page.addObeyed(1);
        }
        event("assigned", assigned, null);
    }

    /** The committed offset; null if there is none, or if it cannot be had now. */
    private Long committed(TopicPartition partition) {
        try {
            OffsetAndMetadata found = Kafka.committed(consumer, partition);
            return found == null ? null : found.offset();
        } catch (KafkaException unavailable) {
            return null;
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        remove("revoked", partitions);
    }

    /** Since 2.4; before, lost partitions are revoked. */
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        remove("lost", partitions);
    }

    private void remove(String event, Collection<TopicPartition> partitions) {
        Map<Integer, Long> removed = new TreeMap<>();
        for (TopicPartition one : partitions) {
            removed.put(one.partition(), positions.remove(one.partition()));
        }
        event(event, removed, null);
    }

    private static Map<Integer, Long> byPartition(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<Integer, Long> found = new TreeMap<>();
        offsets.forEach((partition, at) -> found.put(partition.partition(), at.offset()));
        return found;
    }
}
