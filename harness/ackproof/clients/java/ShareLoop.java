import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The member of a share group, as `share_consumer.py`; kafka-clients has it from 4.2 on.
 *
 * <p>A record to be renewed keeps its lock while this consumer works on it, and is accepted then.
 * The others of its poll are done before.
 */
final class ShareLoop extends Polling {
    private static final Duration POLL = Duration.ofMillis(POLL_MS);
    /** Milliseconds of work between two renewals. */
    private static final long RENEW_MS = 500;

    private static final String RENEW = "renew";
    private static final String ACCEPT = "accept";
    private static final String NOT_IN_FLIGHT = "not in flight";

    /** A record that this consumer has acquired, and the columns that name its delivery. */
    private static final class Held {
        final ConsumerRecord<byte[], byte[]> record;
        final Object[] delivery;

        Held(ConsumerRecord<byte[], byte[]> record, Object... delivery) {
            this.record = record;
            this.delivery = delivery;
        }
    }

    private final List<String> words;
    private final Duration request;
    private final ArrowStream acquired;
    private final ArrowStream acknowledged;
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    /** What a row has of each acknowledgement without an answer, by partition and offset. */
    private final Map<Integer, Map<Long, Object[]>> asked = new HashMap<>();
    private long count;
    private long done;

    ShareLoop(Spec spec, Map<String, String> secrets, Page page, Guard guard) throws IOException {
        super(spec, secrets, page, guard);
        words = spec.list("share.acknowledge");
        request = Duration.ofMillis((long) (1000 * spec.decimal("request_s", 0)));
        acquired =
                new ArrowStream(
                        spec.path("share.acquisitions"), spec.bytes("acquisitions_schema"));
        acknowledged =
                new ArrowStream(
                        spec.path("share.acknowledgements"), spec.bytes("acknowledgements_schema"));
        Map<String, Object> settings = Kafka.settings(spec, "settings", "consumer", secrets);
        settings.put("group.id", spec.text("group"));
        settings.put("max.poll.records", spec.text("poll"));
        settings.put("share.acknowledgement.mode", words.isEmpty() ? "implicit" : "explicit");
        consumer =
                new KafkaShareConsumer<>(
                        settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.setAcknowledgementCommitCallback(
                (answers, error) ->
                        answers.forEach(
                                (partition, offsets) ->
                                        answered(partition.partition(), offsets, error)));
    }

    @Override
    public void run() throws IOException {
        page.startedAt(Page.now());
        page.state(Page.CONSUMING);
        event("started", null, null);
        consumer.subscribe(Collections.singletonList(topic));
        while (!ends()) {
            try {
                handle(consumer.poll(POLL));
            } catch (KafkaException error) {
                endAfter(error);
            }
        }
        page.state(Page.SETTLING);
        consumer.close();
        event("closed", null, null);
        acquired.close();
        acknowledged.close();
        closeFiles();
    }

    private boolean ends() {
        return terminated || page.stop() || guard.orphaned();
    }

    private void handle(ConsumerRecords<byte[], byte[]> polled) throws IOException {
        if (polled.isEmpty()) {
            return;
        }
        List<Held> held = acquire(polled);
        boolean slow = page.order() == Page.SLOW;
        long work = slow ? page.argumentMs() : 0;
        boolean renews = held.stream().anyMatch(one -> word(one).equals(RENEW));
        if (slow && !renews) {
            LockSupport.parkNanos(work * 1_000_000);
            page.addObeyed(1);
        }
        if (count >= spec.number("crash_after", Long.MAX_VALUE) && held.size() > 1) {
            process(held.subList(0, held.size() / 2));
            Guard.kill();
        }
        process(held);
        acknowledge(held, null);
        if (!renews) {
            return;
        }
        List<Held> renewed = renewed(held);
        for (; work > 0 && !renewed.isEmpty(); work -= RENEW_MS) {
            LockSupport.parkNanos(Math.min(work, RENEW_MS) * 1_000_000);
            acknowledge(renewed, RENEW);
            renewed = renewed(renewed);
        }
        page.addObeyed(slow ? 1 : 0);
        if (!renewed.isEmpty()) {
            recordEffects(records(renewed, RENEW), Page.now());
            acknowledge(renewed, ACCEPT);
            done += renewed.size();
            page.count(count, done, 0, 0);
        }
    }

    private String word(Held one) {
        return words.isEmpty() ? ACCEPT : words.get((int) (one.record.offset() % words.size()));
    }

    private List<ConsumerRecord<byte[], byte[]>> records(List<Held> held, String word) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        for (Held one : held) {
            if (word(one).equals(word)) {
                found.add(one.record);
            }
        }
        return found;
    }

    /** Processes the records that are to be accepted without a renewal. */
    private void process(List<Held> held) throws IOException {
        List<ConsumerRecord<byte[], byte[]>> accepted = records(held, ACCEPT);
        recordEffects(accepted, Page.now());
        done += accepted.size();
        page.count(count, done, 0, 0);
    }

    private List<Held> acquire(ConsumerRecords<byte[], byte[]> polled) throws IOException {
        List<Held> held = new ArrayList<>();
        ArrowStream.Rows rows = new ArrowStream.Rows(8, 4, 4, 8, 8, 8, 4, 8);
        long at = Page.now();
        for (ConsumerRecord<byte[], byte[]> one : polled) {
            Long[] name = name(one);
            Object[] delivery = {
                polls, held.size(), one.partition(), one.offset(), name[0], name[1]
            };
            held.add(new Held(one, delivery));
            rows.add(with(delivery, one.deliveryCount().orElse(null), at));
        }
        recordIdentities(polled);
        acquired.append(rows.columns());
        polls++;
        count += held.size();
        return held;
    }

    private static Object[] with(Object[] first, Object... then) {
        Object[] all = Arrays.copyOf(first, first.length + then.length);
        System.arraycopy(then, 0, all, first.length, then.length);
        return all;
    }

    /** Acknowledges records with `word`; null: each with its own. Records it before the request. */
    private void acknowledge(List<Held> held, String word) throws IOException {
        ArrowStream.Rows rows = acknowledgements();
        long at = Page.now();
        for (Held one : held) {
            Object[] row = with(one.delivery, word == null ? word(one) : word, at);
            rows.add(with(row, null, null));
            asked.computeIfAbsent(one.record.partition(), partition -> new HashMap<>())
                    .put(one.record.offset(), row);
        }
        acknowledged.append(rows.columns());
        if (words.isEmpty()) {
            return; // the client accepts with the next poll
        }
        for (Held one : held) {
            String kind = (word == null ? word(one) : word).toUpperCase(Locale.ROOT);
            try {
                consumer.acknowledge(one.record, AcknowledgeType.valueOf(kind));
            } catch (IllegalStateException late) {
                answered(
                        one.record.partition(),
                        Collections.singleton(one.record.offset()),
                        NOT_IN_FLIGHT);
            }
        }
        try {
            consumer.commitSync(request)
                    .forEach(
                            (partition, error) ->
                                    answered(
                                            partition.partition(),
                                            unanswered(partition.partition()),
                                            error.orElse(null)));
        } catch (KafkaException error) {
            event("commit-failed", null, String.valueOf(error.getMessage()));
        }
    }

    /** Returns those whose lock was renewed: the next poll returns them, and no others. */
    private List<Held> renewed(List<Held> held) throws IOException {
        List<Held> found = new ArrayList<>();
        ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
        for (ConsumerRecord<byte[], byte[]> one : polled) {
            for (Held before : held) {
                if (same(before.record, one)) {
                    found.add(before);
                }
            }
        }
        if (found.isEmpty()) {
            handle(polled); // the brokers renewed no lock, and the poll has other records
        }
        return found;
    }

    private static boolean same(ConsumerRecord<?, ?> one, ConsumerRecord<?, ?> other) {
        return one.partition() == other.partition()
                && one.offset() == other.offset()
                && one.deliveryCount().equals(other.deliveryCount());
    }

    private Collection<Long> unanswered(int partition) {
        return new ArrayList<>(asked.getOrDefault(partition, Collections.emptyMap()).keySet());
    }

    private static ArrowStream.Rows acknowledgements() {
        return new ArrowStream.Rows(8, 4, 4, 8, 8, 8, 0, 8, 8, 0);
    }

    private void answered(int partition, Collection<Long> offsets, Exception error) {
        String name = error == null ? null : Errors.forException(error).name();
        answered(partition, offsets, name);
    }

    /** Records the brokers' answer to acknowledgements; a repeated answer changes nothing. */
    private void answered(int partition, Collection<Long> offsets, String error) {
        ArrowStream.Rows rows = acknowledgements();
        long at = Page.now();
        for (long offset : offsets) {
            Object[] row = asked.getOrDefault(partition, new HashMap<>()).remove(offset);
            if (row != null) {
                rows.add(with(row, at, error));
            }
        }
        try {
            if (rows.count() > 0) {
                acknowledged.append(rows.columns());
            }
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
