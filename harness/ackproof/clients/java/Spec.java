import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** What a client is to do: `specs.py` describes the fields, `java_client.py` writes them. */
final class Spec {
    private final Properties fields = new Properties();

    Spec(String path) throws IOException {
        try (InputStream file = Files.newInputStream(Paths.get(path))) {
            fields.load(new InputStreamReader(file, StandardCharsets.UTF_8));
        }
    }

    /** Security settings, which are in no file. */
    static Map<String, String> secrets(InputStream input) throws IOException {
        Properties secrets = new Properties();
        secrets.load(new InputStreamReader(input, StandardCharsets.UTF_8));
        Map<String, String> found = new HashMap<>();
        secrets.stringPropertyNames().forEach(key -> found.put(key, secrets.getProperty(key)));
        return found;
    }

    boolean has(String name) {
        return text(name) != null;
    }

    String text(String name) {
        return fields.getProperty(name);
    }

    Path path(String name) {
        return Paths.get(text(name));
    }

    long number(String name, long otherwise) {
        return has(name) ? Long.parseLong(text(name)) : otherwise;
    }

    int integer(String name) {
        return Integer.parseInt(text(name));
    }

    double decimal(String name, double otherwise) {
        return has(name) ? Double.parseDouble(text(name)) : otherwise;
    }

    byte[] bytes(String name) {
        return Base64.getDecoder().decode(text(name));
    }

    int[] integers(String name) {
        return list(name).stream().mapToInt(Integer::parseInt).toArray();
    }

    List<String> list(String name) {
        String items = text(name);
        return items.isEmpty() ? Collections.emptyList() : Arrays.asList(items.split(","));
    }

    /** The fields whose names begin with this one and a dot, by the rest of their names. */
    Map<String, String> part(String name) {
        Map<String, String> found = new HashMap<>();
        for (String key : fields.stringPropertyNames()) {
            if (key.startsWith(name + ".")) {
                found.put(key.substring(name.length() + 1), text(key));
            }
        }
        return found;
    }
}
