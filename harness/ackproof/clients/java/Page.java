import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The page of memory that the harness shares with this process; `shared_page.py` describes it. */
final class Page {
    static final int STARTING = 1;
    static final int PRODUCING = 2;
    static final int SETTLING = 3;
    static final int DONE = 4;
    static final int BROKEN = 5;
    static final int CONSUMING = 6;
    static final int PAUSED = 7;

    static final int SLOW = 1;
    static final int FILL = 2;
    static final int REJOIN = 5;
    static final int SKEW = 6;

    private static final int SIZE = 4096;
    private static final int TEXT = 8 * 15;
    private static final VarHandle LONGS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    private final ByteBuffer map;

    Page(Path path) throws IOException {
        try (FileChannel file =
                FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            map = file.map(FileChannel.MapMode.READ_WRITE, 0, SIZE);
        }
    }

    /** Microseconds UTC. */
    static long now() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000L + now.getNano() / 1000;
    }

    private void set(int index, long value) {
        LONGS.setRelease(map, 8 * index, value);
    }

    private long get(int index) {
        return (long) LONGS.getAcquire(map, 8 * index);
    }

    void state(int state) {
        set(0, state);
    }

    /** Publishes counts: outcomes after `sent`, so that they never exceed it. */
    void count(long sent, long acked, long failed, long unknown) {
        set(1, sent);
        set(2, acked);
        set(3, failed);
        set(4, unknown);
        set(6, now());
    }

    void startedAt(long microseconds) {
        set(5, microseconds);
    }

    long startedAt() {
        return get(5);
    }

    boolean stop() {
        return get(7) != 0;
    }

    boolean resumed() {
        return get(8) != 0;
    }

    void busy(long microseconds) {
        set(9, microseconds);
    }

    void addLate(long acks) {
        set(10, get(10) + acks);
    }

    int order() {
        return (int) get(11);
    }

    long argumentMs() {
        return get(12);
    }

    void addObeyed(long times) {
        set(13, get(13) + times);
    }

    void fail(String error) {
        byte[] text = error.getBytes(StandardCharsets.UTF_8);
        int length = Math.min(text.length, SIZE - TEXT);
        for (int index = 0; index < length; index++) {
            map.put(TEXT + index, text[index]);
        }
        set(14, length);
        state(BROKEN);
    }
}
