import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;

/** Aeron IPC: a media driver's folder in shared memory, with the driver if this process is its host. */
public final class AeronIpc implements Medium {
    private static final int STREAM = 1_001;
    /** Messages that a poll may give. */
    private static final int FRAGMENTS = 256;

    private final String folder;
    private final String channel;
    private final MediaDriver driver;

    private AeronIpc(Settings settings) {
        folder = "/dev/shm/" + settings.place();
        channel = "aeron:ipc?term-length=" + settings.term();
        driver = settings.isGuest() ? null : launch(folder);
    }

    public static void main(String[] none) {
        Main.run(AeronIpc::new);
    }

    /** One thread for the whole driver, as there are two cores; it backs off when idle, the default. */
    private static MediaDriver launch(String folder) {
        return MediaDriver.launch(new MediaDriver.Context().aeronDirectoryName(folder)
                .threadingMode(ThreadingMode.SHARED).dirDeleteOnStart(true).dirDeleteOnShutdown(true));
    }

    @Override
    public Medium.Publisher publisher(int words) {
        return new Sending(client(), channel);
    }

    @Override
    public Medium.Subscriber subscriber(int words) {
        return new Receiving(client(), channel, words);
    }

    @Override
    public void close() {
        CloseHelper.close(driver);
    }

    private Aeron client() {
        return Aeron.connect(new Aeron.Context().aeronDirectoryName(folder));
    }

    /** The sending end, with the client that it belongs to. */
    private static final class Sending implements Medium.Publisher {
        private final Aeron client;
        private final ExclusivePublication publication;
        private final BufferClaim claim = new BufferClaim();

        Sending(Aeron client, String channel) {
            this.client = client;
            publication = client.addExclusivePublication(channel, STREAM);
        }

        @Override
        public boolean isConnected() {
            return publication.isConnected();
        }

        @Override
        public boolean publish(long[] message) {
            long position = publication.tryClaim(message.length * Long.BYTES, claim);
            if (position < 0) {
                check(position);
                return false;
            }
            for (int at = 0; at < message.length; at++) {
                claim.buffer().putLong(claim.offset() + at * Long.BYTES, message[at]);
            }
            claim.commit();
            return true;
        }

        @Override
        public void close() {
            CloseHelper.closeAll(publication, client);
        }

        private static void check(long position) {
            if (position == Publication.CLOSED || position == Publication.MAX_POSITION_EXCEEDED) {
                throw new IllegalStateException(Publication.errorString(position));
            }
        }
    }

    /** The receiving end, with the client that it belongs to. */
    private static final class Receiving implements Medium.Subscriber, FragmentHandler {
        private final Aeron client;
        private final Subscription subscription;
        private final long[] message;
        private Medium.Found found;

        Receiving(Aeron client, String channel, int words) {
            this.client = client;
            subscription = client.addSubscription(channel, STREAM);
            message = new long[words];
        }

        @Override
        public int poll(Medium.Found found) {
            this.found = found;
            return subscription.poll(this, FRAGMENTS);
        }

        @Override
        public void onFragment(DirectBuffer buffer, int offset, int length, Header header) {
            if (length != message.length * Long.BYTES) {
                throw new IllegalStateException("a message of " + length + " bytes");
            }
            for (int at = 0; at < message.length; at++) {
                message[at] = buffer.getLong(offset + at * Long.BYTES);
            }
            found.message(message);
        }

        @Override
        public void close() {
            CloseHelper.closeAll(subscription, client);
        }
    }
}
