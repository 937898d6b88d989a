/**
 * How many records a second pass at full speed from one publisher to one subscriber.
 *
 * Two phases of the same, of which the first is to warm up; each ends with an end mark, and the subscriber's clock runs
 * from the first message of the second to its mark.
 */
final class Throughput {
    /** Messages between two looks at the clock, which would cost more than a message. */
    private static final int CLOCK_INTERVAL = 1_024;

    private Throughput() {}

    /** Records that came, all there, and in how many seconds; as JSON. */
    static String measure(Medium medium, Settings settings) throws Exception {
        int words = Ticks.SHORT * settings.packed();
        return Together.run(medium, words, end -> {
            produce(settings.warmupNanos(), words, end);
            produce(settings.durationNanos(), words, end);
            return null;
        }, Throughput::receive);
    }

    private static void produce(long nanos, int words, Medium.Publisher publisher) {
        long[] message = new long[words];
        Ticks.Writer writer = new Ticks.Writer(Ticks.SHORT);
        long started = System.nanoTime();
        while (System.nanoTime() - started < nanos) {
            for (int left = CLOCK_INTERVAL; left > 0; left--) {
                writer.write(0, message);
                Together.publish(publisher, message);
            }
        }
        writer.end(message);
        Together.publish(publisher, message);
    }

    private static String receive(Medium.Subscriber subscriber) {
        Receiver receiver = new Receiver();
        while (!receiver.reader.isOver()) {
            if (subscriber.poll(receiver) == 0) {
                Thread.onSpinWait();
            }
        }
        double seconds = (System.nanoTime() - receiver.started) * 1e-9;
        return "{\"messages\": " + receiver.reader.count() + ", \"seconds\": " + seconds + "}";
    }

    private static final class Receiver implements Medium.Found {
        private final Ticks.Reader warmup = new Ticks.Reader(Ticks.SHORT);
        private final Ticks.Reader reader = new Ticks.Reader(Ticks.SHORT);
        private long started;

        @Override
        public void message(long[] words) {
            if (!warmup.isOver()) {
                warmup.read(words);
                return;
            }
            if (started == 0) {
                started = System.nanoTime();
            }
            reader.read(words);
        }
    }
}
