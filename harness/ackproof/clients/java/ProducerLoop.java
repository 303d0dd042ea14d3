import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;

/** Sends what is due and records outcomes, until a bound or a stop; see `producer.py`. */
final class ProducerLoop implements Client {
    private static final int CHUNK = 768;
    private static final long PAUSE_NS = 10_000_000;
    private static final double SETTLE_MARGIN_S = 5;
    private static final double ORPHAN_SETTLE_S = 5;
    private static final double TOPIC_S = 30;

    private final Spec spec;
    private final Page page;
    private final Guard guard;
    private final long number;
    private final String topic;
    private final long records;
    private final double rate;
    private final long window;
    private int partitions;
    private int[] cycle;
    private final int[] sizes;
    private final byte[][] keys;
    private final byte[] token;
    private final Recorder recorder;
    private final Set<Integer> refusals = new HashSet<>();
    private final Set<Integer> refusalsAlways = new HashSet<>();
    private final KafkaProducer<byte[], byte[]> producer;
    private final Map<String, Object> inForce = new LinkedHashMap<>();
    private final Thread main = Thread.currentThread();
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private long networkThread = -1;
    private Metric retried;
    private volatile double retriesSeen;
    private volatile long retriesSeenAt;
    private long next;
    private long ahead;
    private long startedNs;
    private long sleptAt;
    private volatile boolean terminated;
    private volatile Throwable fatal;
    private Transactions transactions;

    ProducerLoop(Spec spec, Map<String, String> secrets, Page page, Guard guard)
            throws IOException {
        this.spec = spec;
        this.page = page;
        this.guard = guard;
        number = spec.number("number", 0);
        topic = spec.text("topic");
        records = spec.number("records", Long.MAX_VALUE);
        rate = spec.decimal("rate", 0);
        window = spec.number("window", 0);
        partitions = spec.integer("partitions");
        cycle = spec.integers("cycles." + partitions);
        sizes = spec.integers("sizes");
        keys = new byte[(int) spec.number("keys", 0)][];
        for (int index = 0; index < keys.length; index++) {
            keys[index] = ("key-" + index).getBytes(StandardCharsets.US_ASCII);
        }
        for (int code : spec.integers("refusals")) {
            refusals.add(code);
        }
        for (int code : spec.integers("refusals_always")) {
            refusalsAlways.add(code);
        }
        token = spec.bytes("token");
        Map<String, Object> settings =
                Kafka.settings(spec, "settings", "producer", secrets);
        if (spec.has("transactions.size")) {
            settings.put("transactional.id", spec.text("transactions.transactional_id"));
        }
        producer = Kafka.producer(settings);
        inForce.putAll(Kafka.inForce(producer));
        Main.writeInForce(spec, inForce);
        connect();
        ArrowStream ledger =
                spec.has("ledger")
                        ? new ArrowStream(spec.path("ledger"), spec.bytes("ledger_schema"))
                        : null;
        recorder = new Recorder(ledger, page, rate, records, this::tick);
    }

    private void connect() {
        int needed = spec.integer("partitions");
        long deadline = System.nanoTime() + (long) (TOPIC_S * 1e9);
        int found = 0;
        while (found < needed && System.nanoTime() < deadline) {
            found = producer.partitionsFor(topic).size();
            if (found < needed) {
                LockSupport.parkNanos(100_000_000);
            }
        }
        if (found < needed) {
            throw new Failure(
                    "producer " + number + " needs " + needed + " partitions of '" + topic
                            + "', which has " + found,
                    "Create the topic with at least " + needed + " partitions.");
        }
        for (Map.Entry<org.apache.kafka.common.MetricName, ? extends Metric> one :
                producer.metrics().entrySet()) {
            if (one.getKey().name().equals("record-retry-total")
                    && one.getKey().group().equals("producer-metrics")) {
                retried = one.getValue();
            }
        }
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("kafka-producer-network-thread")) {
                networkThread = thread.getId();
            }
        }
    }

    @Override
    public void terminate() {
        terminated = true;
    }

    @Override
    public void run() throws IOException {
        recorder.start();
        if (spec.has("transactions.size")) {
            transactions =
                    new Transactions(
                            spec, producer, inForce, page, this::settle, this::stopping);
        }
        page.startedAt(Page.now());
        startedNs = System.nanoTime();
        page.state(Page.PRODUCING);
        boolean staysOpen = "true".equals(spec.text("transactions.last_stays_open"));
        while (next < records && !stopping()) {
            long due = Math.min(due(), next + room());
            if (due <= next) {
                pause();
                continue;
            }
            if (transactions != null) {
                due = Math.min(due, transactions.room(next));
                fail(transactions.fatal);
            }
            grow();
            while (next < due && fatal == null) {
                send(next);
            }
            if (transactions != null && fatal == null && !(staysOpen && next == records)) {
                transactions.advance(next);
                fail(transactions.fatal);
            }
        }
        while (staysOpen && !stopping()) {
            LockSupport.parkNanos(PAUSE_NS);
        }
        page.state(Page.SETTLING);
        if (transactions != null) {
            transactions.end(next);
            transactions.close();
            fail(transactions.fatal);
        }
        settle();
        Kafka.abandon(producer);
        recorder.finish();
        if (fatal != null) {
            String name = Main.errorName(spec, Kafka.code(fatal));
            inForce.put("ended.by", name);
            Main.writeInForce(spec, inForce);
            if (!spec.list("may_end_with").contains(name)) {
                throw new Failure(
                        "producer " + number + " stopped for good: " + name,
                        "The Java client allows no further sends after this fatal error. If it is "
                                + "expected, list it in workload.may_stop_for. It said: "
                                + fatal.getMessage());
            }
        }
    }

    /** Uses the partitions that the client's cached metadata has by now. */
    private void grow() throws IOException {
        if (spec.text("later_partitions").isEmpty()) {
            return;
        }
        int known = producer.partitionsFor(topic).size();
        if (known > partitions && spec.has("cycles." + known)) {
            partitions = known;
            cycle = spec.integers("cycles." + known);
            if (spec.has("growths")) {
                Files.write(
                        spec.path("growths"),
                        (next + " " + known + "\n").getBytes(StandardCharsets.US_ASCII),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.APPEND);
            }
        }
    }

    private void fail(Throwable error) {
        if (error != null && fatal == null) {
            fatal = error;
        }
    }

    /** Whether no more sends may be made, even if some are due. */
    private boolean stopping() {
        double seconds = spec.decimal("seconds", Double.MAX_VALUE);
        return terminated || page.stop() || fatal != null || elapsed() >= seconds
                || guard.orphaned();
    }

    private double elapsed() {
        return startedNs == 0 ? 0 : (System.nanoTime() - startedNs) / 1e9;
    }

    /** The end of the sequences that should have been sent by now. */
    private long due() {
        long due = next + CHUNK;
        if (rate > 0) {
            long paced = (long) (elapsed() * rate) + 1 + ahead;
            if (page.order() == Page.FILL) {
                ahead += Math.max(0, due - paced);
            } else {
                due = Math.min(due, paced);
            }
        }
        return Math.min(due, records);
    }

    private long room() {
        return window == 0 ? CHUNK : Math.min(CHUNK, window - recorder.inFlight());
    }

    private void pause() {
        long wait = PAUSE_NS;
        if (window > 0 && window <= recorder.inFlight()) {
            wait = 50_000; // an answer makes room at any time
        } else if (rate > 0) {
            wait = (long) (((next - ahead) / rate - elapsed()) * 1e9);
        }
        LockSupport.parkNanos(Math.max(20_000, Math.min(wait, PAUSE_NS)));
    }

    private void send(long sequence) throws IOException {
        recorder.admit(sequence);
        next = sequence + 1;
        int partition = cycle[(int) (sequence % cycle.length)];
        byte[] key = keys.length > 0 ? keys[(int) (sequence % keys.length)] : null;
        Long timestamp = null;
        if (page.order() == Page.SKEW) {
            timestamp = System.currentTimeMillis() + page.argumentMs();
            page.addObeyed(1);
        }
        long at = Page.now();
        Report report = new Report(sequence, sentAt(sequence, at));
        int size = sizes[(int) (sequence % sizes.length)];
        byte[] value = RecordValue.encode(token, number, sequence, size);
        try {
            producer.send(new ProducerRecord<>(topic, partition, timestamp, key, value), report);
        } catch (RuntimeException refused) {
            report.collect(Recorder.FAILED, Kafka.code(refused), -1);
            boolean abortable = transactions != null && !Transactions.isFatal(refused);
            if (!abortable && !(refused instanceof org.apache.kafka.common.errors.ApiException)) {
                fail(refused);
            }
        }
        if (page.order() == Page.FILL && Page.now() - at > 1_000_000) {
            page.addObeyed(1); // the buffer was full: the call has waited for room
        }
    }

    private long sentAt(long sequence, long at) {
        if (rate == 0 || window > 0) {
            return at;
        }
        return Math.min(page.startedAt() + (long) (sequence * (1e6 / rate)), at);
    }

    /** The callback of one send. */
    private final class Report implements Callback {
        private final long sequence;
        private final long sentAt;
        private boolean collected;

        Report(long sequence, long sentAt) {
            this.sequence = sequence;
            this.sentAt = sentAt;
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (error == null) {
                misbehave();
                collect(Recorder.ACKED, 0, metadata.offset());
                return;
            }
            int code = Kafka.code(error);
            boolean never = Thread.currentThread() == main; // send() itself refuses it
            collect(never || refused(code) ? Recorder.FAILED : Recorder.UNKNOWN, code, -1);
        }

        /**
         * Collects the outcome, once: a transactional producer that must abort takes a record into
         * its buffer, throws from send(), and reports the record again when it empties the buffer.
         */
        synchronized void collect(int outcome, int error, long offset) {
            if (!collected) {
                collected = true;
                recorder.collect(sequence, outcome, error, offset, sentAt, Page.now());
            }
        }

        /** Whether no attempt can have been written; retries are counted on this thread. */
        private boolean refused(int code) {
            boolean sole =
                    retried != null
                            && retriesSeenAt < sentAt
                            && retries() == retriesSeen;
            return refusalsAlways.contains(code) || (sole && refusals.contains(code));
        }
    }

    /** Delays the network thread, as slow callbacks of an application do. */
    private void misbehave() {
        int order = page.order();
        if (order == Page.SLOW && Page.now() - sleptAt > 10_000) {
            LockSupport.parkNanos(page.argumentMs() * 1_000_000);
            sleptAt = Page.now();
            page.addObeyed(1);
        }
        while (page.order() == Page.FILL && !page.stop() && !guard.orphaned()) {
            LockSupport.parkNanos(PAUSE_NS);
        }
    }

    /** Runs on the recorder's thread. */
    private void tick() {
        long busiest = Math.max(cpuUs(main.getId()), cpuUs(networkThread));
        if (startedNs != 0 && busiest > 0) {
            page.busy(busiest);
        }
        if (retried != null) {
            double count = retries();
            if (count != retriesSeen) {
                retriesSeenAt = Page.now();
                retriesSeen = count;
            }
        }
    }

    private double retries() {
        return ((Number) Kafka.call(retried, "metricValue")).doubleValue();
    }

    private long cpuUs(long thread) {
        return thread < 0 ? 0 : threads.getThreadCpuTime(thread) / 1000;
    }

    /** Waits for the outcomes of sends in flight. */
    private void settle() {
        producer.flush();
        double bound = spec.decimal("delivery_timeout_s", 120) + SETTLE_MARGIN_S;
        long from = System.nanoTime();
        while (recorder.inFlight() > 0 && (System.nanoTime() - from) / 1e9 < bound) {
            if (guard.orphaned()) {
                bound = Math.min(bound, ORPHAN_SETTLE_S);
            }
            LockSupport.parkNanos(1_000_000);
        }
    }
}
