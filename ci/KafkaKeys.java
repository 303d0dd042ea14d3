import java.lang.reflect.Method;
import java.util.Collection;
import java.util.TreeSet;

/** Prints every configuration key that the Kafka on the class path knows, after its scope. */
public class KafkaKeys {
    public static void main(String[] arguments) throws Exception {
        print("broker", "kafka.server.KafkaConfig", "org.apache.kafka.server.config.AbstractKafkaConfig");
        print("topic", "org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig");
        print("producer", "org.apache.kafka.clients.producer.ProducerConfig");
        print("consumer", "org.apache.kafka.clients.consumer.ConsumerConfig");
    }

    /** Kafka moved these classes from Scala to Java: the first that is here answers. */
    private static void print(String scope, String... classes) throws Exception {
        for (String name : classes) {
            Object names;
            try {
                names = names(Class.forName(name));
            } catch (ClassNotFoundException missing) {
                continue;
            }
            for (String key : sorted(names)) {
                System.out.println(scope + " " + key);
            }
            return;
        }
        throw new ClassNotFoundException(classes[0]);
    }

    private static Object names(Class<?> config) throws Exception {
        try {
            return config.getMethod("configNames").invoke(null);
        } catch (NoSuchMethodException since41) {
            Object definition = config.getField("CONFIG_DEF").get(null);
            return definition.getClass().getMethod("names").invoke(definition);
        }
    }

    private static Collection<String> sorted(Object names) throws Exception {
        Collection<String> found = new TreeSet<>();
        if (names instanceof Collection) {
            ((Collection<?>) names).forEach(name -> found.add(name.toString()));
            return found;
        }
        Object iterator = names.getClass().getMethod("iterator").invoke(names);
        Class<?> scala = Class.forName("scala.collection.Iterator");
        Method hasNext = scala.getMethod("hasNext");
        Method next = scala.getMethod("next");
        while ((Boolean) hasNext.invoke(iterator)) {
            found.add(next.invoke(iterator).toString());
        }
        return found;
    }
}
