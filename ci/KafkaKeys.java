import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
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
        printAll("admin", "org.apache.kafka.clients.admin.AdminClientConfig");
        printAll("streams", "org.apache.kafka.streams.StreamsConfig");
        printAll(
                "connect",
                "org.apache.kafka.connect.runtime.distributed.DistributedConfig",
                "org.apache.kafka.connect.runtime.standalone.StandaloneConfig",
                "org.apache.kafka.connect.runtime.SourceConnectorConfig",
                "org.apache.kafka.connect.runtime.SinkConnectorConfig",
                "org.apache.kafka.connect.mirror.MirrorMakerConfig",
                "org.apache.kafka.connect.mirror.MirrorSourceConfig",
                "org.apache.kafka.connect.mirror.MirrorCheckpointConfig",
                "org.apache.kafka.connect.mirror.MirrorHeartbeatConfig");
    }

    /** Kafka moved these classes from Scala to Java: the first that is here answers. */
    private static void print(String scope, String... classes) throws Exception {
        for (String name : classes) {
            if (printed(scope, name)) {
                return;
            }
        }
        throw new ClassNotFoundException(classes[0]);
    }

    /** Older versions lack some of these classes. */
    private static void printAll(String scope, String... classes) throws Exception {
        for (String name : classes) {
            printed(scope, name);
        }
    }

    private static boolean printed(String scope, String name) throws Exception {
        Class<?> config;
        try {
            config = Class.forName(name);
        } catch (ClassNotFoundException missing) {
            return false;
        }
        for (String key : sorted(names(config))) {
            System.out.println(scope + " " + key);
        }
        return true;
    }

    /** A class has its names or their definition in a method or in a field, by version. */
    private static Object names(Class<?> config) throws Exception {
        for (String method : new String[] {"configNames", "configDef", "config"}) {
            try {
                return namesOf(accessible(config.getDeclaredMethod(method)).invoke(null));
            } catch (NoSuchMethodException other) {
                continue;
            }
        }
        for (Field field : config.getDeclaredFields()) {
            if (field.getType().getSimpleName().equals("ConfigDef")) {
                return namesOf(accessible(field).get(null));
            }
        }
        // Since 3.4 the definition of DistributedConfig depends on the machine's algorithms.
        Class<?> crypto = Class.forName(config.getPackage().getName() + ".Crypto");
        Method definition = accessible(config.getDeclaredMethod("config", crypto));
        return namesOf(definition.invoke(null, crypto.getField("SYSTEM").get(null)));
    }

    private static <T extends AccessibleObject> T accessible(T member) {
        member.setAccessible(true);
        return member;
    }

    private static Object namesOf(Object found) throws Exception {
        boolean definition = found.getClass().getSimpleName().equals("ConfigDef");
        return definition ? found.getClass().getMethod("names").invoke(found) : found;
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
