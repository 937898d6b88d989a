import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/** What the death of a subscriber does to its publisher: both in processes of their own, the subscriber's to be killed. */
final class Stall {
    private static final long SECOND = 1_000_000_000L;

    private Stall() {}

    /**
     * Publishes at full speed for so long, from when a subscriber is there, and tells how long the longest time was in which
     * nothing could be published, and whether that was so until the end.
     */
    static String publish(Medium medium, Settings settings) throws Exception {
        AtomicLong published = new AtomicLong();
        AtomicBoolean isOver = new AtomicBoolean();
        Thread thread = new Thread(() -> keepPublishing(medium, published, isOver), "publisher");
        thread.setDaemon(true);
        thread.start();
        while (published.get() == 0) {
            Thread.sleep(1);
        }
        long longest = 0;
        long count = 0;
        long since = System.nanoTime();
        long until = since + settings.durationNanos();
        while (System.nanoTime() < until) {
            Thread.sleep(1);
            long now = published.get();
            longest = Math.max(longest, System.nanoTime() - since);
            if (now != count) {
                count = now;
                since = System.nanoTime();
            }
        }
        long last = System.nanoTime() - since;
        isOver.set(true);
        return "{\"stall_ms\": " + longest / 1_000_000 + ", \"hangs\": "
                + (last >= longest && last > SECOND) + "}";
    }

    /** Says when it is there, and takes whatever comes until the process is killed. */
    static String subscribe(Medium medium) throws Exception {
        try (Medium.Subscriber subscriber = medium.subscriber(Ticks.SHORT)) {
            System.out.println("{\"subscribed\": true}");
            while (true) {
                subscriber.poll(words -> {});
            }
        }
    }

    private static void keepPublishing(Medium medium, AtomicLong published, AtomicBoolean isOver) {
        try (Medium.Publisher publisher = medium.publisher(Ticks.SHORT)) {
            Together.connect(publisher);
            long[] message = new long[Ticks.SHORT];
            Ticks.Writer writer = new Ticks.Writer(Ticks.SHORT);
            while (!isOver.get()) {
                writer.write(0, message);
                // A publisher that is told that nobody listens any more is not held up.
                if (publisher.publish(message) || !publisher.isConnected()) {
                    published.incrementAndGet();
                }
            }
        } catch (Throwable error) {
            Main.fail(error);
        }
    }
}
