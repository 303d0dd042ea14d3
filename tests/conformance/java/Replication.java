import java.io.File;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.FetchSessionHandler;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterPartitionRequestData.BrokerState;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderPartition;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData.OffsetForLeaderTopic;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.EpochEndOffset;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResult;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.OffsetsForLeaderEpochRequest;
import org.apache.kafka.common.requests.OffsetsForLeaderEpochResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import scala.Function0;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A replica of Kafka's own classes: its partition, its log on a disk in memory, and for a follower the
 * thread that fetches. Controller, network and clock are fakes.
 */
final class Replication {
    private static final TopicPartition TP = new TopicPartition("t", 0);
    private static final Uuid TOPIC = new Uuid(1, 2);
    private static final List<Integer> REPLICAS = List.of(0, 1, 2);
    private static final int LAG = 100;
    private static final String[] STORAGE = {"org.apache.kafka.storage.internals.log.", "kafka.log."};
    private static final Class<?> LOG = Fakes.found(STORAGE[0] + "UnifiedLog", STORAGE[1] + "UnifiedLog");
    private static final Class<?> STATS = Fakes.found(
        "org.apache.kafka.storage.log.metrics.BrokerTopicStats", "kafka.server.BrokerTopicStats");
    private static final Class<?> CACHE = Fakes.found(
        "org.apache.kafka.metadata.KRaftMetadataCache", "kafka.server.metadata.KRaftMetadataCache");
    private static final Class<?> MEMORY_RECORDS = record("MemoryRecords");
    private static final Class<?> SIMPLE_RECORD = record("SimpleRecord");
    private static final Class<?> FETCH_PARAMS = fetching("FetchParams");
    private static final Object LOG_END = fetching("FetchIsolation").getEnumConstants()[0];
    private static final Class<?> STATE = stateOfMakeLeader();
    private static final Method WITH_RECORDS = withRecords();

    private final int id;
    private final long[] clock;
    private final Object log;
    private final LeaderEpochFileCache epochs;
    private final Object time;
    private final Object cache;
    private final Object stats;
    private final Object logManager;
    private final Object delayed;
    private final Object alterPartition;
    private final Map<Integer, LogConfig> configs = new HashMap<>();
    /** Requests for an ISR that the controller has not answered: the ISR asked for, and its answer. */
    private final List<Object[]> requests = new ArrayList<>();
    private Object partition;

    Replication(int id, long[] clock, Path folder) throws Exception {
        this.id = id;
        this.clock = clock;
        time = Fakes.answering(Time.class, (name, none) ->
            name.equals("milliseconds") || name.equals("hiResClockMs") ? clock[0] : null);
        cache = Fakes.make(CACHE, id, (Supplier<Object>) () -> null);
        stats = Fakes.make(STATS);
        epochs = Oracle.epochCache();
        File directory = Files.createDirectories(folder.resolve(id + "/t-0")).toFile();
        log = Fakes.call(LOG, LOG.getName().startsWith("kafka.") ? "apply" : "create", directory, config(1), 0L,
            0L, stats, time, 60000, new ProducerStateManagerConfig(60000, true), 60000,
            new LogDirFailureChannel(1), true, new ConcurrentHashMap<>());
        Fakes.set(log, "leaderEpochCache", epochs);
        logManager = Fakes.stub(part("LogManager"), (self, method, proceed, arguments) -> {
            if (!method.getName().equals("truncateTo")) throw new IllegalStateException(method.toString());
            Fakes.call(log, "truncateTo", Fakes.map(arguments[0]).get(TP));
            return null;
        });
        delayed = Fakes.answering(part("DelayedOperations"), (name, none) -> null);
        alterPartition = Fakes.answering(part("AlterPartitionManager"), (name, arguments) -> {
            Object[] request = {arguments[1], new CompletableFuture<>()};
            requests.add(request);
            return request[1];
        });
    }

    /** The class of the partition's parameter of this name. */
    private static Class<?> part(String name) throws Exception {
        return Arrays.stream(Class.forName("kafka.cluster.Partition").getConstructors()[0].getParameterTypes()).
            filter(type -> type.getSimpleName().equals(name)).findAny().get();
    }

    private static Class<?> stateOfMakeLeader() {
        return Arrays.stream(Fakes.found("kafka.cluster.Partition").getMethods()).
            filter(method -> method.getName().equals("makeLeader")).findAny().get().getParameterTypes()[0];
    }

    private static Class<?> fetching(String name) {
        return Fakes.found("org.apache.kafka.server.storage.log." + name, STORAGE[0] + name);
    }

    private static Class<?> record(String name) {
        String folder = "org.apache.kafka.common.record.";
        return Fakes.found(folder + "internal." + name, folder + name);
    }

    private static Method withRecords() {
        try {
            return MEMORY_RECORDS.getMethod("withRecords", long.class, Compression.class, int.class,
                SIMPLE_RECORD.arrayType());
        } catch (NoSuchMethodException error) {
            throw new IllegalStateException(error);
        }
    }

    private LogConfig config(int minIsr) {
        return configs.computeIfAbsent(minIsr, size -> new LogConfig(Map.of(
            "min.insync.replicas", String.valueOf(size), "segment.index.bytes", "4096")));
    }

    /** A folder in memory if there is one, removed at the end. */
    static Path folder() throws Exception {
        Path memory = Path.of("/dev/shm");
        Path folder = Files.isWritable(memory) ? Files.createTempDirectory(memory, "replicas")
            : Files.createTempDirectory("replicas");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try (Stream<Path> all = Files.walk(folder)) {
                all.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }));
        return folder;
    }

    /** A new process that finds an empty log. */
    void begin(int minIsr) throws Exception {
        Fakes.call(log, "truncateTo", 0L);
        epochs.clearAndFlush();
        Fakes.call(log, "updateConfig", config(minIsr));
        restart();
    }

    /** A new process that finds the log of the old one. */
    void restart() throws Exception {
        requests.clear();
        Function0<Object> brokerEpoch = () -> 100L;
        List<Object> parts = new ArrayList<>(List.of(TP, (long) LAG, id, brokerEpoch, time, delayed, cache,
            logManager, alterPartition, Option.apply(TOPIC)));
        Class<?> type = Class.forName("kafka.cluster.Partition");
        boolean old = Arrays.asList(type.getConstructors()[0].getParameterTypes()).contains(MetadataVersion.class);
        if (old) parts.add(MetadataVersion.latestProduction());
        partition = Fakes.make(type, parts.toArray());
        Fakes.call(partition, "setLog", log, false);
    }

    static Object records(long offset, int epoch) throws Exception {
        Object records = Array.newInstance(SIMPLE_RECORD, 1);
        Array.set(records, 0, SIMPLE_RECORD.getConstructor(byte[].class).newInstance((Object) new byte[] {1}));
        return WITH_RECORDS.invoke(null, offset, Compression.NONE, epoch, records);
    }

    /** Adds a record of an epoch, as a follower does. */
    void copy(int epoch) throws Exception {
        Fakes.call(log, "appendAsFollower", records(end(), epoch), Integer.MAX_VALUE);
    }

    long end() throws Exception {
        return (long) Fakes.call(log, "logEndOffset");
    }

    long highWatermark() throws Exception {
        return (long) Fakes.call(log, "highWatermark");
    }

    boolean leads() throws Exception {
        return (boolean) Fakes.call(partition, "isLeader");
    }

    /** Tells of leader and ISR: `makeLeader` or `makeFollower`. */
    boolean learn(int leader, int leaderEpoch, int partitionEpoch, int isr) throws Exception {
        String name = leader == id ? "makeLeader" : "makeFollower";
        Object state;
        if (STATE == PartitionRegistration.class) {
            state = new PartitionRegistration.Builder().setReplicas(new int[] {0, 1, 2}).
                setDirectories(new Uuid[] {Uuid.ONE_UUID, Uuid.ONE_UUID, Uuid.ONE_UUID}).
                setIsr(members(isr).stream().mapToInt(Integer::intValue).toArray()).setLeader(leader).
                setLeaderRecoveryState(LeaderRecoveryState.RECOVERED).setLeaderEpoch(leaderEpoch).
                setPartitionEpoch(partitionEpoch).build();
        } else {
            state = Fakes.make(STATE);
            Fakes.call(state, "setLeader", leader);
            Fakes.call(state, "setLeaderEpoch", leaderEpoch);
            Fakes.call(state, "setPartitionEpoch", partitionEpoch);
            Fakes.call(state, "setIsr", members(isr));
            Fakes.call(state, "setReplicas", REPLICAS);
        }
        return (boolean) Fakes.call(partition, name, state);
    }

    private static List<Integer> members(int mask) {
        return REPLICAS.stream().filter(replica -> (mask >> replica & 1) == 1).toList();
    }

    private static int mask(Iterable<?> members) {
        int mask = 0;
        for (Object member : members) mask |= 1 << ((Number) member).intValue();
        return mask;
    }

    /** Kafka's answer to a follower's fetch; the partition notes what it tells. */
    Object fetch(int follower, long brokerEpoch, FetchRequest.PartitionData asked) throws Exception {
        Object params = Fakes.make(FETCH_PARAMS, follower, brokerEpoch, 0L, 1, 1 << 20, LOG_END);
        return Fakes.call(partition, "fetchRecords", params, asked, clock[0], 1 << 20, true, true);
    }

    private static FetchRequest.PartitionData asks(long offset, int leaderEpoch) {
        return new FetchRequest.PartitionData(TOPIC, offset, 0, 1 << 20, Optional.of(leaderEpoch), Optional.empty());
    }

    /** What a leader or follower shows of itself. */
    private String shown() throws Exception {
        if (!leads()) return "follows:" + end() + ":" + highWatermark();
        Object state = Fakes.call(partition, "partitionState");
        int isr = mask(Fakes.set(Fakes.call(state, "isr")));
        int maximal = mask(Fakes.set(Fakes.call(state, "maximalIsr")));
        StringBuilder text = new StringBuilder("leads:" + end() + ":" + highWatermark() + ":" + isr + ":" + maximal);
        for (int replica : members(maximal & ~1)) {
            Object known = Fakes.optional(Fakes.call(partition, "getReplica", replica)).get();
            text.append(':').append(Fakes.call(Fakes.call(known, "stateSnapshot"), "logEndOffset"));
        }
        return text.toString();
    }

    /** The history of one replica: step by step, with what it shows after each. */
    static final class Lives implements Oracle.Question {
        private final long[] clock = {1000};
        private final Replication own = new Replication(0, clock, folder());
        private final Map<String, MetadataImage> images = new HashMap<>();
        private final Map<Integer, Object> registered = new HashMap<>();
        private final Object controller = eligibility();
        private int leader;
        private int leaderEpoch;
        private int partitionEpoch;
        private int isr;
        private int fenced;
        private int stopping;
        private int restarted;
        private final long[] brokerEpochs = new long[3];
        private final Object requestLocal = Fakes.call(Fakes.found(
            "org.apache.kafka.server.common.RequestLocal", "kafka.server.RequestLocal"), "withThreadConfinedCaching");

        Lives() throws Exception {
        }

        /** The controller's own check of new members, with the brokers that `registered` has. */
        private Object eligibility() throws Exception {
            String controllers = "org.apache.kafka.controller.";
            Object brokers = Fakes.answering(Class.forName(controllers + "ClusterControlManager"), (name, broker) ->
                name.equals("registration") ? registered.get(broker[0]) : null);
            Object made = Fakes.allocate(Class.forName(controllers + "ReplicationControlManager"));
            Fakes.set(made, "clusterControl", brokers);
            return made;
        }

        @Override
        public String answer(Oracle.Case given) throws Exception {
            leader = 0;
            leaderEpoch = 0;
            partitionEpoch = 1;
            isr = 7;
            fenced = 0;
            stopping = 0;
            restarted = 0;
            Arrays.fill(brokerEpochs, 100);
            own.begin(given.number("min_isr"));
            register();
            List<String> answers = new ArrayList<>();
            for (String step : given.words("steps")) {
                clock[0] += LAG + 1;  // whoever is not caught up lags
                answers.add(taken(step.split(":")) + "/" + own.shown());
            }
            return Oracle.list(answers);
        }

        private String taken(String[] words) throws Exception {
            int first = words.length > 1 ? Integer.parseInt(words[1]) : 0;
            switch (words[0]) {
                case "elect": return elect(first, Integer.parseInt(words[2]));
                case "fence": fenced |= 1 << first; return without(first);
                case "stop": stopping |= 1 << first; return without(first);
                case "restart": return restart(first);
                case "alive":
                    fenced &= ~(1 << first);
                    stopping &= ~(1 << first);
                    register();
                    return "";
                case "learn": return learn();
                case "append": return append(first);
                case "copy":
                    if (!own.leads()) own.copy(leaderEpoch);
                    return "";
                case "cut":
                    if (!own.leads()) Fakes.call(own.partition, "truncateTo", Math.min((long) first, own.end()), false);
                    return "";
                case "fetch": return fetch(first, Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                case "shrink": Fakes.call(own.partition, "maybeShrinkIsr"); return "";
                case "ack": return acked(first);
                default: return answered(words[0].equals("answer"));
            }
        }

        private void register() throws Exception {
            StringBuilder key = new StringBuilder();
            for (int broker : REPLICAS) {
                registered.put(broker, new BrokerRegistration.Builder().setId(broker).setEpoch(brokerEpochs[broker]).
                    setIncarnationId(TOPIC).setListeners(Map.of()).setSupportedFeatures(Map.of()).
                    setFenced((fenced >> broker & 1) == 1).setInControlledShutdown((stopping >> broker & 1) == 1).
                    build());
                key.append(brokerEpochs[broker]).append(':');
            }
            MetadataImage image = images.computeIfAbsent(key.append(fenced).append(':').append(stopping).toString(),
                known -> image());
            Fakes.call(own.cache, "setImage", image);
        }

        private MetadataImage image() {
            MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
            for (int broker : REPLICAS) {
                delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setBrokerEpoch(brokerEpochs[broker]).
                    setIncarnationId(TOPIC).setFenced((fenced >> broker & 1) == 1).
                    setInControlledShutdown((stopping >> broker & 1) == 1));
            }
            return delta.apply(MetadataProvenance.EMPTY);
        }

        private String elect(int elected, int members) {
            int inactive = fenced | stopping;
            leader = elected >= 0 && (inactive >> elected & 1) == 1 ? -1 : elected;
            isr = members & ~(inactive | restarted);
            leaderEpoch++;
            partitionEpoch++;
            return "";
        }

        private String without(int broker) throws Exception {
            register();
            if ((isr >> broker & 1) == 1) {
                isr &= ~(1 << broker);
                partitionEpoch++;
            }
            return "";
        }

        private String restart(int broker) throws Exception {
            if (broker == own.id) {
                own.restart();
                return "";
            }
            brokerEpochs[broker]++;
            restarted |= 1 << broker;
            fenced &= ~(1 << broker);
            stopping &= ~(1 << broker);
            return without(broker);
        }

        private String learn() throws Exception {
            int known = (int) Fakes.call(own.partition, "getPartitionEpoch");
            if (known == partitionEpoch) return "";
            own.requests.clear();
            return own.learn(leader, leaderEpoch, partitionEpoch, isr) ? "anew" : "same";
        }

        private String append(int acks) throws Exception {
            try {
                Fakes.call(own.partition, "appendRecordsToLeader", records(0, -1), AppendOrigin.CLIENT, acks,
                    requestLocal, VerificationGuard.SENTINEL);
                return "appended";
            } catch (ApiException error) {
                return Errors.forException(error).name();
            }
        }

        private String fetch(int follower, int offset, int newer) throws Exception {
            FetchRequest.PartitionData asked = asks(Math.min(offset, own.end()),
                (int) Fakes.call(own.partition, "getLeaderEpoch") + newer);
            try {
                own.fetch(follower, brokerEpochs[follower], asked);
                restarted &= ~(1 << follower);
                return "fetched";
            } catch (ApiException error) {
                return "refused";
            }
        }

        private String acked(int offset) throws Exception {
            Object answer = Fakes.call(own.partition, "checkEnoughReplicasReachOffset", offset + 1L);
            scala.Tuple2<?, ?> both = (scala.Tuple2<?, ?>) answer;
            return both._1() + ":" + ((Errors) both._2()).name();
        }

        private String answered(boolean arrives) throws Exception {
            if (own.requests.isEmpty()) return "";
            Object asked = own.requests.get(0)[0];
            @SuppressWarnings("unchecked")
            CompletableFuture<Object> reply = (CompletableFuture<Object>) own.requests.get(0)[1];
            boolean current = leader == 0 && (int) Fakes.call(asked, "leaderEpoch") == leaderEpoch
                && (int) Fakes.call(asked, "partitionEpoch") == partitionEpoch;
            Object states = Fakes.call(asked, "isrWithBrokerEpoch");
            List<BrokerState> members = new ArrayList<>();
            for (Object state : states instanceof List ? (List<?>) states
                : CollectionConverters.asJava((scala.collection.Seq<?>) states)) members.add((BrokerState) state);
            if (!current) {
                own.requests.remove(0);
                reply.completeExceptionally(Errors.INVALID_UPDATE_VERSION.exception());
                return "stale";
            }
            List<?> ineligible = (List<?>) Fakes.call(controller, "ineligibleReplicasForIsr", members);
            if (!ineligible.isEmpty()) {
                if (!arrives) return "";
                own.requests.remove(0);
                reply.completeExceptionally(Errors.INELIGIBLE_REPLICA.exception());
                return "refused";
            }
            own.requests.remove(0);
            isr = mask(members.stream().map(BrokerState::brokerId).toList());
            partitionEpoch++;
            if (arrives) reply.complete(Fakes.call(asked, "withPartitionEpoch", partitionEpoch));
            return "applied";
        }
    }

    /** A follower's rounds of truncation: its log end at each request, and its log in the end. */
    static final class Rounds implements Oracle.Question {
        private final long[] clock = {1000};
        private final Path folder = folder();
        private final Replication leader = new Replication(0, clock, folder);
        private final Replication follower = new Replication(1, clock, folder);
        private final List<Object> ends = new ArrayList<>();
        private final Object endPoint = Fakes.make(Fakes.found(
            "org.apache.kafka.server.network.BrokerEndPoint", "kafka.cluster.BrokerEndPoint"), 0, "", 0);
        private final Object logDirs = Fakes.answering(
            Class.forName("kafka.server.ReplicaAlterLogDirsManager"), (name, none) -> null);
        private final Object manager = Fakes.stub(Class.forName("kafka.server.ReplicaManager"),
            (self, method, proceed, arguments) -> managed(method));
        private final Map<MetadataVersion, Object> threads = new HashMap<>();
        private boolean agreed;
        private final Optional<MetadataVersion> askingFirst = Arrays.stream(MetadataVersion.values()).
            filter(version -> version.name().equals("IBP_2_6_IV0")).findAny();

        Rounds() throws Exception {
        }

        private Object managed(Method method) throws Exception {
            switch (method.getName()) {
                case "localLogOrException": return follower.log;
                case "getPartitionOrException": return follower.partition;
                case "brokerTopicStats": return follower.stats;
                case "replicaAlterLogDirsManager": return logDirs;
                case "completeDelayedFetchRequests": return null;
                default: throw new IllegalStateException(method.toString());
            }
        }

        /** The thread that fetches as of a protocol: before 2.7 it asks first where to truncate. */
        private Object thread(MetadataVersion version) throws Exception {
            if (threads.containsKey(version)) return threads.get(version);
            Object config = Fakes.make(Class.forName("kafka.server.KafkaConfig"), Map.of("node.id", "1", "broker.id", "1",
                "process.roles", "broker", "controller.quorum.voters", "9@localhost:9",
                "controller.listener.names", "CONTROLLER", "log.dirs", folder.toString(),
                "replica.fetch.backoff.ms", "0"), false);
            Class<?> logContext = Fakes.found("org.apache.kafka.common.utils.internals.LogContext",
                "org.apache.kafka.common.utils.LogContext");
            Object network = Fakes.answering(Class.forName("kafka.server.BlockingSend"), (name, arguments) -> {
                try {
                    return name.equals("brokerEndPoint") ? endPoint
                        : response((AbstractRequest.Builder<?>) arguments[0]);
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            Function0<MetadataVersion> versions = () -> version;
            Function0<Object> brokerEpoch = () -> 100L;
            Object remote = Fakes.make(Class.forName("kafka.server.RemoteLeaderEndPoint"), network,
                Fakes.make(FetchSessionHandler.class, Fakes.make(logContext), 0), config, manager, versions,
                brokerEpoch);
            Class<?> type = Class.forName("kafka.server.ReplicaFetcherThread");
            List<Object> parts = new ArrayList<>(List.of("fetcher", remote, config,
                Fakes.make(Class.forName("kafka.server.FailedPartitions")), manager));
            boolean versioned = Arrays.asList(type.getConstructors()[0].getParameterTypes()).contains(Function0.class);
            if (versioned) parts.add(versions);
            threads.put(version, Fakes.make(type, parts.toArray()));
            return threads.get(version);
        }

        @Override
        public String answer(Oracle.Case given) throws Exception {
            int epoch = given.number("epoch");
            for (Replication replica : List.of(leader, follower)) {
                replica.begin(1);
                for (int of : given.array(replica == leader ? "leader" : "follower")) replica.copy(of);
                replica.learn(0, epoch, 1, 1);
            }
            Fakes.call(follower.log, "maybeUpdateHighWatermark", (long) given.number("high_watermark"));
            boolean asks = given.flag("first") && askingFirst.isPresent();
            Object thread = thread(asks ? askingFirst.get() : MetadataVersion.latestProduction());
            Fakes.call(thread, "removeAllPartitions");
            long from = !asks && follower.end() > 0 ? follower.end() : follower.highWatermark();
            Object state = Fakes.make(Class.forName("kafka.server.InitialFetchState"), Option.apply(TOPIC), endPoint,
                epoch, from);
            Fakes.call(thread, "addPartitions", CollectionConverters.asScala(new HashMap<>(Map.of(TP, state))));
            ends.clear();
            agreed = false;
            for (int round = 0; !agreed; round++) {
                if (round > 20) throw new IllegalStateException("no end: " + ends);
                Fakes.call(thread, "doWork");
            }
            return Oracle.list(ends);
        }

        private ClientResponse response(AbstractRequest.Builder<?> asked) throws Exception {
            if (ends.isEmpty() || !ends.get(ends.size() - 1).equals(follower.end())) ends.add(follower.end());
            AbstractResponse body = asked instanceof FetchRequest.Builder
                ? fetched(((FetchRequest.Builder) asked).fetchData().get(TP))
                : epochEnd(((OffsetsForLeaderEpochRequest.Builder) asked).build(asked.latestAllowedVersion()));
            RequestHeader header = new RequestHeader(asked.apiKey(), asked.latestAllowedVersion(), "", 0);
            return new ClientResponse(header, null, "", 0, 0, false, null, null, body);
        }

        private AbstractResponse fetched(FetchRequest.PartitionData asked) throws Exception {
            FetchResponseData.PartitionData data = new FetchResponseData.PartitionData().setPartitionIndex(0);
            try {
                Object read = leader.fetch(1, 100, asked);
                Optional<?> diverging = Fakes.optional(Fakes.read(read, "divergingEpoch"));
                agreed = diverging.isEmpty();
                if (!agreed) {
                    data.setDivergingEpoch((FetchResponseData.EpochEndOffset) diverging.get());
                }
                data.setHighWatermark((long) Fakes.read(read, "highWatermark")).setLogStartOffset(0);
                Fakes.call(data, "setRecords", Fakes.read(Fakes.read(read, "fetchedData"), "records"));
            } catch (ApiException error) {
                data.setErrorCode(Errors.forException(error).code());
            }
            LinkedHashMap<TopicIdPartition, FetchResponseData.PartitionData> all = new LinkedHashMap<>();
            all.put(new TopicIdPartition(TOPIC, TP), data);
            return (AbstractResponse) Fakes.call(Class.forName("org.apache.kafka.common.requests.FetchResponse"),
                "of", Errors.NONE, 0, 0, all, List.<Node>of());
        }

        private AbstractResponse epochEnd(OffsetsForLeaderEpochRequest request) throws Exception {
            OffsetForLeaderTopic topic = request.data().topics().iterator().next();
            OffsetForLeaderPartition asked = topic.partitions().get(0);
            EpochEndOffset end = (EpochEndOffset) Fakes.call(leader.partition, "lastOffsetForLeaderEpoch",
                Optional.of(asked.currentLeaderEpoch()), asked.leaderEpoch(), true);
            OffsetForLeaderEpochResponseData data = new OffsetForLeaderEpochResponseData();
            data.topics().add(new OffsetForLeaderTopicResult().setTopic("t").setPartitions(List.of(end)));
            return new OffsetsForLeaderEpochResponse(data);
        }
    }
}
