import java.util.Arrays;

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
