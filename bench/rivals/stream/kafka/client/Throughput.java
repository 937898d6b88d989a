import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.Executors;

/**
 * Full speed: so many producers, each to a consumer of its own through a partition of its own.
 *
 * The warm-up is sent, acknowledged and received before the clock starts. It stops when the last consumer has its end
 * mark and found all records there.
 */
final class Throughput {
    /** Messages between two looks at the clock. */
    private static final int CLOCK_INTERVAL = 32;
    /** Step of the time in the records, which nobody waits for here. */
    private static final long TIME_STEP = 20_000;

    private final Settings settings;
    private final Topic topic;
    private final CyclicBarrier barrier;

    private Throughput(Settings settings, Topic topic) {
        this.settings = settings;
        this.topic = topic;
        barrier = new CyclicBarrier(2 * settings.pairs());
    }

    /** How many records there were and the seconds they took, as JSON. */
    static String measure(Settings settings) throws Exception {
        try (Topic topic = new Topic(settings)) {
            return new Throughput(settings, topic).run();
        }
    }

    /** Of a producer the count is 0, of a consumer the start is later than any. */
    private record Phase(long count, long started, long ended) {}

    private String run() throws Exception {
        // Not waited for: one that fails ends the program.
        var pool = Executors.newCachedThreadPool();
        var tasks = new ExecutorCompletionService<Phase>(pool);
        for (int pair = 0; pair < settings.pairs(); pair++) {
            int partition = pair;
            tasks.submit(() -> consume(partition));
            tasks.submit(() -> produce(partition));
        }
        List<Phase> phases = new ArrayList<>();
        while (phases.size() < 2 * settings.pairs()) {
            phases.add(taken(tasks));
        }
        pool.shutdown();
        return json(phases);
    }

    /** Whoever fails first is heard at once: the others may wait for it for ever. */
    private static Phase taken(ExecutorCompletionService<Phase> tasks) throws Exception {
        try {
            return tasks.take().get();
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    private static String json(List<Phase> phases) {
        long count = phases.stream().mapToLong(Phase::count).sum();
        long started = phases.stream().mapToLong(Phase::started).min().orElseThrow();
        long ended = phases.stream().mapToLong(Phase::ended).max().orElseThrow();
        return "{\"messages\": " + count + ", \"seconds\": " + (ended - started) / 1e9 + "}";
    }

    private Phase produce(int partition) throws Exception {
        try (Topic.Producer producer = topic.new Producer(partition)) {
            send(producer, settings.warmupNanos());
            barrier.await();
            long started = System.nanoTime();
            send(producer, settings.durationNanos());
            return new Phase(0, started, Long.MIN_VALUE);
        }
    }

    private void send(Topic.Producer producer, long nanos) throws Exception {
        Ticks.Writer writer = new Ticks.Writer();
        long time = 0;
        long started = System.nanoTime();
        while (System.nanoTime() - started < nanos) {
            for (int sent = 0; sent < CLOCK_INTERVAL; sent++) {
                ByteBuffer payload = Ticks.buffer(settings.packed());
                while (payload.hasRemaining()) {
                    time += TIME_STEP;
                    writer.write(time, payload);
                }
                producer.send(payload.array());
            }
        }
        producer.finish(writer);
    }

    private Phase consume(int partition) throws Exception {
        try (Topic.Consumer consumer = topic.new Consumer(partition)) {
            consumer.meetProducer();
            Ticks.Reader reader = new Ticks.Reader();
            receive(consumer, reader);
            barrier.await();
            receive(consumer, reader);
            return new Phase(reader.ended(), Long.MAX_VALUE, System.nanoTime());
        }
    }

    /** Reads up to the end mark. */
    private static void receive(Topic.Consumer consumer, Ticks.Reader reader) {
        while (true) {
            ByteBuffer payload = Ticks.view(consumer.next());
            while (payload.hasRemaining()) {
                if (reader.read(payload) < 0) {
                    return;
                }
            }
        }
    }
}
