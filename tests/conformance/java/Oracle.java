import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Answers from Kafka's own classes. Reads a question ("? partition"), its cases, one a line
 * ("key=value key=value"), and "."; writes an answer a line, and "."; then the next question may
 * follow, so that all share a JVM, which loads Kafka's classes once. What differs between versions
 * of Kafka is reached by reflection.
 */
public class Oracle {
    /** One line of input. */
    static final class Case {
        private final Map<String, String> fields = new HashMap<>();

        Case(String line) {
            for (String field : line.split(" ")) {
                int sign = field.indexOf('=');
                fields.put(field.substring(0, sign), field.substring(sign + 1));
            }
        }

        boolean has(String key) {
            return fields.containsKey(key);
        }

        String text(String key) {
            return fields.get(key);
        }

        int number(String key) {
            return Integer.parseInt(fields.get(key));
        }

        boolean flag(String key) {
            return number(key) == 1;
        }

        String[] words(String key) {
            String value = fields.getOrDefault(key, "");
            return value.isEmpty() ? new String[0] : value.split(",");
        }

        List<Integer> numbers(String key) {
            List<Integer> found = new ArrayList<>();
            for (String word : words(key)) found.add(Integer.parseInt(word));
            return found;
        }

        int[] array(String key) {
            return numbers(key).stream().mapToInt(Integer::intValue).toArray();
        }
    }

    interface Question {
        String answer(Case given) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.apache.logging.log4j.level", "OFF");  // it would log to our output
        Question question = null;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintWriter out = new PrintWriter(System.out);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.startsWith("? ")) {
                question = question(line.substring(2));
            } else if (line.equals(".")) {
                out.println(line);
                out.flush();
            } else {
                out.println(question.answer(new Case(line)));
            }
        }
    }

    private static Question question(String name) throws Exception {
        switch (name) {
            case "partition": return Oracle::partitionChange;
            case "reassignment": return Oracle::reassignment;
            case "epochs": return new Epochs();
            case "producer": return new Producers();
            case "truncation": return new Replication.Rounds();
            case "replica": return new Replication.Lives();
            case "coordinator": return new Transactions.Requests();
            case "markers": return new Markers();
            case "share partition": return only("Shares");
            case "share coordinator": return only("ShareStates");
            default: throw new IllegalArgumentException(name);
        }
    }

    /** A question about classes that not every version has. */
    private static Question only(String name) throws Exception {
        return (Question) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    static String list(List<?> values) {
        StringBuilder text = new StringBuilder();
        for (Object value : values) text.append(text.length() == 0 ? "" : ",").append(value);
        return text.toString();
    }

    static void add(StringBuilder text, String name, Object value) {
        if (value != null) {
            String shown = value instanceof List ? list((List<?>) value) : value.toString();
            text.append(text.length() == 0 ? "" : " ").append(name).append('=').append(shown);
        }
    }

    static Uuid[] uuids(String[] words) {
        return Arrays.stream(words).map(Uuid::fromString).toArray(Uuid[]::new);
    }

    static PartitionRegistration registration(Case given) {
        return new PartitionRegistration.Builder().
            setReplicas(given.array("replicas")).
            setDirectories(uuids(given.words("directories"))).
            setIsr(given.array("isr")).
            setRemovingReplicas(given.array("removing")).
            setAddingReplicas(given.array("adding")).
            setElr(given.array("elr")).
            setLastKnownElr(given.array("last_known_elr")).
            setLeader(given.number("leader")).
            setLeaderRecoveryState(recovery(given.flag("recovering"))).
            setLeaderEpoch(given.number("leader_epoch")).
            setPartitionEpoch(given.number("partition_epoch")).
            build();
    }

    static LeaderRecoveryState recovery(boolean recovering) {
        return recovering ? LeaderRecoveryState.RECOVERING : LeaderRecoveryState.RECOVERED;
    }

    static PartitionChangeBuilder builder(Case given, PartitionRegistration partition)
            throws Exception {
        Set<Integer> acceptable = new HashSet<>(given.numbers("acceptable"));
        IntPredicate test = acceptable::contains;
        MetadataVersion version =
            MetadataVersion.fromFeatureLevel((short) given.number("metadata_version"));
        Constructor<?> made = PartitionChangeBuilder.class.getConstructors()[0];
        int minIsr = given.number("min_isr");
        boolean elr = given.flag("eligible");
        if (made.getParameterCount() == 7) {  // since 4.3.0
            return (PartitionChangeBuilder) made.newInstance(
                partition, Uuid.ONE_UUID, 0, test, version, minIsr, elr);
        }
        PartitionChangeBuilder builder = (PartitionChangeBuilder) made.newInstance(
            partition, Uuid.ONE_UUID, 0, test, version, minIsr);
        PartitionChangeBuilder.class.getMethod("setEligibleLeaderReplicasEnabled", boolean.class).
            invoke(builder, elr);
        return builder;
    }

    /** PartitionReassignmentReplicas and PartitionReassignmentRevert. */
    static String reassignment(Case given) throws Exception {
        return org.apache.kafka.controller.Reassignments.answer(
            given.numbers("current"), given.numbers("target"), registration(given));
    }

    /** PartitionChangeBuilder.build, and PartitionRegistration.merge of what it built. */
    static String partitionChange(Case given) throws Exception {
        PartitionRegistration partition = registration(given);
        Map<Integer, Uuid> defaults = new HashMap<>();
        for (String word : given.words("defaults")) {
            String[] pair = word.split(":");
            defaults.put(Integer.parseInt(pair[0]), Uuid.fromString(pair[1]));
        }
        PartitionChangeBuilder builder = builder(given, partition).
            setElection(PartitionChangeBuilder.Election.valueOf(given.text("election"))).
            setDefaultDirProvider(defaults::get);
        if (given.has("target_isr")) builder.setTargetIsr(given.numbers("target_isr"));
        if (given.has("target_replicas")) builder.setTargetReplicas(given.numbers("target_replicas"));
        if (given.has("target_removing")) builder.setTargetRemoving(given.numbers("target_removing"));
        if (given.has("target_adding")) builder.setTargetAdding(given.numbers("target_adding"));
        if (given.has("target_recovering")) {
            builder.setTargetLeaderRecoveryState(recovery(given.flag("target_recovering")));
        }
        if (given.has("unclean_shutdown")) {
            builder.setUncleanShutdownReplicas(given.numbers("unclean_shutdown"));
        }
        if (given.has("directory")) {
            String[] pair = given.text("directory").split(":");
            builder.setDirectory(Integer.parseInt(pair[0]), Uuid.fromString(pair[1]));
        }
        Optional<ApiMessageAndVersion> built = builder.build();
        if (built.isEmpty()) return "none";
        PartitionChangeRecord record = (PartitionChangeRecord) built.get().message();
        StringBuilder text = new StringBuilder();
        add(text, "isr", record.isr());
        add(text, "leader", record.leader() == -2 ? null : record.leader());
        add(text, "replicas", record.replicas());
        add(text, "removing", record.removingReplicas());
        add(text, "adding", record.addingReplicas());
        byte recovery = record.leaderRecoveryState();
        add(text, "recovering", recovery == LeaderRecoveryState.NO_CHANGE ? null : recovery);
        add(text, "directories", record.directories());
        add(text, "elr", record.eligibleLeaderReplicas());
        add(text, "last_known_elr", record.lastKnownElr());
        PartitionRegistration merged = partition.merge(record);
        add(text, "then_leader", merged.leader);
        add(text, "then_leader_epoch", merged.leaderEpoch);
        add(text, "then_partition_epoch", merged.partitionEpoch);
        add(text, "then_isr", boxed(merged.isr));
        add(text, "then_directories", Arrays.asList(merged.directories));
        add(text, "then_recovering", merged.leaderRecoveryState.value());
        return text.toString();
    }

    static List<Integer> boxed(int[] values) {
        List<Integer> found = new ArrayList<>();
        for (int value : values) found.add(value);
        return Collections.unmodifiableList(found);
    }

    static Object proxy(Class<?> type, Map<String, Object> answers) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (self, method, arguments) -> answers.get(method.getName()));
    }

    /** An epoch cache of its own that writes to no disk. */
    static LeaderEpochFileCache epochCache() throws Exception {
        File folder = Files.createTempDirectory("epochs").toFile();
        File file = new File(folder, "leader-epoch-checkpoint");
        LeaderEpochCheckpointFile nowhere = new LeaderEpochCheckpointFile(file, new LogDirFailureChannel(1)) {
            @Override
            public void write(Collection<EpochEntry> epochs) {
            }

            @Override
            public void writeIfDirExists(Collection<EpochEntry> epochs) {
            }

            @Override
            public List<EpochEntry> read() {
                return List.of();
            }
        };
        file.deleteOnExit();
        folder.deleteOnExit();
        return new LeaderEpochFileCache(new TopicPartition("t", 0), nowhere,
            (Scheduler) proxy(Scheduler.class, Map.of()));
    }

    /** LeaderEpochFileCache: does what is asked step by step, then tells the entries. */
    static final class Epochs implements Question {
        private final LeaderEpochFileCache cache = epochCache();

        Epochs() throws Exception {
        }

        @Override
        public String answer(Case given) {
            cache.clearAndFlush();
            List<String> answers = new ArrayList<>();
            for (String step : given.words("steps")) {
                String[] parts = step.split(":");
                int first = Integer.parseInt(parts[1]);
                switch (parts[0]) {
                    case "assign": cache.assign(first, Long.parseLong(parts[2])); break;
                    case "end": cache.truncateFromEndAsyncFlush(first); break;
                    case "of": answers.add(String.valueOf(cache.epochForOffset(first).orElse(-1))); break;
                    default:
                        Map.Entry<Integer, Long> end =
                            cache.endOffsetFor(first, Long.parseLong(parts[2]));
                        answers.add(end.getKey() + ":" + end.getValue());
                }
            }
            cache.epochWithOffsets().forEach((epoch, start) -> answers.add(epoch + "=" + start));
            return list(answers);
        }
    }

    /** ProducerStateManager, used as UnifiedLog uses it: one batch after the other. */
    static final class Producers implements Question {
        private final File folder;
        private final Method findDuplicate;

        Producers() throws Exception {
            folder = Files.createTempDirectory("producers").toFile();
            folder.deleteOnExit();
            findDuplicate = Arrays.stream(ProducerStateEntry.class.getDeclaredMethods()).
                filter(method -> method.getName().equals("findDuplicateBatch")).findAny().get();
            findDuplicate.setAccessible(true);
        }

        @Override
        public String answer(Case given) throws Exception {
            ProducerStateManager manager = new ProducerStateManager(new TopicPartition("t", 0), folder,
                60000, new ProducerStateManagerConfig(60000, true), Time.SYSTEM);
            List<String> answers = new ArrayList<>();
            long offset = 100;
            for (String step : given.words("steps")) {
                String[] parts = step.split(":");
                if (parts[0].equals("forget")) {
                    manager.clearVerificationStateEntry(7);
                    continue;
                }
                short epoch = Short.parseShort(parts[1]);
                if (parts[0].equals("end")) {
                    answers.add(end(manager, epoch, offset, Short.parseShort(parts[2])));
                    continue;
                }
                int first = Integer.parseInt(parts[2]);
                if (parts[0].equals("verify")) {
                    verify(manager, first, epoch, parts[3].equals("1"));
                    continue;
                }
                int count = Integer.parseInt(parts[3]);
                boolean client = parts[0].equals("send");
                int last = (int) ((first + (long) count - 1) & Integer.MAX_VALUE);
                Optional<?> same = duplicate(manager, epoch, first, last);
                if (client && same.isPresent()) {
                    answers.add("duplicate:" + read(same.get(), "lastOffset"));
                    continue;
                }
                ProducerAppendInfo info = manager.prepareUpdate(7,
                    client ? AppendOrigin.CLIENT : AppendOrigin.REPLICATION);
                try {
                    info.appendDataBatch(epoch, first, last, 1L, new LogOffsetMetadata(offset),
                        offset + count - 1, parts[4].equals("1"));
                } catch (ApiException error) {
                    answers.add(error.getClass().getSimpleName());
                    continue;
                }
                manager.update(info);
                offset += count;
                answers.add("appended");
            }
            Optional<ProducerStateEntry> entry = manager.lastEntry(7);
            if (entry.isPresent()) {
                answers.add("epoch=" + entry.get().producerEpoch());
                answers.add("txn=" + entry.get().currentTxnFirstOffset().orElse(-1));
                for (Object batch : entry.get().batchMetadata()) {
                    answers.add(call(batch, "firstSeq") + ":" + read(batch, "lastSeq") + ":"
                        + read(batch, "lastOffset"));
                }
            }
            return list(answers);
        }

        private Optional<?> duplicate(ProducerStateManager manager, short epoch, int first, int last)
                throws Exception {
            Optional<ProducerStateEntry> entry = manager.lastEntry(7);
            if (entry.isEmpty()) return entry;
            Object batch = proxy(findDuplicate.getParameterTypes()[0],
                Map.of("producerEpoch", epoch, "baseSequence", first, "lastSequence", last));
            return (Optional<?>) findDuplicate.invoke(entry.get(), batch);
        }

        /** A commit marker; before 4.2, one says nothing of its transaction's version. */
        private static String end(ProducerStateManager manager, short epoch, long offset, short version)
                throws Exception {
            Method append = Arrays.stream(ProducerAppendInfo.class.getMethods()).
                filter(one -> one.getName().equals("appendEndTxnMarker")).findAny().get();
            Constructor<?> made = append.getParameterTypes()[0].getConstructors()[0];
            Object commit = Arrays.stream(made.getParameterTypes()[0].getEnumConstants()).
                filter(one -> one.toString().equals("COMMIT")).findAny().get();
            Object marker = made.newInstance(commit, 0);
            ProducerAppendInfo info = manager.prepareUpdate(7, AppendOrigin.COORDINATOR);
            try {
                if (append.getParameterCount() == 5) append.invoke(info, marker, epoch, offset, 1L, version);
                else append.invoke(info, marker, epoch, offset, 1L);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof ApiException)) throw error;
                return error.getCause().getClass().getSimpleName();
            }
            manager.update(info);
            return "ended";
        }

        /** Before 4.0, transactions v2 are unknown: there is one parameter less. */
        private static void verify(ProducerStateManager manager, int first, short epoch, boolean bumps)
                throws Exception {
            Method method = Arrays.stream(ProducerStateManager.class.getMethods()).
                filter(one -> one.getName().equals("maybeCreateVerificationStateEntry")).findAny().get();
            if (method.getParameterCount() == 4) method.invoke(manager, 7L, first, epoch, bumps);
            else method.invoke(manager, 7L, first, epoch);
        }

        /** A field in 3.9, the component of a record later. */
        private static Object read(Object of, String name) throws Exception {
            if (of.getClass().isRecord()) return call(of, name);
            return of.getClass().getField(name).get(of);
        }

        private static Object call(Object of, String name) throws Exception {
            Method method = of.getClass().getDeclaredMethod(name);
            method.setAccessible(true);
            return method.invoke(of);
        }
    }

}
