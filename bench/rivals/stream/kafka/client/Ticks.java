import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The record that every rival carries: 40 bytes, five 64-bit words, little-endian. `record.rs` is the same.
 *
 * Sequence number, time, price, size, symbol: as compressible as ticks are. The last record of a phase is an end mark,
 * which says how many there were and what they add up to.
 */
final class Ticks {
    /** Bytes of a record. */
    static final int BYTES = 40;
    /** Sequence number of an end mark. */
    private static final long END = -1;

    private Ticks() {}

    /** Writes records in order, and adds them up. */
    static final class Writer {
        private long count;
        private long sum;

        /** Puts the next record, with a time in nanoseconds. */
        void write(long time, ByteBuffer out) {
            long random = mixed(count);
            long price = 10_000 + (random & 127);
            long size = 1 + (random >>> 8 & 511);
            long symbol = random >>> 24 & 7;
            out.putLong(count).putLong(time).putLong(price).putLong(size).putLong(symbol);
            sum += count + time + price + size + symbol;
            count++;
        }

        /** Puts the end mark and begins anew. */
        void end(ByteBuffer out) {
            out.putLong(END).putLong(0).putLong(count).putLong(sum).putLong(0);
            count = 0;
            sum = 0;
        }
    }

    /** Reads what a writer wrote: each record must be the next, and all together must add up. */
    static final class Reader {
        private long count;
        private long sum;
        private long ended;

        /** The time of the next record, or -1 for the end mark. */
        long read(ByteBuffer in) {
            long number = in.getLong();
            long time = in.getLong();
            long price = in.getLong();
            long size = in.getLong();
            long symbol = in.getLong();
            if (number == END) {
                return end(price, size);
            }
            if (number != count) {
                throw new IllegalStateException("record " + number + " came where " + count + " was expected");
            }
            count++;
            sum += number + time + price + size + symbol;
            return time;
        }

        /** Records before the last end mark. */
        long ended() {
            return ended;
        }

        private long end(long sent, long sentSum) {
            if (sent != count || sentSum != sum) {
                throw new IllegalStateException(sent + " records that add up to " + sentSum + " were sent, "
                        + count + " that add up to " + sum + " came");
            }
            ended = count;
            count = 0;
            sum = 0;
            return END;
        }
    }

    /** A buffer for so many records. */
    static ByteBuffer buffer(int records) {
        return view(new byte[records * BYTES]);
    }

    /** The records in these bytes. */
    static ByteBuffer view(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** A hash, one multiplication: enough to look random to a compressor. */
    private static long mixed(long value) {
        long product = (value + 1) * 0x9e3779b97f4a7c15L;
        return product ^ (product >>> 32);
    }
}
