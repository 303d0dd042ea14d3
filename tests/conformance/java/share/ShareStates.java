import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.generated.ShareSnapshotValue;
import org.apache.kafka.coordinator.share.generated.ShareUpdateValue;
import org.apache.kafka.server.share.SharePartitionKey;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/** ShareCoordinatorShard: requests about one share partition, and what a new coordinator loads. */
final class ShareStates implements Oracle.Question {
    private static final Uuid TOPIC = new Uuid(1, 1);
    private static final SharePartitionKey KEY = SharePartitionKey.getInstance("g", TOPIC, 0);
    private static final Class<?> REGISTRY = Fakes.found("org.apache.kafka.timeline.SnapshotRegistry");
    private static final Class<?> OFFSETS = Fakes.found(
        "org.apache.kafka.coordinator.share.ShareCoordinatorOffsetsManager");

    private int limit;
    private final Object config = Fakes.answering(ShareCoordinatorConfig.class,
        (name, arguments) -> name.equals("shareCoordinatorSnapshotUpdateRecordsPerSnapshot") ? limit : null);
    private final Object context = Fakes.make(Fakes.found(
        "org.apache.kafka.common.utils.internals.LogContext", "org.apache.kafka.common.utils.LogContext"));
    private final CoordinatorMetadataImage image;

    ShareStates() throws Exception {
        Object topic = Fakes.answering(CoordinatorMetadataImage.TopicMetadata.class,
            (name, arguments) -> name.equals("partitionCount") ? 1 : null);
        image = (CoordinatorMetadataImage) Fakes.answering(CoordinatorMetadataImage.class,
            (name, arguments) -> name.equals("topicMetadata") ? Optional.of(topic) : null);
    }

    private ShareCoordinatorShard shard() throws Exception {
        Object registry = Fakes.make(REGISTRY, context);
        Object made = Fakes.hidden(ShareCoordinatorShard.class, context, config, registry,
            Fakes.make(OFFSETS, registry), Time.SYSTEM);
        Fakes.set(made, "metadataImage", image);
        return (ShareCoordinatorShard) made;
    }

    @Override
    public String answer(Oracle.Case given) throws Exception {
        limit = given.number("limit");
        ShareCoordinatorShard shard = shard();
        List<CoordinatorRecord> topic = new ArrayList<>();
        List<String> told = new ArrayList<>();
        for (String step : given.words("steps")) {
            String[] words = step.split(":", -1);
            if (words[0].equals("load")) {
                topic = new ArrayList<>(topic.subList(0, Math.max(0, topic.size() - Integer.parseInt(words[1]))));
                shard = shard();
                for (int at = 0; at < topic.size(); at++) shard.replay(at, -1, (short) -1, topic.get(at));
                told.add(state(shard));
                continue;
            }
            CoordinatorResult<?, CoordinatorRecord> result = request(shard, words);
            StringBuilder text = new StringBuilder(error(result.response()));
            for (CoordinatorRecord record : result.records()) {
                text.append(' ').append(shown(record));
                shard.replay(topic.size(), -1, (short) -1, record);
                topic.add(record);
            }
            told.add(text.toString());
        }
        told.add(state(shard));
        return String.join(",", told);
    }

    private static CoordinatorResult<?, CoordinatorRecord> request(ShareCoordinatorShard shard, String[] words) {
        switch (words[0]) {
            case "init":
                return shard.initializeState(new InitializeShareGroupStateRequestData().setGroupId("g").setTopics(List.of(
                    new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(TOPIC).setPartitions(List.of(
                        new InitializeShareGroupStateRequestData.PartitionData().setPartition(0).
                            setStateEpoch(Integer.parseInt(words[1])).setStartOffset(Long.parseLong(words[2])))))));
            case "read":
                return shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData().setGroupId("g").
                    setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData().setTopicId(TOPIC).setPartitions(
                        List.of(new ReadShareGroupStateRequestData.PartitionData().setPartition(0).
                            setLeaderEpoch(Integer.parseInt(words[1])))))));
            case "delete":
                return shard.deleteState(new DeleteShareGroupStateRequestData().setGroupId("g").setTopics(List.of(
                    new DeleteShareGroupStateRequestData.DeleteStateData().setTopicId(TOPIC).setPartitions(
                        List.of(new DeleteShareGroupStateRequestData.PartitionData().setPartition(0))))));
            default:
                return shard.writeState(new WriteShareGroupStateRequestData().setGroupId("g").setTopics(List.of(
                    new WriteShareGroupStateRequestData.WriteStateData().setTopicId(TOPIC).setPartitions(List.of(
                        new WriteShareGroupStateRequestData.PartitionData().setPartition(0).
                            setStateEpoch(Integer.parseInt(words[1])).setLeaderEpoch(Integer.parseInt(words[2])).
                            setStartOffset(Long.parseLong(words[3])).
                            setDeliveryCompleteCount(Integer.parseInt(words[4])).
                            setStateBatches(Shares.batches(words[5]).stream().map(one ->
                                new WriteShareGroupStateRequestData.StateBatch().setFirstOffset(one.firstOffset()).
                                    setLastOffset(one.lastOffset()).setDeliveryState(one.deliveryState()).
                                    setDeliveryCount(one.deliveryCount())).collect(Collectors.toList())))))));
        }
    }

    private static String error(Object response) throws Exception {
        Object topic = ((List<?>) Fakes.call(response, "results")).get(0);
        Object partition = ((List<?>) Fakes.call(topic, "partitions")).get(0);
        return Errors.forCode((Short) Fakes.call(partition, "errorCode")).name();
    }

    private static String shown(CoordinatorRecord record) throws Exception {
        if (record.value() == null) return "tombstone";
        Object value = record.value().message();
        boolean update = value instanceof ShareUpdateValue;
        Object epoch = update ? 0 : ((ShareSnapshotValue) value).stateEpoch();
        return (update ? "update " : "snapshot ") + stored(value, epoch, (List<?>) Fakes.call(value, "stateBatches"));
    }

    private static String stored(Object of, Object stateEpoch, List<?> batches) throws Exception {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (Object one : batches) {
            found.add(new PersisterStateBatch((Long) Fakes.call(one, "firstOffset"), (Long) Fakes.call(one, "lastOffset"),
                (Byte) Fakes.call(one, "deliveryState"), (Short) Fakes.call(one, "deliveryCount")));
        }
        return Fakes.call(of, "snapshotEpoch") + "/" + stateEpoch + "/" + Fakes.call(of, "leaderEpoch") + "/"
            + Fakes.call(of, "startOffset") + "/" + Fakes.call(of, "deliveryCompleteCount") + "/" + Shares.runs(found);
    }

    private static String state(ShareCoordinatorShard shard) throws Exception {
        Object known = Fakes.call(shard, "getShareStateMapValue", KEY);
        return Fakes.call(shard, "getLeaderMapValue", KEY) + "/" + Fakes.call(shard, "getStateEpochMapValue", KEY) + "="
            + (known == null ? null : stored(known, Fakes.call(known, "stateEpoch"), (List<?>) Fakes.call(known, "stateBatches")));
    }
}
