import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;

/**
 * From the time at which a record should be sent, by the timetable, until the consumer has it.
 *
 * One producer keeps the timetable: it sleeps until the next record is due, and sends whatever is due by then. Late
 * sending counts as latency.
 */
final class Latency {
    private static final int DIGITS = 3;

    private final Settings settings;
    private final Topic topic;
    private final CompletableFuture<Long> epoch = new CompletableFuture<>();

    private Latency(Settings settings, Topic topic) {
        this.settings = settings;
        this.topic = topic;
    }

    /** Percentiles in nanoseconds, as JSON. */
    static String measure(Settings settings) throws Exception {
        try (Topic topic = new Topic(settings)) {
            return json(new Latency(settings, topic).run());
        }
    }

    private static String json(Histogram histogram) {
        return "{\"messages\": " + histogram.getTotalCount() + ", \"p50\": " + histogram.getValueAtPercentile(50)
                + ", \"p90\": " + histogram.getValueAtPercentile(90) + ", \"p99\": "
                + histogram.getValueAtPercentile(99) + ", \"p99.9\": " + histogram.getValueAtPercentile(99.9)
                + ", \"max\": " + histogram.getMaxValue() + "}";
    }

    private Histogram run() throws Exception {
        var producer = new FutureTask<Void>(() -> {
            produce();
            return null;
        });
        try (Topic.Consumer consumer = topic.new Consumer(0)) {
            Thread thread = new Thread(producer, "producer");
            thread.setDaemon(true);
            thread.start();
            return receive(consumer);
        } finally {
            ended(producer);
        }
    }

    private static void ended(FutureTask<Void> producer) throws Exception {
        try {
            producer.get();
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    private void produce() throws Exception {
        long interval = 1_000_000_000 / settings.rate();
        long count = (settings.warmupNanos() + settings.durationNanos()) / interval;
        try (Topic.Producer producer = topic.new Producer(0)) {
            Ticks.Writer writer = new Ticks.Writer();
            long start = System.nanoTime();
            epoch.complete(start);
            for (long index = 0; index < count; index++) {
                long due = index * interval;
                sleepUntil(start + due);
                ByteBuffer payload = Ticks.buffer(1);
                writer.write(due, payload);
                producer.send(payload.array());
            }
            producer.finish(writer);
        } catch (Exception error) {
            epoch.completeExceptionally(error);
            throw error;
        }
    }

    private static void sleepUntil(long time) {
        for (long left = time - System.nanoTime(); left > 0; left = time - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private Histogram receive(Topic.Consumer consumer) throws Exception {
        Histogram histogram = new Histogram(DIGITS);
        Ticks.Reader reader = new Ticks.Reader();
        long start = epoch.get();
        consumer.meetProducer();
        while (true) {
            long due = reader.read(Ticks.view(consumer.next()));
            if (due < 0) {
                return histogram;
            }
            if (due >= settings.warmupNanos()) {
                histogram.recordValue(Math.max(0, System.nanoTime() - start - due));
            }
        }
    }
}
