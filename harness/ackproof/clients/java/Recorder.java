import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;

/**
 * Records the outcomes of sends in the ledger, on a thread of its own.
 *
 * <p>Callbacks only collect: they run on the producer's network thread. A full page of outcomes is
 * written at once, others after 10 ms.
 */
final class Recorder implements Runnable {
    static final int ACKED = 0;
    static final int FAILED = 1;
    static final int UNKNOWN = 2;
    private static final int RESERVATION = 3;

    private static final int ROWS = 8192;
    private static final long EVERY_MS = 10;

    /** Outcomes that are collected, and then written together. */
    private static final class Outcomes {
        final long[] sequence = new long[ROWS];
        final long[] outcome = new long[ROWS];
        final long[] error = new long[ROWS];
        final boolean[] hasError = new boolean[ROWS];
        final long[] offset = new long[ROWS];
        final boolean[] hasOffset = new boolean[ROWS];
        final long[] sentAt = new long[ROWS];
        final long[] resolvedAt = new long[ROWS];
        int count;
        boolean allOffsets = true;
    }

    private final ArrowStream ledger;
    private final Page page;
    private final Runnable tick;
    private final int reserveStep;
    private final long limit;
    private final Stalls stalls = new Stalls();
    private final Deque<Outcomes> full = new ArrayDeque<>();
    private final Deque<Outcomes> spare = new ArrayDeque<>();
    private final long[] counts = new long[3];
    private final Thread thread = new Thread(this, "ackproof-recorder");
    private Outcomes current = new Outcomes();
    private long reserved;
    private boolean finishing;
    private volatile long sent;
    private volatile long answered;
    private volatile IOException failure;
    private long workedAt = Page.now();

    /** `ledger`: null records nothing. `tick` runs every 10 ms. */
    Recorder(ArrowStream ledger, Page page, double rate, long limit, Runnable tick) {
        this.ledger = ledger;
        this.page = page;
        this.tick = tick;
        this.limit = limit;
        reserveStep = rate == 0 ? ROWS : (int) Math.max(1, Math.min(ROWS, rate / 10));
    }

    void start() {
        thread.setDaemon(true);
        thread.start();
    }

    long inFlight() {
        return sent - answered;
    }

    /** Reserves `sequence` before it is handed over. */
    void admit(long sequence) throws IOException {
        if (failure != null) {
            throw failure;
        }
        if (ledger != null && sequence >= reserved) {
            reserved = Math.min(sequence + 1 + reserveStep, limit);
            long[] below = {reserved};
            boolean[] absent = {false};
            long[] zero = {0};
            ledger.append(
                    new ArrowStream.Integers(8, below, 1, null),
                    new ArrowStream.Integers(1, new long[] {RESERVATION}, 1, null),
                    new ArrowStream.Integers(2, zero, 1, absent),
                    new ArrowStream.Integers(8, zero, 1, absent),
                    new ArrowStream.Integers(8, zero, 1, absent),
                    new ArrowStream.Integers(8, zero, 1, absent));
        }
        sent = sequence + 1;
    }

    /** Collects an outcome. `error`: 0 for none. `offset`: negative for none. */
    synchronized void collect(
            long sequence, int outcome, int error, long offset, long sentAt, long resolvedAt) {
        Outcomes to = current;
        int row = to.count++;
        to.sequence[row] = sequence;
        to.outcome[row] = outcome;
        to.error[row] = error;
        to.hasError[row] = error != 0;
        to.offset[row] = offset;
        to.hasOffset[row] = offset >= 0;
        to.allOffsets &= offset >= 0;
        to.sentAt[row] = sentAt;
        to.resolvedAt[row] = resolvedAt;
        answered++;
        if (to.count == ROWS) {
            turn();
            notifyAll();
        }
    }

    private void turn() {
        full.add(current);
        current = spare.isEmpty() ? new Outcomes() : spare.poll();
    }

    @Override
    public void run() {
        try {
            boolean last = false;
            while (!last) {
                last = step();
            }
            if (ledger != null && inFlight() == 0) {
                ledger.close(); // otherwise the rest is unknown, as if the producer had been killed
            }
        } catch (IOException error) {
            failure = error;
        }
    }

    /** Writes what is due; returns whether it was the last. */
    private boolean step() throws IOException {
        Deque<Outcomes> due;
        boolean last;
        synchronized (this) {
            try {
                if (full.isEmpty() && !finishing) {
                    wait(EVERY_MS);
                }
            } catch (InterruptedException ended) {
                finishing = true;
            }
            last = finishing;
            if (full.isEmpty() && current.count > 0) {
                turn();
            }
            due = new ArrayDeque<>(full);
            full.clear();
        }
        long now = Page.now();
        stalls.worked(workedAt, now);
        workedAt = now;
        for (Outcomes one : due) {
            write(one);
        }
        tick.run();
        publish();
        synchronized (this) {
            for (Outcomes one : due) {
                one.count = 0;
                one.allOffsets = true;
                spare.add(one);
            }
            return last && full.isEmpty() && current.count == 0;
        }
    }

    private void write(Outcomes from) throws IOException {
        int rows = from.count;
        if (ledger != null) {
            ledger.append(
                    new ArrowStream.Integers(8, from.sequence, rows, null),
                    new ArrowStream.Integers(1, from.outcome, rows, null),
                    new ArrowStream.Integers(2, from.error, rows, from.hasError),
                    new ArrowStream.Integers(
                            8, from.offset, rows, from.allOffsets ? null : from.hasOffset),
                    new ArrowStream.Integers(8, from.sentAt, rows, null),
                    new ArrowStream.Integers(8, from.resolvedAt, rows, null));
        }
        long late = 0;
        for (int row = 0; row < rows; row++) {
            counts[(int) from.outcome[row]]++;
            if (from.outcome[row] == ACKED && stalls.late(from.sentAt[row], from.resolvedAt[row])) {
                late++;
            }
        }
        if (late > 0) {
            page.addLate(late);
        }
    }

    private void publish() {
        page.count(sent, counts[ACKED], counts[FAILED], counts[UNKNOWN]);
    }

    /** Writes the rest and closes the ledger. */
    void finish() throws IOException {
        synchronized (this) {
            finishing = true;
            notifyAll();
        }
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        if (failure != null) {
            throw failure;
        }
    }
}

/** Stalls of this client, and the acks that were late because of them; see `delivery_reports.py`. */
final class Stalls {
    private static final long STALL_US = 100_000;
    private static final double SHARE = 0.1;

    private long[] at = new long[64];
    private long[] total = new long[64];
    private int count;

    /** Notes that the client worked at `now` after it had worked at `before`. */
    void worked(long before, long now) {
        if (now - before <= STALL_US) {
            return;
        }
        if (count + 2 > at.length) {
            at = Arrays.copyOf(at, 2 * at.length);
            total = Arrays.copyOf(total, 2 * total.length);
        }
        long until = count > 0 ? total[count - 1] : 0;
        at[count] = before;
        total[count++] = until;
        at[count] = now;
        total[count++] = until + now - before;
    }

    /** Whether an ack was late because of the client, not the cluster. */
    boolean late(long sentAt, long resolvedAt) {
        double bound = Math.max(STALL_US, SHARE * (resolvedAt - sentAt));
        return count > 0 && stalled(resolvedAt) - stalled(sentAt) > bound;
    }

    private double stalled(long time) {
        int index = Arrays.binarySearch(at, 0, count, time);
        if (index >= 0) {
            return total[index];
        }
        int after = -index - 1;
        if (after == 0) {
            return 0;
        }
        if (after == count) {
            return total[count - 1];
        }
        double share = (double) (time - at[after - 1]) / (at[after] - at[after - 1]);
        return total[after - 1] + share * (total[after] - total[after - 1]);
    }
}
