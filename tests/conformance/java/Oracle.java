import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntPredicate;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Answers from Kafka's own classes: reads one case a line ("key=value key=value"), writes one
 * answer a line. What differs between versions of Kafka is reached by reflection.
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
        Question question;
        switch (arguments[0]) {
            case "partition": question = Oracle::partitionChange; break;
            default: throw new IllegalArgumentException(arguments[0]);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintWriter out = new PrintWriter(System.out);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(question.answer(new Case(line)));
        }
        out.flush();
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
}
