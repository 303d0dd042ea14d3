import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends ten records, the first of them too large, one request at a time; see `java_client.py`. */
public final class CloseInCallback {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("acks", "all");
        settings.put("retries", "0");
        settings.put("enable.idempotence", "false");
        settings.put("batch.size", "1");
        settings.put("linger.ms", "0");
        settings.put("max.in.flight.requests.per.connection", "1");
        boolean closes = arguments[2].equals("close");
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(
                        settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.partitionsFor(arguments[1]);
        for (int number = 0; number < 10; number++) {
            boolean first = number == 0;
            byte[] value = new byte[first ? 5000 : 10];
            try {
                producer.send(
                        new ProducerRecord<>(arguments[1], 0, null, value),
                        (metadata, error) -> {
                            if (first && error != null) {
                                System.out.println(error.getClass().getSimpleName());
                                if (closes) {
                                    close(producer);
                                }
                            }
                        });
            } catch (IllegalStateException closed) {
                break;
            }
        }
        producer.flush();
        Runtime.getRuntime().halt(0);
    }

    /** The timeout's type differs between versions. */
    private static void close(KafkaProducer<?, ?> producer) {
        try {
            for (Method method : KafkaProducer.class.getMethods()) {
                Class<?>[] types = method.getParameterTypes();
                if (!method.getName().equals("close") || types.length == 0) {
                    continue;
                }
                if (types[0] == Duration.class) {
                    method.invoke(producer, Duration.ZERO);
                } else {
                    method.invoke(producer, 0L, TimeUnit.MILLISECONDS);
                }
                return;
            }
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
