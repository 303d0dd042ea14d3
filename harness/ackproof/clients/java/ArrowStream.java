import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * Appends record batches to a new Arrow IPC stream; `arrow_stream.py` says what that is good for.
 *
 * <p>The schema message is the harness's: it is copied. Each batch is one write(2), without
 * compression.
 */
final class ArrowStream implements Closeable {
    /** One column of a batch. */
    abstract static class Column {
        final int rows;
        final boolean[] valid;

        /** `valid`: which rows are not null; null if all are. */
        Column(int rows, boolean[] valid) {
            this.rows = rows;
            this.valid = valid;
        }

        /** Bytes of each buffer after the validity bitmap. */
        abstract int[] sizes();

        abstract void write(ByteBuffer out, int buffer);

        final int nulls() {
            int count = 0;
            for (int row = 0; valid != null && row < rows; row++) {
                count += valid[row] ? 0 : 1;
            }
            return count;
        }
    }

    /** Integers of 1, 2, 4 or 8 bytes. */
    static final class Integers extends Column {
        private final long[] values;
        private final int width;

        Integers(int width, long[] values, int rows, boolean[] valid) {
            super(rows, valid);
            this.width = width;
            this.values = values;
        }

        @Override
        int[] sizes() {
            return new int[] {rows * width};
        }

        @Override
        void write(ByteBuffer out, int buffer) {
            for (int row = 0; row < rows; row++) {
                switch (width) {
                    case 1:
                        out.put((byte) values[row]);
                        break;
                    case 2:
                        out.putShort((short) values[row]);
                        break;
                    case 4:
                        out.putInt((int) values[row]);
                        break;
                    default:
                        out.putLong(values[row]);
                }
            }
        }
    }

    /** Texts; null is null. */
    static final class Texts extends Column {
        private final byte[][] values;
        private int bytes;

        Texts(String... values) {
            super(values.length, new boolean[values.length]);
            this.values = new byte[values.length][];
            for (int row = 0; row < rows; row++) {
                valid[row] = values[row] != null;
                this.values[row] =
                        valid[row] ? values[row].getBytes(StandardCharsets.UTF_8) : new byte[0];
                bytes += this.values[row].length;
            }
        }

        @Override
        int[] sizes() {
            return new int[] {4 * (rows + 1), bytes};
        }

        @Override
        void write(ByteBuffer out, int buffer) {
            int end = 0;
            if (buffer == 0) {
                out.putInt(end);
            }
            for (byte[] value : values) {
                end += value.length;
                if (buffer == 0) {
                    out.putInt(end);
                } else {
                    out.put(value);
                }
            }
        }
    }

    /** Rows whose columns are collected one by one: null or Long for integers, null or String. */
    static final class Rows {
        private final List<List<Object>> columns = new ArrayList<>();
        private final int[] widths;

        /** `widths`: bytes of an integer, 0 for texts. */
        Rows(int... widths) {
            this.widths = widths;
            for (int ignored : widths) {
                columns.add(new ArrayList<>());
            }
        }

        void add(Object... values) {
            for (int index = 0; index < values.length; index++) {
                columns.get(index).add(values[index]);
            }
        }

        int count() {
            return columns.get(0).size();
        }

        Column[] columns() {
            Column[] made = new Column[widths.length];
            for (int index = 0; index < made.length; index++) {
                List<Object> values = columns.get(index);
                if (widths[index] == 0) {
                    made[index] = new Texts(values.toArray(new String[0]));
                    continue;
                }
                long[] numbers = new long[values.size()];
                boolean[] valid = new boolean[values.size()];
                for (int row = 0; row < numbers.length; row++) {
                    valid[row] = values.get(row) != null;
                    numbers[row] = valid[row] ? ((Number) values.get(row)).longValue() : 0;
                }
                made[index] = new Integers(widths[index], numbers, numbers.length, valid);
            }
            return made;
        }
    }

    private static final int CONTINUATION = 0xFFFFFFFF;
    private static final byte[] END = {-1, -1, -1, -1, 0, 0, 0, 0};

    private final Path path;
    private final FileChannel file;
    private byte[] schema;
    private ByteBuffer message = ByteBuffer.allocateDirect(1 << 16).order(ByteOrder.LITTLE_ENDIAN);

    ArrowStream(Path path, byte[] schema) throws IOException {
        this.path = path;
        this.schema = schema;
        Files.createDirectories(path.getParent());
        file =
                FileChannel.open(
                        path,
                        StandardOpenOption.WRITE,
                        StandardOpenOption.CREATE_NEW,
                        StandardOpenOption.APPEND);
        lock();
    }

    /** Marks the stream as being written, as `StreamWriter` does, until this process ends. */
    private void lock() {
        try {
            file.tryLock();
        } catch (IOException ignored) {
            // A filesystem without locks.
        }
    }

    /** Appends a batch of all columns of the schema, after the schema if it is the first. */
    synchronized void append(Column... columns) throws IOException {
        int bodyBytes = 0;
        List<Integer> sizes = new ArrayList<>();
        for (Column column : columns) {
            sizes.add(column.nulls() == 0 ? 0 : (column.rows + 7) / 8);
            for (int size : column.sizes()) {
                sizes.add(size);
            }
        }
        for (int size : sizes) {
            bodyBytes += padded(size);
        }
        int nodesEnd = 80 + 16 * columns.length;
        int metadataBytes = nodesEnd + 8 + 16 * sizes.size();
        reserve(schema.length + 8 + metadataBytes + bodyBytes);
        message.put(schema);
        message.putInt(CONTINUATION).putInt(metadataBytes);
        putMetadata(columns, sizes, bodyBytes, nodesEnd);
        for (Column column : columns) {
            putBody(column);
        }
        flush();
        schema = new byte[0];
    }

    /**
     * The flatbuffers of a Message with a RecordBatch (Arrow's Message.fbs), laid out by hand: two
     * tables with constant shapes, then the vectors of nodes and of buffers.
     */
    private void putMetadata(Column[] columns, List<Integer> sizes, int bodyBytes, int nodesEnd) {
        message.putInt(16); // to the Message
        message.putShort((short) 12).putShort((short) 20); // its vtable: sizes, then fields
        message.putShort((short) 16).putShort((short) 18).putShort((short) 4).putShort((short) 8);
        message.putInt(12).putInt(36).putLong(bodyBytes); // the Message, at 16: to the RecordBatch
        message.putShort((short) 4).put((byte) 3).put((byte) 0).putInt(0); // V5, RecordBatch
        message.putShort((short) 10).putShort((short) 20); // its vtable, at 40
        message.putShort((short) 8).putShort((short) 4).putShort((short) 16);
        message.putShort((short) 0).putInt(0);
        message.putInt(16).putInt(16).putLong(columns[0].rows); // the RecordBatch, at 56
        message.putInt(nodesEnd + 4 - 72);
        message.putInt(columns.length); // nodes, at 76
        for (Column column : columns) {
            message.putLong(column.rows).putLong(column.nulls());
        }
        message.putInt(0).putInt(sizes.size()); // buffers
        long offset = 0;
        for (int size : sizes) {
            message.putLong(offset).putLong(size);
            offset += padded(size);
        }
    }

    private void putBody(Column column) {
        if (column.nulls() > 0) {
            for (int first = 0; first < column.rows; first += 8) {
                int bits = 0;
                for (int row = first; row < Math.min(first + 8, column.rows); row++) {
                    bits |= column.valid[row] ? 1 << (row - first) : 0;
                }
                message.put((byte) bits);
            }
            pad((column.rows + 7) / 8);
        }
        int[] sizes = column.sizes();
        for (int buffer = 0; buffer < sizes.length; buffer++) {
            column.write(message, buffer);
            pad(sizes[buffer]);
        }
    }

    /** Writes the end marker and closes the file. */
    @Override
    public synchronized void close() throws IOException {
        reserve(schema.length + END.length);
        message.put(schema).put(END);
        flush();
        file.close();
    }

    private void flush() throws IOException {
        message.flip();
        while (message.hasRemaining()) {
            try {
                file.write(message);
            } catch (IOException error) {
                throw new IOException(path + " cannot be written: " + error.getMessage(), error);
            }
        }
    }

    private void reserve(int bytes) {
        if (message.capacity() < bytes) {
            int capacity = Math.max(bytes, 2 * message.capacity());
            message = ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
        }
        message.clear();
    }

    private static int padded(int size) {
        return (size + 7) & ~7;
    }

    private void pad(int size) {
        for (int rest = padded(size) - size; rest > 0; rest--) {
            message.put((byte) 0);
        }
    }
}
