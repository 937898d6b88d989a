import org.HdrHistogram.Histogram;

/**
 * From the time at which a message should be sent, by the timetable, until the subscriber has read every word of it.
 *
 * The publisher spins until the next message is due, and publishes whatever is due by then. Late publishing counts as
 * latency, so that a publisher that was held up does not leave out what it should have sent meanwhile.
 */
final class Latency {
    private static final int DIGITS = 3;
    /** The largest latency that is told from larger ones. */
    private static final long NANOS_MAX = 60_000_000_000L;
    /** From when both sides are there until the first message is due. */
    private static final long LEAD_NANOS = 20_000_000;

    private Latency() {}

    /** Percentiles in nanoseconds, as JSON. */
    static String measure(Medium medium, Settings settings) throws Exception {
        int words = settings.recordWords();
        long epoch = System.nanoTime();
        return json(Together.run(medium, words, end -> produce(settings, end, epoch),
                end -> receive(settings, end, epoch)));
    }

    private static String json(Histogram histogram) {
        return "{\"messages\": " + histogram.getTotalCount() + ", \"p50\": " + histogram.getValueAtPercentile(50)
                + ", \"p99\": " + histogram.getValueAtPercentile(99) + ", \"p99.9\": "
                + histogram.getValueAtPercentile(99.9) + ", \"max\": " + histogram.getMaxValue() + "}";
    }

    private static Void produce(Settings settings, Medium.Publisher publisher, long epoch) {
        long rate = settings.rate();
        long count = (long) ((settings.warmupNanos() + settings.durationNanos()) * 1e-9 * rate);
        long[] message = new long[settings.recordWords()];
        Ticks.Writer writer = new Ticks.Writer(message.length);
        long first = System.nanoTime() - epoch + LEAD_NANOS;
        // So that the subscriber knows from when on to count.
        writer.write(first, message);
        Together.publish(publisher, message);
        for (long index = 1; index <= count; index++) {
            long due = first + index * 1_000_000_000 / rate;
            while (System.nanoTime() - epoch < due) {
                Thread.onSpinWait();
            }
            writer.write(due, message);
            Together.publish(publisher, message);
        }
        writer.end(message);
        Together.publish(publisher, message);
        return null;
    }

    private static Histogram receive(Settings settings, Medium.Subscriber subscriber, long epoch) {
        Receiver receiver = new Receiver(settings, epoch);
        while (!receiver.reader.isOver()) {
            if (subscriber.poll(receiver) == 0) {
                Thread.onSpinWait();
            }
        }
        return receiver.histogram;
    }

    private static final class Receiver implements Medium.Found {
        private final Histogram histogram = new Histogram(NANOS_MAX, DIGITS);
        private final Ticks.Reader reader;
        private final long warmup;
        private final long epoch;
        private long countedFrom = Long.MAX_VALUE;

        Receiver(Settings settings, long epoch) {
            reader = new Ticks.Reader(settings.recordWords());
            warmup = settings.warmupNanos();
            this.epoch = epoch;
        }

        @Override
        public void message(long[] words) {
            long due = reader.read(words);
            // Every word is in the sum by now.
            long now = System.nanoTime() - epoch;
            if (due < 0) {
                return;
            }
            if (countedFrom == Long.MAX_VALUE) {
                countedFrom = due + warmup;
            } else if (due >= countedFrom) {
                histogram.recordValue(Math.min(Math.max(0, now - due), NANOS_MAX));
            }
        }
    }
}
