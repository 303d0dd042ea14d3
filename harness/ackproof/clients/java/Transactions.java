import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.errors.ApiException;

/** The transactions of one producer; see `transactional.py`. */
final class Transactions {
    private static final double END_S = 90;

    private final Spec spec;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Page page;
    private final Runnable settle;
    private final BooleanSupplier abandoned;
    private final int size;
    private final List<String> aborts;
    private final ArrowStream log;
    private final long initializedAt;
    private long number;
    private long first = -1;

    /** What keeps the producer from sending more, such as a fence. */
    Throwable fatal;

    Transactions(
            Spec spec,
            KafkaProducer<byte[], byte[]> producer,
            Map<String, Object> inForce,
            Page page,
            Runnable settle,
            BooleanSupplier abandoned)
            throws IOException {
        this.spec = spec;
        this.producer = producer;
        this.page = page;
        this.settle = settle;
        this.abandoned = abandoned;
        size = spec.integer("transactions.size");
        aborts = spec.list("transactions.aborts");
        try {
            Throwable refused = attempt("initTransactions");
            if (refused != null) {
                throw (RuntimeException) refused;
            }
        } catch (RuntimeException refused) {
            throw new Failure(
                    "producer " + spec.number("number", 0) + " cannot initialize transactions as '"
                            + spec.text("transactions.transactional_id") + "': " + refused.getMessage(),
                    "The transaction coordinator may be unavailable: see the brokers' logs.");
        }
        initializedAt = Page.now();
        inForce.put("transaction.protocol", Kafka.transactionProtocol(producer));
        Main.writeInForce(spec, inForce);
        log = new ArrowStream(spec.path("transaction_log"), spec.bytes("transaction_schema"));
    }

    /** Begins a transaction if none is open; returns the sequence at which it must end. */
    long room(long following) {
        if (first < 0) {
            try {
                Kafka.call(producer, "beginTransaction");
            } catch (RuntimeException error) {
                fatal = error;
                return following;
            }
            first = following;
        }
        return first + size;
    }

    /** Ends the transaction if it is full. */
    void advance(long following) throws IOException {
        if (first >= 0 && following >= first + size) {
            end(following);
        }
    }

    /** Commits or aborts the open transaction, if any; before, crashes or waits as a zombie. */
    void end(long following) throws IOException {
        long from = first;
        first = -1;
        if (from < 0) {
            return;
        }
        settle.run();
        if (number == spec.number("transactions.crash_in", -1)) {
            Guard.kill();
        }
        if (number == spec.number("transactions.zombie_in", -1)) {
            waitAsZombie();
        }
        String outcome;
        Throwable error;
        if (aborts.get((int) (number % aborts.size())).equals("true")) {
            outcome = "aborted"; // no commit was requested
            error = attempt("abortTransaction");
        } else {
            write(from, following, "unknown", null, null);
            long requested = System.nanoTime();
            error = attempt("commitTransaction");
            outcome = outcome(error, (System.nanoTime() - requested) / 1e9);
        }
        if (error != null && isFatal(error)) {
            fatal = error;
        }
        String name = error == null ? null : Main.errorName(spec, Kafka.code(error));
        write(from, following, outcome, Page.now(), name);
        number++;
    }

    /** The rule of `transactional.py`: a refusal of the sole attempt, or a successful abort. */
    private String outcome(Throwable error, double took) {
        if (error == null) {
            return "committed";
        }
        if (!isFatal(error) && !isTimeout(error)) {
            Throwable refused = attempt("abortTransaction");
            if (refused == null) {
                return "aborted";
            }
            fatal = refused;
        }
        boolean refused = spec.list("commit_refusals").contains(Main.errorName(spec, Kafka.code(error)));
        return refused && took < spec.decimal("sole_attempt_s", 0) ? "aborted" : "unknown";
    }

    /** Sends a request to the coordinator, again after timeouts; returns the last error. */
    private Throwable attempt(String request) {
        long deadline = System.nanoTime() + (long) (END_S * 1e9);
        while (true) {
            try {
                Kafka.call(producer, request);
                return null;
            } catch (RuntimeException error) {
                if (!isTimeout(error) || System.nanoTime() > deadline) {
                    return error;
                }
            }
        }
    }

    private static boolean isTimeout(Throwable error) {
        return error instanceof org.apache.kafka.common.errors.TimeoutException
                || error instanceof org.apache.kafka.common.errors.InterruptException;
    }

    /**
     * Whether a transactional producer can only be closed after an error; otherwise it can abort.
     *
     * <p>A producer in an error state refuses every call but an abort, and names the error that led
     * there as the cause. That an abort is refused, too, is seen when it is tried.
     */
    static boolean isFatal(Throwable error) {
        switch (error.getClass().getSimpleName()) {
            case "ProducerFencedException":
            case "InvalidProducerEpochException":
            case "OutOfOrderSequenceException":
            case "AuthorizationException":
            case "TransactionalIdAuthorizationException":
            case "UnsupportedVersionException":
            case "InvalidPidMappingException":
            case "InvalidTxnStateException":
            case "IllegalStateException":
                return true;
            default:
                Throwable cause = error instanceof ApiException ? null : error.getCause();
                return cause != null && isFatal(cause);
        }
    }

    void close() throws IOException {
        log.close();
    }

    private void waitAsZombie() {
        page.state(Page.PAUSED);
        while (!page.resumed() && !abandoned.getAsBoolean()) {
            LockSupport.parkNanos(10_000_000);
        }
        page.state(Page.PRODUCING);
    }

    private void write(long from, long to, String outcome, Long endedAt, String error)
            throws IOException {
        ArrowStream.Rows rows = new ArrowStream.Rows(8, 8, 8, 0, 0, 8, 8);
        rows.add(number, from, to, outcome, error, initializedAt, endedAt);
        log.append(rows.columns());
    }
}
