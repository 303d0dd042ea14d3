import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import javassist.util.proxy.ProxyFactory;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord.BrokerEndpoint;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** TransactionMarkerChannelManager with KRaftMetadataCache: what becomes of a transaction's markers. */
final class Markers implements Oracle.Question {
    private static final int REACHED = 1;
    private static final int UNREACHABLE = 2;
    private static final int NOBODY = -1;

    private final Object cache = Fakes.make(
        Fakes.found("org.apache.kafka.metadata.KRaftMetadataCache", "kafka.server.metadata.KRaftMetadataCache"),
        REACHED, (Supplier<Object>) () -> null);
    private final Set<Integer> sent = new TreeSet<>();
    private final Object manager;
    private Object metadata;

    Markers() throws Exception {
        Class<?> type = Class.forName("kafka.coordinator.transaction.TransactionMarkerChannelManager");
        Class<?> states = Class.forName("kafka.coordinator.transaction.TransactionStateManager");
        Properties settings = new Properties();
        settings.put("process.roles", "broker");
        settings.put("node.id", "1");
        settings.put("broker.id", "1");
        settings.put("controller.quorum.voters", "9@localhost:9093");
        settings.put("controller.listener.names", "CONTROLLER");
        Object config = Fakes.make(Class.forName("kafka.server.KafkaConfig"), settings);
        Object stateManager = Fakes.answering(states, (name, arguments) ->
            name.equals("getTransactionState") ? scala.util.Right.apply(Option.apply(known())) : null);
        ProxyFactory factory = new ProxyFactory();
        factory.setSuperclass(type);
        factory.setFilter(method -> List.of("addMarkersForBroker", "maybeWriteTxnCompletion").contains(method.getName()));
        Object client = Fakes.stub(NetworkClient.class, (self, method, proceed, arguments) -> null);
        List<Object> offered = List.of(config, cache, client, stateManager, Time.SYSTEM);
        Class<?>[] types = Transactions.constructor(type).getParameterTypes();
        manager = factory.create(types, Arrays.stream(types).map(part -> offered.stream().
            filter(part::isInstance).findFirst().orElseThrow()).toArray());
        ((javassist.util.proxy.Proxy) manager).setHandler((self, method, proceed, arguments) -> {
            if (method.getName().equals("addMarkersForBroker")) sent.addAll(partitions(arguments[2]));
            return null;
        });
    }

    private Object known() {
        try {
            return Transactions.constructor(Transactions.moved("CoordinatorEpochAndTxnMetadata")).
                newInstance(0, metadata);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Set<Integer> partitions(Object pending) throws Exception {
        Object entry = Fakes.call(pending, "txnMarkerEntry");
        Set<Integer> found = new TreeSet<>();
        for (Object one : (List<?>) Fakes.call(entry, "partitions")) found.add(((TopicPartition) one).partition());
        return found;
    }

    private static MetadataImage image(String[] leaders) {
        Uuid topic = new Uuid(1, 1);
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker : new int[] {REACHED, UNREACHABLE}) {
            RegisterBrokerRecord record = new RegisterBrokerRecord().setBrokerId(broker).
                setIncarnationId(new Uuid(2, broker)).setBrokerEpoch(broker).setFenced(false);
            record.endPoints().add(new BrokerEndpoint().setHost("localhost").setPort(9092).
                setName(broker == REACHED ? "PLAINTEXT" : "OTHER"));
            delta.replay(record);
        }
        delta.replay(new TopicRecord().setName("t").setTopicId(topic));
        for (int partition = 0; partition < leaders.length; partition++) {
            if (leaders[partition].equals("deleted")) continue;
            int leader = leaders[partition].equals("broker") ? REACHED
                : leaders[partition].equals("unreachable") ? UNREACHABLE : NOBODY;
            delta.replay(new PartitionRecord().setTopicId(topic).setPartitionId(partition).
                setReplicas(List.of(REACHED, UNREACHABLE)).setIsr(List.of(REACHED)).setLeader(leader));
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }

    @Override
    public String answer(Oracle.Case given) throws Exception {
        String[] leaders = given.words("leaders");
        Set<TopicPartition> all = new HashSet<>();
        Set<Integer> numbers = new TreeSet<>();
        for (int partition = 0; partition < leaders.length; partition++) {
            all.add(new TopicPartition("t", partition));
            numbers.add(partition);
        }
        Fakes.call(cache, "setImage", image(leaders));
        metadata = Transactions.prepared(numbers);
        sent.clear();
        Object transit = Transactions.call(metadata, "prepareComplete", 100L);
        Object pending = Transactions.constructor(Transactions.moved("PendingCompleteTxn")).
            newInstance("t", 0, metadata, transit);
        Method add = Transactions.method(manager.getClass(), "addTxnMarkersToBrokerQueue");
        Object[] values = {7L, (short) 1, TransactionResult.COMMIT, pending, all};
        add.invoke(manager, Transactions.arguments(add.getParameterTypes(), Arrays.asList(values)));
        Set<Integer> left = Transactions.numbers(Transactions.fields(metadata).get("partitions"));
        StringBuilder text = new StringBuilder();
        for (int partition : numbers) {
            String way = sent.contains(partition) ? "sent" : left.contains(partition) ? "waits" : "skipped";
            text.append(partition == 0 ? "" : ",").append(way);
        }
        return text.toString();
    }
}
