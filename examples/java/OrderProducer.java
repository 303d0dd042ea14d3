import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An application under test in Java: sends orders, and writes an acked log of every one.
 *
 * <p>{@code java -cp 'kafka-clients.jar:slf4j-api.jar:…' OrderProducer.java}; started by a scenario
 * like examples/application.yaml (docs/how-to/own-application.md).
 */
public class OrderProducer {
    public static void main(String[] arguments) throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        Thread sender = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ended.set(true);
            try {
                sender.join(); // it flushes first
            } catch (InterruptedException ignored) {
                // the JVM ends
            }
        }));

        String topic = System.getenv("ACKPROOF_TOPIC");
        boolean leaderOnly = System.getenv("ACKPROOF_SETTINGS").matches(".*\"acks\": ?\"1\".*");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("ACKPROOF_BOOTSTRAP_SERVERS"));
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("acks", leaderOnly ? "1" : "all");
        settings.put("enable.idempotence", !leaderOnly);

        try (FileOutputStream log = new FileOutputStream(System.getenv("ACKPROOF_ACKED"), true);
                KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int order = 0; !ended.get(); order++) {
                String key = "order-" + order;
                long sent = System.currentTimeMillis();
                producer.send(new ProducerRecord<>(topic, key, "3 apples"), (metadata, error) -> {
                    String outcome = error == null
                            ? String.format(
                                    "\"outcome\": \"acked\", \"partition\": %d, \"offset\": %d",
                                    metadata.partition(), metadata.offset())
                            : String.format(
                                    "\"outcome\": \"unknown\", \"error\": \"%s\"",
                                    error.getClass().getSimpleName());
                    String line = String.format(
                            "{\"topic\": \"%s\", \"key\": \"%s\", %s, "
                                    + "\"sent_at\": %d, \"resolved_at\": %d}%n",
                            topic, key, outcome, sent, System.currentTimeMillis());
                    try {
                        log.write(line.getBytes(StandardCharsets.UTF_8)); // one write
                    } catch (IOException failed) {
                        throw new IllegalStateException(failed);
                    }
                });
                Thread.sleep(1);
            }
            producer.flush();
        }
    }
}
