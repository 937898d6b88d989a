/** What a rival must be able to do: carry messages from one publisher to one subscriber, losing none. */
interface Medium extends AutoCloseable {
    @Override
    void close();

    /** Makes the publisher, on the thread that will use it; messages are of so many words. */
    Publisher publisher(int words) throws Exception;

    /** Makes the subscriber, on the thread that will use it. */
    Subscriber subscriber(int words) throws Exception;

    /** Makes a medium where the settings say. */
    interface Maker {
        Medium make(Settings settings) throws Exception;
    }

    /** The sending end. */
    interface Publisher extends AutoCloseable {
        @Override
        void close();

        /** Whether what is published now reaches the subscriber. */
        boolean isConnected();

        /** Publishes, or says `false` when there is no room now. */
        boolean publish(long[] message);
    }

    /** The receiving end. */
    interface Subscriber extends AutoCloseable {
        @Override
        void close();

        /** Gives what has come, up to as much as the rival likes to give at once; returns how many messages. */
        int poll(Found found);
    }

    /** Takes a message, whose words are the receiver's only until it returns. */
    interface Found {
        void message(long[] words);
    }
}
