import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Consume, transform, produce: forwards records to other topics; see `forwarding.py`. */
final class Forwarder {
    private final Spec spec;
    private final boolean inTransactions;
    private final long number;
    private final Map<String, Integer> into = new HashMap<>();
    private final KafkaProducer<byte[], byte[]> producer;

    Forwarder(Spec spec, Map<String, String> secrets) {
        this.spec = spec;
        inTransactions = spec.text("commit").equals("transaction");
        number = spec.number("number", 0);
        spec.part("into").forEach((topic, count) -> into.put(topic, Integer.valueOf(count)));
        Map<String, Object> settings =
                Kafka.settings(spec, "forwarder_settings", "forwarder", secrets);
        if (inTransactions) {
            settings.put("transactional.id", spec.text("transactional_id"));
        }
        producer = Kafka.producer(settings);
        if (inTransactions) {
            require("initTransactions");
        }
    }

    /** Forwards records and waits for their acks; returns whether all were acked. */
    boolean send(List<ConsumerRecord<byte[], byte[]>> records) {
        if (inTransactions) {
            require("beginTransaction");
        }
        List<Future<?>> sent = new ArrayList<>();
        try {
            for (ConsumerRecord<byte[], byte[]> one : records) {
                ByteBuffer key = ByteBuffer.allocate(20);
                key.putInt(one.partition()).putLong(one.offset()).putLong(number);
                for (Map.Entry<String, Integer> to : into.entrySet()) {
                    sent.add(
                            producer.send(
                                    new ProducerRecord<>(
                                            to.getKey(),
                                            one.partition() % to.getValue(),
                                            key.array(),
                                            one.value())));
                }
            }
            for (Future<?> one : sent) {
                one.get();
            }
        } catch (ExecutionException refused) {
            return false;
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            return false;
        }
        return true;
    }

    /** Commits with these offsets; returns the error if it was refused and is aborted. */
    RuntimeException commit(
            Map<TopicPartition, OffsetAndMetadata> offsets, KafkaConsumer<?, ?> consumer) {
        try {
            if (Kafka.has(KafkaConsumer.class, "groupMetadata")) {
                Object group = Kafka.call(consumer, "groupMetadata");
                Class<?> metadata =
                        Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
                Class<?>[] types = {Map.class, metadata};
                Kafka.call(producer, "sendOffsetsToTransaction", types, offsets, group);
            } else {
                Class<?>[] types = {Map.class, String.class};
                Kafka.call(
                        producer, "sendOffsetsToTransaction", types, offsets, spec.text("group"));
            }
            Kafka.call(producer, "commitTransaction");
            return null;
        } catch (RuntimeException refused) {
            abort();
            return refused;
        } catch (ClassNotFoundException missing) {
            throw new IllegalStateException(missing);
        }
    }

    void abort() {
        require("abortTransaction");
    }

    private void require(String request) {
        try {
            Kafka.call(producer, request);
        } catch (RuntimeException error) {
            String code = Main.errorName(spec, Kafka.code(error));
            throw new Failure(
                    "consumer " + number + " cannot forward records as '"
                            + spec.text("transactional_id") + "': " + error.getMessage()
                            + " (" + code + ")",
                    "Another producer with this transactional.id has fenced it, or no "
                            + "transaction coordinator is available.");
        }
    }
}
