import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Tells of automatic commits, which have no callback. The consumer creates it. */
public final class AutoCommits implements ConsumerInterceptor<byte[], byte[]> {
    static Consumer<Map<TopicPartition, OffsetAndMetadata>> listener;

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (!offsets.isEmpty()) {
            listener.accept(offsets);
        }
    }

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> settings) {}
}
