import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.ShareGroupAutoOffsetResetStrategy;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/** SharePartition: does what is asked step by step, with a log, a clock and a coordinator of ours. */
final class Shares implements Oracle.Question {
    private static final TopicIdPartition PARTITION = new TopicIdPartition(new Uuid(1, 1), new TopicPartition("t", 0));
    private static final Class<?> TYPE = Fakes.found("kafka.server.share.SharePartition");
    private static final Class<?> DATA = Fakes.found("org.apache.kafka.server.storage.log.FetchPartitionData");
    private static final Class<?> BATCH = Fakes.found(
        "org.apache.kafka.common.record.internal.RecordBatch", "org.apache.kafka.common.record.RecordBatch");
    private static final boolean DEAD_LETTERS =
        TYPE.getDeclaredConstructors()[0].toGenericString().contains("DLQ");  // since 4.4, as is a provider of metadata
    private static final Map<Character, Byte> WORDS = Map.of('g', (byte) 0, 'a', (byte) 1, 'r', (byte) 2,
        'j', (byte) 3, 'n', (byte) 4);

    private long now;
    private List<TimerTaskEntry> locks = new ArrayList<>();
    private List<long[]> log;
    private long logStart;
    private long logEnd;
    private boolean earliest;
    private long start;
    private List<PersisterStateBatch> stored;
    private String answers;
    private boolean sleeping;
    private boolean starting;
    private List<String> written = new ArrayList<>();
    private Deque<CompletableFuture<WriteShareGroupStateResult>> held = new ArrayDeque<>();

    private final Object metrics = Fakes.hidden(
        Fakes.found("org.apache.kafka.server.share.metrics.SharePartitionMetrics"), "g", "t", 0);
    private final Object empty = enumerated("kafka.server.share.SharePartition$SharePartitionState", "EMPTY");
    private final Object mode = enumerated(
        "org.apache.kafka.clients.consumer.internals.ShareAcquireMode", "BATCH_OPTIMIZED");
    private final Object isolation = enumerated(
        "org.apache.kafka.server.storage.log.FetchIsolation", "HIGH_WATERMARK");
    private final Time time = (Time) Fakes.answering(Time.class, (name, arguments) -> now);
    private final Timer timer = (Timer) Fakes.answering(Timer.class, (name, arguments) -> add(arguments));
    private final Persister persister = (Persister) Fakes.answering(Persister.class, this::persist);
    private final Object surroundings = surroundings();
    private final Object configured = configured();

    Shares() throws Exception {
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object enumerated(String type, String name) {
        return Enum.valueOf((Class<Enum>) Fakes.found(type), name);
    }

    private Object add(Object[] arguments) {
        TimerTask task = (TimerTask) arguments[0];
        locks.add(new TimerTaskEntry(task, now + task.delayMs));
        return null;
    }

    /** Where the partition asks for the ends of its log: since 4.4 an interface. */
    private Object surroundings() throws Exception {
        try {
            Class<?> provider = Class.forName("org.apache.kafka.server.share.PartitionMetadataProvider");
            return Fakes.answering(provider, (name, arguments) ->
                name.startsWith("offsetFor") ? (name.contains("Earliest") ? logStart : logEnd) : null);
        } catch (ClassNotFoundException before) {
            return Fakes.answering(Class.forName("kafka.server.ReplicaManager"), (name, arguments) -> {
                if (!name.equals("fetchOffsetForTimestamp")) return null;
                try {
                    Class<?> type = Fakes.found("org.apache.kafka.storage.internals.log.OffsetResultHolder");
                    Class<?> at = Fakes.found(
                        "org.apache.kafka.common.record.internal.FileRecords$TimestampAndOffset",
                        "org.apache.kafka.common.record.FileRecords$TimestampAndOffset");
                    Object offset = Fakes.make(at, -1L, ((Long) arguments[1]) == -2L ? logStart : logEnd, Optional.empty());
                    return Fakes.make(type, Optional.of(offset));
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
        }
    }

    private Object configured() throws Exception {
        Class<?> type = Fakes.found("org.apache.kafka.coordinator.group.GroupConfig");
        if (DEAD_LETTERS) {
            Class<?> provider = Fakes.found("org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider");
            return Fakes.answering(provider, (name, arguments) ->
                name.endsWith("OrDefault") ? arguments[1] : name.equals("autoOffsetReset") ? reset()
                    : name.startsWith("is") ? (Object) true : Optional.empty());
        }
        Object group = Fakes.make(type, Map.of("share.auto.offset.reset", "earliest"));
        Class<?> manager = Fakes.found("org.apache.kafka.coordinator.group.GroupConfigManager");
        return Fakes.answering(manager, (name, arguments) -> earliest && starting ? Optional.of(group) : Optional.empty());
    }

    private Object reset() {
        return earliest ? ShareGroupAutoOffsetResetStrategy.EARLIEST : ShareGroupAutoOffsetResetStrategy.LATEST;
    }

    private Object persist(String name, Object[] arguments) {
        if (name.equals("readState")) {
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(
                new TopicData<>(PARTITION.topicId(), List.of(
                    PartitionFactory.newPartitionAllData(0, 0, start, (short) 0, "", stored))))).build());
        }
        try {
            Object data = Fakes.call(Fakes.call(arguments[0], "groupTopicPartitionData"), "topicsData");
            Object part = ((TopicData<?>) ((List<?>) data).get(0)).partitions().get(0);
            Object complete = Fakes.call(part, "deliveryCompleteCount");
            String ends = sleeping ? "" : Fakes.call(part, "startOffset") + "/" + complete + "/";
            written.add(ends + runs((List<?>) Fakes.call(part, "stateBatches")));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        CompletableFuture<WriteShareGroupStateResult> answer = new CompletableFuture<>();
        if (answers.equals("hold") && !sleeping) held.add(answer);
        else finish(answer, answers.equals("fail"));
        return answer;
    }

    private static void finish(CompletableFuture<WriteShareGroupStateResult> answer, boolean fail) {
        short code = fail ? Errors.COORDINATOR_NOT_AVAILABLE.code() : 0;
        answer.complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
            PARTITION.topicId(), List.of(PartitionFactory.newPartitionErrorData(0, code, ""))))).build());
    }

    /** States as runs of records, in order: Kafka may split them otherwise. */
    static String runs(List<?> batches) {
        TreeMap<Long, String> records = new TreeMap<>();
        for (Object one : batches) {
            PersisterStateBatch batch = (PersisterStateBatch) one;
            for (long offset = batch.firstOffset(); offset <= batch.lastOffset(); offset++) {
                records.put(offset, batch.deliveryState() + "." + batch.deliveryCount());
            }
        }
        return joined(records);
    }

    static String joined(TreeMap<Long, String> records) {
        StringBuilder text = new StringBuilder();
        Long first = null;
        for (Map.Entry<Long, String> entry : records.entrySet()) {
            if (first == null) first = entry.getKey();
            Map.Entry<Long, String> next = records.higherEntry(entry.getKey());
            boolean on = next != null && next.getKey() == entry.getKey() + 1 && next.getValue().equals(entry.getValue());
            if (on) continue;
            text.append(text.length() == 0 ? "" : "+").append(first).append('-').append(entry.getKey()).
                append('.').append(entry.getValue());
            first = null;
        }
        return text.toString();
    }

    private static String error(CompletableFuture<?> future) {
        if (!future.isDone()) return "held";
        try {
            future.get();
            return "ok";
        } catch (Exception error) {
            return Errors.forException(error.getCause()).name();
        }
    }

    static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (String word : text.split("\\+")) {
            if (word.isEmpty()) continue;
            String[] parts = word.split("[.-]");
            found.add(new PersisterStateBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]),
                Byte.parseByte(parts[2]), Short.parseShort(parts[3])));
        }
        return found;
    }

    @Override
    public String answer(Oracle.Case given) throws Exception {
        now = 0;
        locks = new ArrayList<>();
        held = new ArrayDeque<>();
        written = new ArrayList<>();
        answers = "ok";
        log = new ArrayList<>();
        logEnd = 0;
        for (int size : given.numbers("log")) {
            log.add(new long[] {logEnd, logEnd + size - 1});
            logEnd += size;
        }
        logStart = given.number("log_start");
        earliest = given.text("reset").equals("earliest");
        start = given.number("start");
        stored = batches(given.text("stored"));
        List<Object> offered = new ArrayList<>(List.of("g", PARTITION, 0, given.number("locks"), given.number("limit"),
            given.number("lock"), timer, time, persister, surroundings, configured, empty, metrics));
        if (DEAD_LETTERS) offered.add((Supplier<Object>) () -> false);
        Object partition = Fakes.hidden(TYPE, offered.toArray());
        starting = true;
        String began = error((CompletableFuture<?>) Fakes.call(partition, "maybeInitialize"));
        starting = false;
        if (!began.equals("ok")) return "refused";
        List<long[]> acquired = new ArrayList<>();
        List<String> told = new ArrayList<>();
        for (String step : given.words("steps")) {
            String[] words = step.split(":");
            written.clear();
            String answer;
            switch (words[0]) {
                case "fetch": answer = fetch(partition, words, acquired); break;
                case "ack": answer = acknowledge(partition, words, acquired); break;
                case "end": answer = error((CompletableFuture<?>) Fakes.call(partition, "releaseAcquiredRecords", words[1])); break;
                case "sleep": answer = sleep(Integer.parseInt(words[1])); break;
                case "writes": answers = words[1]; answer = ""; break;
                case "answer":
                    if (!held.isEmpty()) finish(held.remove(), words[1].equals("fail"));
                    answer = "";
                    break;
                default:
                    answer = "";
                    if (!held.isEmpty()) break;
                    // Past all records in flight, Kafka's leader fails if they were acknowledged one by one.
                    // And it forgets what waits for an answer if that moves into its batch.
                    boolean flying = !((Map<?, ?>) Fakes.call(partition, "cachedState")).isEmpty();
                    long last = flying ? (Long) Fakes.call(partition, "endOffset") : logEnd;
                    logStart = Math.max(logStart, Math.min(last, Long.parseLong(words[1])));
                    if (logStart > (Long) Fakes.call(partition, "startOffset")) Fakes.call(partition, "updateCacheAndOffsets", logStart);
            }
            told.add(answer + "[" + String.join("|", written) + "]");
        }
        told.add(dump(partition));
        return String.join(",", told);
    }

    private String fetch(Object partition, String[] words, List<long[]> acquired) throws Exception {
        long offset = (Long) Fakes.call(partition, "nextFetchOffset");
        if (offset < logStart || offset >= logEnd) return offset + " outside";
        List<Object> batches = new ArrayList<>();
        for (long[] ends : log) {
            if (ends[1] < offset || batches.size() == Integer.parseInt(words[3])) continue;
            batches.add(Oracle.proxy(BATCH, Map.of("baseOffset", ends[0], "lastOffset", ends[1])));
        }
        Object records = Oracle.proxy(DATA.getField("records").getType(),
            Map.of("batches", batches, "lastBatch", Optional.of(batches.get(batches.size() - 1))));
        Object data = Fakes.make(DATA, Errors.NONE, logEnd, logStart, records, Optional.empty(), Optional.empty());
        ShareAcquiredRecords found;
        try {
            found = (ShareAcquiredRecords) Fakes.call(partition, "acquire", words[1], mode,
                Integer.parseInt(words[4]), Integer.parseInt(words[2]), offset, data, isolation);
        } catch (IllegalArgumentException error) {
            return offset + " " + error.getMessage();
        }
        TreeMap<Long, String> given = new TreeMap<>();
        found.acquiredRecords().forEach(one -> {
            for (long at = one.firstOffset(); at <= one.lastOffset(); at++) given.put(at, String.valueOf(one.deliveryCount()));
        });
        if (!given.isEmpty()) {
            long[] run = {given.firstKey(), given.firstKey()};
            for (long at : given.keySet()) {
                if (at > run[1] + 1) {
                    acquired.add(run);
                    run = new long[] {at, at};
                }
                run[1] = at;
            }
            acquired.add(run);
        }
        return offset + " " + joined(given);
    }

    private String acknowledge(Object partition, String[] words, List<long[]> acquired) throws Exception {
        if (acquired.isEmpty()) return "none";
        long[] run = acquired.get(Integer.parseInt(words[2]) % acquired.size());
        long first = run[0] + Integer.parseInt(words[3]) % (run[1] - run[0] + 1);
        long last = first + Integer.parseInt(words[4]) % (run[1] - first + 1);
        List<Byte> types = new ArrayList<>();
        for (int at = 0; at <= (words[5].length() == 1 ? 0 : last - first); at++) {
            types.add(WORDS.get(words[5].charAt(at % words[5].length())));
        }
        return first + "-" + last + " " + error((CompletableFuture<?>) Fakes.call(partition, "acknowledge", words[1],
            List.of(new ShareAcknowledgementBatch(first, last, types))));
    }

    private String sleep(int time) {
        now += time;
        sleeping = true;
        while (true) {
            locks.removeIf(TimerTaskEntry::cancelled);
            Optional<TimerTaskEntry> due = locks.stream().filter(one -> one.expirationMs <= now).
                min((one, other) -> Long.compare(one.expirationMs, other.expirationMs));
            if (due.isEmpty()) break;
            locks.remove(due.get());
            due.get().timerTask.run();
        }
        sleeping = false;
        List<PersisterStateBatch> all = new ArrayList<>();
        for (String text : written) all.addAll(batches(text));
        written.clear();
        if (!all.isEmpty()) written.add(runs(all));
        return "";
    }

    private static String dump(Object partition) throws Exception {
        TreeMap<Long, String> records = new TreeMap<>();
        for (Object batch : ((NavigableMap<?, ?>) Fakes.call(partition, "cachedState")).values()) {
            Map<?, ?> states = (Map<?, ?>) Fakes.call(batch, "offsetState");
            for (long at = (Long) Fakes.call(batch, "firstOffset"); at <= (Long) Fakes.call(batch, "lastOffset"); at++) {
                Object of = states == null ? null : states.get(at);
                records.put(at, of == null
                    ? shown(Fakes.call(batch, "batchState"), Fakes.call(batch, "batchDeliveryCount"), Fakes.call(batch, "batchMemberId"), Fakes.call(batch, "batchHasOngoingStateTransition"))
                    : shown(Fakes.call(of, "state"), Fakes.call(of, "deliveryCount"), Fakes.call(of, "memberId"), Fakes.call(of, "hasOngoingStateTransition")));
            }
        }
        return Fakes.call(partition, "startOffset") + "/" + Fakes.call(partition, "endOffset") + "/"
            + Fakes.call(partition, "deliveryCompleteCount") + "/" + Fakes.call(partition, "nextFetchOffset") + "/" + joined(records);
    }

    private static String shown(Object state, Object count, Object member, Object pending) throws Exception {
        return Fakes.call(state, "id") + "." + count + "." + member + ((Boolean) pending ? "?" : "");
    }
}
