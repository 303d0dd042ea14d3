import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;

/** The main function of every Java client: `Main producer|consumer SPEC.properties`. */
public final class Main {
    private static final int ENVIRONMENT = 4;

    private Main() {}

    public static void main(String[] arguments) throws IOException {
        Spec spec = new Spec(arguments[1]);
        Page page = new Page(spec.path("progress"));
        Guard guard = new Guard(spec.number("parent", 0));
        page.state(Page.STARTING);
        int code = 0;
        try {
            Map<String, String> secrets = Spec.secrets(System.in);
            Client client =
                    arguments[0].equals("producer")
                            ? new ProducerLoop(spec, secrets, page, guard)
                            : consumer(spec, secrets, page, guard);
            guard.stops(client);
            client.run();
            page.state(Page.DONE);
        } catch (Failure failure) {
            page.fail(failure.getMessage());
            code = ENVIRONMENT;
        } catch (IOException failure) {
            page.fail(
                    "the ledger cannot be written: " + failure.getMessage()
                            + "\n  Free space there, or write runs to another folder. Everything "
                            + "recorded so far can still be read.");
            code = ENVIRONMENT;
        } catch (RuntimeException | Error failure) {
            failure.printStackTrace();
            page.fail(arguments[0] + " " + spec.number("number", 0) + ": " + chain(failure));
            code = ENVIRONMENT;
        }
        Runtime.getRuntime().halt(code); // the client's own threads must not delay the end
    }

    private static Client consumer(
            Spec spec, Map<String, String> secrets, Page page, Guard guard) throws IOException {
        if (!spec.has("share.acquisitions")) {
            return new ConsumerLoop(spec, secrets, page, guard);
        }
        Class<?>[] types = {Spec.class, Map.class, Page.class, Guard.class};
        try { // older clients have no share consumer, so that the class is absent
            return (Client)
                    Class.forName("ShareLoop")
                            .getDeclaredConstructor(types)
                            .newInstance(spec, secrets, page, guard);
        } catch (InvocationTargetException thrown) {
            throw new IllegalStateException(thrown.getCause());
        } catch (ReflectiveOperationException absent) {
            throw new IllegalStateException(absent);
        }
    }

    /** The messages of an error and of its causes. */
    private static String chain(Throwable error) {
        StringBuilder text = new StringBuilder(String.valueOf(error));
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append(": ").append(cause.getMessage());
        }
        return text.toString();
    }

    /** The name of an error code in ledgers. */
    static String errorName(Spec spec, int code) {
        String name = spec.text("errors." + code);
        return name == null ? String.valueOf(code) : name;
    }

    /** Stores what the client really works with, next to its page. */
    static void writeInForce(Spec spec, Map<String, Object> found) throws IOException {
        StringBuilder text = new StringBuilder("{");
        for (Map.Entry<String, Object> one : found.entrySet()) {
            text.append(text.length() > 1 ? ", " : "").append('"').append(one.getKey());
            text.append("\": ");
            boolean quoted = one.getValue() instanceof String;
            text.append(quoted ? "\"" + one.getValue() + "\"" : one.getValue());
        }
        Path file = spec.path("in_force");
        Path partial = file.resolveSibling(file.getFileName() + ".partial");
        Files.write(partial, text.append("}\n").toString().getBytes());
        Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE);
    }
}

/** A client loop. */
interface Client {
    /** Works until a bound or a stop. */
    void run() throws IOException;

    /** Stops at the next iteration. A signal handler may call this. */
    void terminate();
}

/** A client's end for a reason that the harness reports: its message, and perhaps what to do. */
final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    Failure(String message, String hint) {
        super(message + "\n  " + hint);
    }
}
