import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.zip.CRC32;

/** The value of a record: a header that names its send, and padding; see `record.py`. */
final class RecordValue {
    private static final int HEADER = 32;
    private static final byte[] MAGIC = {'A', 'K', 'P', '1'};
    private static final int CHECKSUM_AT = 4;
    private static final int RUN_AT = 8;
    private static final int PRODUCER_AT = 16;
    private static final int SEQUENCE_AT = 24;

    private RecordValue() {}

    /** Returns a value of `size` bytes; `token` names the run. */
    static byte[] encode(byte[] token, long producer, long sequence, int size) {
        byte[] value = new byte[size];
        ByteBuffer header = ByteBuffer.wrap(value, 0, HEADER);
        header.put(MAGIC).putInt(0).put(token).putLong(producer).putLong(sequence);
        header.putInt(CHECKSUM_AT, checksum(value));
        return value;
    }

    /** Returns producer and sequence of a whole record of the run `token` names, else null. */
    static long[] name(byte[] token, byte[] value) {
        if (value == null || value.length < HEADER) {
            return null;
        }
        ByteBuffer header = ByteBuffer.wrap(value);
        boolean ours =
                Arrays.equals(Arrays.copyOfRange(value, 0, CHECKSUM_AT), MAGIC)
                        && header.getInt(CHECKSUM_AT) == checksum(value)
                        && Arrays.equals(Arrays.copyOfRange(value, RUN_AT, PRODUCER_AT), token);
        return ours ? new long[] {header.getLong(PRODUCER_AT), header.getLong(SEQUENCE_AT)} : null;
    }

    private static int checksum(byte[] value) {
        CRC32 checksum = new CRC32();
        checksum.update(value, RUN_AT, value.length - RUN_AT);
        return (int) checksum.getValue();
    }
}
