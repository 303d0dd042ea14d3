import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** What a client is to do: `specs.py` describes the fields. */
final class Spec {
    private final Map<String, Object> fields;

    Spec(Map<String, Object> fields) {
        this.fields = fields;
    }

    boolean has(String name) {
        return fields.get(name) != null;
    }

    String text(String name) {
        return (String) fields.get(name);
    }

    Path path(String name) {
        return Paths.get(text(name));
    }

    long number(String name, long otherwise) {
        return has(name) ? ((Number) fields.get(name)).longValue() : otherwise;
    }

    int integer(String name) {
        return Math.toIntExact(((Number) fields.get(name)).longValue());
    }

    double decimal(String name, double otherwise) {
        return has(name) ? ((Number) fields.get(name)).doubleValue() : otherwise;
    }

    byte[] bytes(String name) {
        return Base64.getDecoder().decode(text(name));
    }

    /** Integers; empty if there are none. */
    int[] integers(String name) {
        if (!has(name)) {
            return new int[0];
        }
        return list(name).stream().mapToInt(one -> ((Number) one).intValue()).toArray();
    }

    @SuppressWarnings("unchecked")
    List<Object> list(String name) {
        return (List<Object>) fields.get(name);
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map(String name) {
        return (Map<String, Object>) fields.get(name);
    }

    Spec part(String name) {
        return has(name) ? new Spec(map(name)) : null;
    }
}
