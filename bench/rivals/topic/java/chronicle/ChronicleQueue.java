import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueue;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.wire.DocumentContext;

/** Chronicle Queue: a folder in shared memory, which keeps all that was published until it is removed. */
public final class ChronicleQueue implements Medium {
    private static final long BLOCK_BYTES = 256 << 20;

    private final Path folder;
    private final boolean isGuest;

    private ChronicleQueue(Settings settings) {
        folder = Path.of("/dev/shm", settings.place());
        isGuest = settings.isGuest();
    }

    public static void main(String[] none) {
        Main.run(ChronicleQueue::new);
    }

    @Override
    public Medium.Publisher publisher(int words) {
        return new Sending(open());
    }

    @Override
    public Medium.Subscriber subscriber(int words) {
        return new Receiving(open(), words);
    }

    @Override
    public void close() {
        if (!isGuest) {
            remove(folder);
        }
    }

    private SingleChronicleQueue open() {
        return SingleChronicleQueueBuilder.binary(folder).blockSize(BLOCK_BYTES).build();
    }

    private static void remove(Path folder) {
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static final class Sending implements Medium.Publisher {
        private final SingleChronicleQueue queue;
        private final ExcerptAppender appender;

        Sending(SingleChronicleQueue queue) {
            this.queue = queue;
            appender = queue.createAppender();
        }

        /** A queue keeps what nobody reads yet. */
        @Override
        public boolean isConnected() {
            return true;
        }

        @Override
        public boolean publish(long[] message) {
            try (DocumentContext document = appender.writingDocument()) {
                Bytes<?> bytes = document.wire().bytes();
                for (long word : message) {
                    bytes.writeLong(word);
                }
            }
            return true;
        }

        @Override
        public void close() {
            appender.close();
            queue.close();
        }
    }

    private static final class Receiving implements Medium.Subscriber {
        private final SingleChronicleQueue queue;
        private final ExcerptTailer tailer;
        private final long[] message;

        Receiving(SingleChronicleQueue queue, int words) {
            this.queue = queue;
            tailer = queue.createTailer();
            message = new long[words];
        }

        @Override
        public int poll(Medium.Found found) {
            try (DocumentContext document = tailer.readingDocument()) {
                if (!document.isPresent()) {
                    return 0;
                }
                read(document.wire().bytes());
            }
            found.message(message);
            return 1;
        }

        private void read(Bytes<?> bytes) {
            if (bytes.readRemaining() != (long) message.length * Long.BYTES) {
                throw new IllegalStateException("a message of " + bytes.readRemaining() + " bytes");
            }
            for (int at = 0; at < message.length; at++) {
                message[at] = bytes.readLong();
            }
        }

        @Override
        public void close() {
            tailer.close();
            queue.close();
        }
    }
}
