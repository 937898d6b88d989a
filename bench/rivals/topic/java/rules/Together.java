import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;

/** One publisher and one subscriber, each on a thread and a core of its own. */
final class Together {
    /** How long a publisher waits for its subscriber. */
    private static final long CONNECT_NANOS_MAX = 10_000_000_000L;

    private Together() {}

    /** What a side does with its end. */
    interface Work<E, T> {
        T with(E end) throws Exception;
    }

    /**
     * Runs both at the same time, once both ends know each other; returns what the subscriber found. When either fails the
     * program ends, as the other may wait for it for good.
     */
    static <T> T run(Medium medium, int words, Work<Medium.Publisher, Void> publish,
            Work<Medium.Subscriber, T> subscribe) throws Exception {
        CyclicBarrier isSubscribed = new CyclicBarrier(2);
        CyclicBarrier isOver = new CyclicBarrier(2);
        FutureTask<Void> publisher = side("publisher", () -> {
            isSubscribed.await();
            // Before pinning, as threads of the rival's own would be pinned along.
            try (Medium.Publisher end = medium.publisher(words)) {
                pin(0);
                connect(end);
                publish.with(end);
                // Closed when the subscriber has all, as closing may take back what it has not read yet.
                isOver.await();
                return null;
            }
        });
        FutureTask<T> subscriber = side("subscriber", () -> {
            try (Medium.Subscriber end = medium.subscriber(words)) {
                pin(1);
                isSubscribed.await();
                T found = subscribe.with(end);
                isOver.await();
                return found;
            }
        });
        publisher.get();
        return subscriber.get();
    }

    /** Publishes, waiting for room. */
    static void publish(Medium.Publisher publisher, long[] message) {
        while (!publisher.publish(message)) {
            Thread.onSpinWait();
        }
    }

    /** Waits until a subscriber is there. */
    static void connect(Medium.Publisher publisher) throws InterruptedException {
        long started = System.nanoTime();
        while (!publisher.isConnected()) {
            if (System.nanoTime() - started > CONNECT_NANOS_MAX) {
                throw new IllegalStateException("no subscriber within 10 s");
            }
            Thread.sleep(1);
        }
    }

    private static <T> FutureTask<T> side(String name, Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(() -> {
            try {
                return work.call();
            } catch (Throwable error) {
                Main.fail(error);
                throw error;
            }
        });
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** Binds this thread to a core; Java itself cannot. */
    private static void pin(int core) throws Exception {
        String thread = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
        Process taskset = new ProcessBuilder("taskset", "-cp", Integer.toString(core), thread)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        if (taskset.waitFor() != 0) {
            throw new IllegalStateException("pinning to core " + core + " failed");
        }
    }
}
