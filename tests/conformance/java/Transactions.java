import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javassist.util.proxy.MethodHandler;
import javassist.util.proxy.ProxyFactory;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.CoordinatorLoadInProgressException;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnResult;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.Time;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/**
 * The transaction coordinator's classes. They are Scala's in one version and Java's in another, and
 * their methods got parameters, so that all of them are reached by reflection.
 */
final class Transactions {
    private static final String OLD = "kafka.coordinator.transaction.";
    private static final String NEW = "org.apache.kafka.coordinator.transaction.";
    private static final String UTILS = "org.apache.kafka.common.utils.";
    private static final Class<?> METADATA = moved("TransactionMetadata");
    private static final Class<?> TRANSIT = moved("TxnTransitMetadata");
    private static final Class<?> STATE = moved("TransactionState");
    private static final Class<?> VERSION =
        found("org.apache.kafka.server.common.TransactionVersion", "java.lang.Void");
    /** Before 4.0 a transaction has no next producer id and no version. */
    private static final boolean HAS_VERSION =
        Arrays.asList(constructor(TRANSIT).getParameterTypes()).contains(VERSION);
    private static final Class<?> EPOCH = found(UTILS + "internals.ProducerIdAndEpoch", UTILS + "ProducerIdAndEpoch");
    private static final String NO_STATE = "-1";

    private Transactions() {
    }

    static Class<?> moved(String name) {
        return found(NEW + name, OLD + name);
    }

    private static Class<?> found(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException error) {
                continue;
            }
        }
        throw new IllegalStateException(Arrays.toString(names));
    }

    static Constructor<?> constructor(Class<?> type) {
        return Arrays.stream(type.getConstructors()).
            max((one, other) -> one.getParameterCount() - other.getParameterCount()).get();
    }

    private static Object state(int id) throws Exception {
        for (String name : new String[] {STATE.getName(), STATE.getName() + "$"}) {
            for (Method method : Class.forName(name).getMethods()) {
                if (!method.getName().equals("fromId")) continue;
                boolean module = name.endsWith("$");
                Object self = module ? Class.forName(name).getField("MODULE$").get(null) : null;
                return method.invoke(self, (byte) id);
            }
        }
        throw new IllegalStateException(STATE.getName());
    }

    /** Return a value as a parameter of this type takes it. */
    private static Object as(Class<?> type, Object value) throws Exception {
        if (type == long.class) return ((Number) value).longValue();
        if (type == int.class) return ((Number) value).intValue();
        if (type == short.class) return ((Number) value).shortValue();
        if (type == STATE) return state(((Number) value).intValue());
        if (type == VERSION) {
            return VERSION.getMethod("fromFeatureLevel", short.class).invoke(null, ((Number) value).shortValue());
        }
        if (type == Option.class) return OptionConverters.toScala((Optional<?>) value);
        if (value instanceof Set && type.getName().startsWith("scala.")) {
            scala.collection.mutable.Set<?> set = CollectionConverters.asScala(new HashSet<>((Set<?>) value));
            return type == scala.collection.immutable.Set.class ? set.toSet() : set;
        }
        return value instanceof Set ? new HashSet<>((Set<?>) value) : value;
    }

    static Object[] arguments(Class<?>[] types, List<?> values) throws Exception {
        Object[] found = new Object[types.length];
        for (int at = 0; at < types.length; at++) found[at] = as(types[at], values.get(at));
        return found;
    }

    static Method method(Class<?> type, String name) {
        return Arrays.stream(type.getMethods()).
            filter(one -> one.getName().equals(name) && !one.isBridge()).findAny().get();
    }

    /** Call a method with as many of the values as it has parameters. */
    static Object call(Object of, String name, Object... values) throws Exception {
        Method method = method(of.getClass(), name);
        return method.invoke(of, arguments(method.getParameterTypes(), Arrays.asList(values)));
    }

    private static Field field(Class<?> type, String name) throws Exception {
        // Before 4.0 the producer id before was called the last one.
        List<String> names = name.equals("prevProducerId")
            ? List.of(name, "previousProducerId", "lastProducerId") : List.of(name);
        for (Field field : type.getDeclaredFields()) {
            if (names.contains(field.getName())) {
                field.setAccessible(true);
                return field;
            }
        }
        throw new NoSuchFieldException(name);
    }

    private static Object get(Object of, String name) throws Exception {
        return field(of.getClass(), name).get(of);
    }

    private static Optional<?> optional(Object value) {
        return value instanceof Option ? OptionConverters.toJava((Option<?>) value) : (Optional<?>) value;
    }

    private static int id(Object state) throws Exception {
        Method method = STATE.getMethod("id");
        method.setAccessible(true);
        return ((Number) method.invoke(state)).intValue();
    }

    private static String message(Throwable error) {
        Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
        return cause instanceof ApiException ? Errors.forException(cause).name() : cause.getClass().getSimpleName();
    }

    private static Set<TopicPartition> partitions(String text) {
        Set<TopicPartition> found = new HashSet<>();
        for (String word : text.split("\\+")) {
            if (!word.isEmpty()) found.add(new TopicPartition("t", Integer.parseInt(word)));
        }
        return found;
    }

    private static String text(Iterable<?> partitions) {
        TreeSet<Integer> numbers = new TreeSet<>();
        for (Object one : partitions) numbers.add(((TopicPartition) one).partition());
        StringBuilder text = new StringBuilder();
        for (int number : numbers) text.append(text.length() == 0 ? "" : "+").append(number);
        return text.toString();
    }

    /** The fields of metadata and of a change of it, in the order of the constructors. */
    static Map<String, Object> fields(Object of) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("id", get(of, "producerId"));
        found.put("prev", get(of, "prevProducerId"));
        if (HAS_VERSION) found.put("next", get(of, "nextProducerId"));
        found.put("epoch", get(of, "producerEpoch"));
        found.put("last", get(of, "lastProducerEpoch"));
        found.put("timeout", get(of, "txnTimeoutMs"));
        found.put("state", id(get(of, METADATA.isInstance(of) ? "state" : "txnState")));
        Object set = get(of, "topicPartitions");
        found.put("partitions", set instanceof scala.collection.Set
            ? CollectionConverters.asJava((scala.collection.Set<?>) set) : set);
        found.put("started", get(of, "txnStartTimestamp"));
        found.put("updated", get(of, "txnLastUpdateTimestamp"));
        if (HAS_VERSION) {
            Object version = get(of, "clientTransactionVersion");
            found.put("version", VERSION.getMethod("featureLevel").invoke(version));
        }
        return found;
    }

    private static String told(Object of) throws Exception {
        if (of == null) return "none";
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, Object> field : fields(of).entrySet()) {
            Object value = field.getValue();
            text.append(text.length() == 0 ? "" : " ").append(field.getKey()).append('=').
                append(value instanceof Collection ? text((Collection<?>) value) : value);
        }
        if (METADATA.isInstance(of)) {
            Optional<?> pending = optional(get(of, "pendingState"));
            text.append(" pending=").append(pending.isPresent() ? String.valueOf(id(pending.get())) : NO_STATE);
            text.append(" failed=").append((boolean) get(of, "hasFailedEpochFence") ? 1 : 0);
        }
        return text.toString();
    }

    /** Metadata as a case has it: its fields, the pending state, whether a fence has failed. */
    private static Object metadata(String[] words) throws Exception {
        List<Object> values = new ArrayList<>(List.of("t"));
        for (int at = 0; at < 11; at++) {
            if (!HAS_VERSION && (at == 2 || at == 10)) continue;
            values.add(at == 7 ? partitions(words[at]) : (Object) Long.valueOf(words[at]));
        }
        Constructor<?> made = constructor(METADATA);
        made.setAccessible(true);
        Object metadata = made.newInstance(arguments(made.getParameterTypes(), values));
        if (!words[11].equals(NO_STATE)) setPending(metadata, Optional.of(state(Integer.parseInt(words[11]))));
        field(METADATA, "hasFailedEpochFence").set(metadata, words[12].equals("1"));
        return metadata;
    }

    /** Metadata of a transaction whose commit is in the log, and whose markers are due. */
    static Object prepared(Collection<Integer> partitions) throws Exception {
        StringBuilder text = new StringBuilder();
        for (int number : partitions) text.append(text.length() == 0 ? "" : "+").append(number);
        return metadata(("7:7:-1:1:0:1000:2:" + text + ":50:60:0:-1:0").split(":"));
    }

    static Set<Integer> numbers(Object partitions) {
        Set<Integer> found = new TreeSet<>();
        for (Object one : (Collection<?>) partitions) found.add(((TopicPartition) one).partition());
        return found;
    }

    private static void setPending(Object metadata, Optional<?> state) throws Exception {
        Field field = field(METADATA, "pendingState");
        field.set(metadata, as(field.getType(), state));
    }

    /** TransactionCoordinator, with a transaction log that answers at once, and as it is told. */
    static final class Requests implements Oracle.Question {
        private final Object coordinator;
        private final Constructor<?> withEpoch = constructor(moved("CoordinatorEpochAndTxnMetadata"));
        private Object metadata;
        private Object completing;
        private Errors log;
        private int version;
        private int timedOut;
        private int step;
        private boolean ids;

        Requests() throws Exception {
            Class<?> type = found(OLD + "TransactionCoordinator");
            Constructor<?> made = constructor(type);
            List<Object> values = new ArrayList<>();
            for (Class<?> part : made.getParameterTypes()) {
                switch (part.getSimpleName()) {
                    case "Function0": values.add((scala.Function0<Object>) this::idManager); break;
                    case "TransactionStateManager": values.add(stateManager(part)); break;
                    case "TransactionMarkerChannelManager":
                        values.add(stub(part, (self, method, proceed, arguments) -> {
                            if (method.getName().equals("addTxnMarkersToSend")) completing = arguments[3];
                            return null;
                        }));
                        break;
                    case "Time":
                        values.add(Proxy.newProxyInstance(part.getClassLoader(), new Class<?>[] {Time.class},
                            (self, method, arguments) -> method.getName().equals("milliseconds") ? now() : null));
                        break;
                    case "LogContext": values.add(part.getConstructor().newInstance()); break;
                    default: values.add(null);
                }
            }
            coordinator = made.newInstance(values.toArray());
        }

        private long now() {
            return 1000 + step;
        }

        private static Object stub(Class<?> type, MethodHandler handler) throws Exception {
            ProxyFactory factory = new ProxyFactory();
            factory.setSuperclass(type);
            factory.setFilter(method -> !method.getName().equals("finalize"));
            Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
            unsafe.setAccessible(true);
            Object made = unsafe.get(null).getClass().getMethod("allocateInstance", Class.class).
                invoke(unsafe.get(null), factory.createClass());
            ((javassist.util.proxy.Proxy) made).setHandler(handler);
            return made;
        }

        private Object idManager() {
            Class<?> type = moved("ProducerIdManager");
            return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, none) -> {
                if (!method.getName().equals("generateProducerId")) return null;
                Exception error = ids ? null : new CoordinatorLoadInProgressException("no ids");
                if (method.getReturnType() == scala.util.Try.class) {
                    return ids ? new scala.util.Success<>((Object) (9000L + step)) : new scala.util.Failure<>(error);
                }
                if (!ids) throw error;
                return 9000L + step;
            });
        }

        private Object stateManager(Class<?> type) throws Exception {
            Constructor<?> made = constructor(moved("TransactionConfig"));
            List<Object> settings = new ArrayList<>();
            for (Class<?> part : made.getParameterTypes()) {
                settings.add(part == boolean.class ? (Object) false : as(part, 900000));
            }
            Object manager = stub(type, (self, method, proceed, arguments) -> {
                switch (method.getName()) {
                    case "getTransactionState":
                        return scala.util.Right.apply(Option.apply(metadata == null ? null : known()));
                    case "putTransactionStateIfNotExists":
                        metadata = arguments[0];
                        return scala.util.Right.apply(known());
                    case "appendTransactionToLog":
                        append(arguments[2], (scala.Function1<Object, ?>) arguments[3]);
                        return null;
                    case "transactionVersionLevel": return as(VERSION, version);
                    case "timedOutTransactions": return timedOut();
                    case "partitionFor": return 0;
                    default: return proceed.invoke(self, arguments);
                }
            });
            field(type, "config").set(manager, made.newInstance(settings.toArray()));
            return manager;
        }

        private Object known() throws Exception {
            return withEpoch.newInstance(0, metadata);
        }

        private Object timedOut() throws Exception {
            Object one = constructor(moved("TransactionalIdAndProducerIdEpoch")).
                newInstance("t", (long) timedOut, (short) 0);
            return CollectionConverters.asScala(List.of(one)).toList();
        }

        /** As TransactionStateManager.appendTransactionToLog: completed, or no longer pending. */
        private void append(Object transit, scala.Function1<Object, ?> answered) throws Throwable {
            if (log == Errors.NONE) {
                try {
                    call(metadata, "completeTransitionTo", transit);
                } catch (InvocationTargetException error) {
                    throw error.getCause();
                }
            } else {
                setPending(metadata, Optional.empty());
            }
            answered.apply(log);
        }

        @Override
        public String answer(Oracle.Case given) throws Exception {
            String[] words = given.text("metadata").split(":");
            metadata = words.length == 1 ? null : metadata(words);
            completing = null;
            version = given.number("version");
            step = 0;
            List<String> answers = new ArrayList<>();
            for (String one : given.words("steps")) {
                step++;
                try {
                    answers.add(handled(one.split(":", -1)));
                } catch (InvocationTargetException error) {
                    answers.add(message(error));
                }
            }
            answers.add("then " + (completing == null ? "nothing" : told(completing)));
            answers.add(told(metadata));
            return String.join(" | ", answers);
        }

        private String handled(String[] words) throws Exception {
            ids = words[1].equals("1");
            log = Errors.valueOf(words[2]);
            List<String> answer = new ArrayList<>();
            scala.Function1<Object, Object> alone = error -> {
                answer.add(shown(error));
                return null;
            };
            Object told = alone;
            if (HAS_VERSION) {
                told = (scala.Function3<Object, Object, Object, Object>) (error, id, epoch) -> {
                    answer.add(shown(error) + ":" + id + ":" + epoch);
                    return null;
                };
            }
            switch (words[0]) {
                case "init":
                    Optional<?> expected = words[4].equals("none") ? Optional.empty()
                        : Optional.of(constructor(EPOCH).
                            newInstance(Long.parseLong(words[4]), Short.parseShort(words[5])));
                    request("handleInitProducerId", Integer.valueOf(words[3]), expected, alone);
                    break;
                case "add":
                    request("handleAddPartitionsToTransaction", Long.valueOf(words[3]), Short.valueOf(words[4]),
                        partitions(words[5]), Short.valueOf(words[6]), alone);
                    break;
                case "verify":
                    request("handleVerifyPartitionsInTransaction", Long.valueOf(words[3]), Short.valueOf(words[4]),
                        partitions(words[5]), alone);
                    break;
                case "end":
                    TransactionResult result = TransactionResult.forId(words[5].equals("1"));
                    request("handleEndTransaction", Long.valueOf(words[3]), Short.valueOf(words[4]), result,
                        Short.valueOf(words[6]), told);
                    break;
                case "expire":
                    timedOut = Integer.parseInt(words[3]);
                    Object callback = told;
                    call(coordinator, "abortTimedOutTransactions", (scala.Function1<Object, Object>) one -> callback);
                    break;
                case "written":
                    if (completing == null) return "nothing";
                    call(metadata, "completeTransitionTo", completing);
                    completing = null;
                    answer.add("completed");
                    break;
                default: throw new IllegalArgumentException(words[0]);
            }
            return answer.isEmpty() ? "silent" : String.join(";", answer);
        }

        /** Call a handler: each parameter gets the value of its kind, a flag is off. */
        private void request(String name, Object... values) throws Exception {
            Method method = method(coordinator.getClass(), name);
            List<Object> left = new ArrayList<>(Arrays.asList(values));
            List<Object> given = new ArrayList<>();
            for (Class<?> type : method.getParameterTypes()) {
                Object value = type == String.class ? "t" : type == boolean.class ? (Object) false : null;
                for (Object one : left) {
                    if (value == null && fits(type, one)) value = one;
                }
                left.remove(value);
                given.add(value);
            }
            method.invoke(coordinator, arguments(method.getParameterTypes(), given));
        }

        private static boolean fits(Class<?> type, Object value) {
            if (type == long.class) return value instanceof Long;
            if (type == int.class) return value instanceof Integer;
            if (type == short.class || type == VERSION) return value instanceof Short;
            if (type == Option.class) return value instanceof Optional;
            if (type.getName().endsWith("Set")) return value instanceof Set;
            return type.isInstance(value);
        }

        private static String shown(Object answer) {
            try {
                if (answer instanceof Errors) return ((Errors) answer).name();
                if (answer instanceof AddPartitionsToTxnResult) return verified((AddPartitionsToTxnResult) answer);
                return ((Errors) get(answer, "error")).name() + ":" + get(answer, "producerId") + ":"
                    + get(answer, "producerEpoch");
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private static String verified(AddPartitionsToTxnResult result) {
            Map<Integer, String> errors = new TreeMap<>();
            result.topicResults().forEach(topic -> topic.resultsByPartition().forEach(one ->
                errors.put(one.partitionIndex(), Errors.forCode(one.partitionErrorCode()).name())));
            return errors.toString().replace(" ", "");
        }
    }
}
