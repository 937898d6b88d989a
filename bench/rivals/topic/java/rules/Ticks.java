/**
 * The records that every rival carries: 64-bit words. `record.rs` makes the same.
 *
 * Sequence number, time, price, size, symbol, and in longer records whatever fills them. The last record of a phase is an
 * end mark, which says how many there were and what all their words add up to.
 */
final class Ticks {
    /** Words of the short record, 40 bytes. */
    static final int SHORT = 5;
    /** Sequence number of an end mark. */
    private static final long END = -1;

    private Ticks() {}

    /** Writes messages of records with so many words each, in order, and adds them up. */
    static final class Writer {
        private final int words;
        private long count;
        private long sum;

        Writer(int words) {
            this.words = words;
        }

        /** Fills a message with the next records, all with this time in nanoseconds. */
        void write(long time, long[] message) {
            for (int at = 0; at < message.length; at += words) {
                fill(time, message, at);
            }
        }

        /** Fills a message with the end mark. */
        void end(long[] message) {
            message[0] = END;
            message[2] = count;
            message[3] = sum;
        }

        private void fill(long time, long[] out, int at) {
            long random = mixed(count);
            out[at] = count;
            out[at + 1] = time;
            out[at + 2] = 10_000 + (random & 127);
            out[at + 3] = 1 + (random >>> 8 & 511);
            out[at + 4] = random >>> 24 & 7;
            for (int rest = at + SHORT; rest < at + words; rest++) {
                out[rest] = random;
            }
            for (int word = at; word < at + words; word++) {
                sum += out[word];
            }
            count++;
        }
    }

    /** Reads what a writer wrote: each record must be the next, and all together must add up. */
    static final class Reader {
        private final int words;
        private long count;
        private long sum;
        private boolean isOver;

        Reader(int words) {
            this.words = words;
        }

        /** Reads a message; returns its time, or -1 for the end mark. */
        long read(long[] message) {
            if (isOver || message[0] == END) {
                end(message);
                return END;
            }
            for (int at = 0; at < message.length; at += words) {
                add(message, at);
            }
            return message[1];
        }

        /** Whether all have come. */
        boolean isOver() {
            return isOver;
        }

        /** Records that came. */
        long count() {
            return count;
        }

        private void add(long[] in, int at) {
            if (in[at] != count) {
                throw new IllegalStateException("record " + in[at] + " came where " + count + " was expected");
            }
            count++;
            for (int word = at; word < at + words; word++) {
                sum += in[word];
            }
        }

        private void end(long[] message) {
            if (isOver || message[2] != count || message[3] != sum) {
                throw new IllegalStateException(message[2] + " records that add up to " + message[3]
                        + " were sent, " + count + " that add up to " + sum + " came");
            }
            isOver = true;
        }
    }

    /** A hash, one multiplication: enough that no record is like another. */
    private static long mixed(long value) {
        long product = (value + 1) * 0x9e3779b97f4a7c15L;
        return product ^ (product >>> 32);
    }
}
