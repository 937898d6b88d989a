import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A topic with a partition for each pair, made new and removed at the end. */
final class Topic implements AutoCloseable {
    /** What is removed may linger, so each has a name of its own. */
    private static int made;

    private final String name = "ticks" + made++;

    private final Settings settings;
    private final Admin admin;

    Topic(Settings settings) throws Exception {
        this.settings = settings;
        admin = Admin.create(Map.of("bootstrap.servers", settings.url()));
        NewTopic topic = new NewTopic(name, Optional.of(settings.pairs()), Optional.of((short) 1));
        // What is deleted goes at once, so that a short run does not fill the disk.
        admin.createTopics(List.of(topic.configs(Map.of("file.delete.delay.ms", "0")))).all().get();
    }

    @Override
    public void close() throws Exception {
        admin.deleteTopics(List.of(name)).all().get();
        admin.close();
    }

    /** Produces into one partition over a connection of its own. */
    final class Producer implements AutoCloseable {
        private final KafkaProducer<byte[], byte[]> producer;
        private final int partition;
        private volatile Exception failure;

        Producer(int partition) throws Exception {
            Map<String, Object> all = settings.of("producer.");
            all.put("bootstrap.servers", settings.url());
            producer = new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
            this.partition = partition;
            // A partition that was just made may refuse what comes first; sent again, it would stand behind the next.
            finish(new Ticks.Writer());
        }

        /** Sends one message; it is acknowledged later. */
        void send(byte[] payload) throws Exception {
            producer.send(new ProducerRecord<>(name, partition, null, payload), (metadata, error) -> {
                if (error != null) {
                    failure = error;
                }
            });
            if (failure != null) {
                throw failure;
            }
        }

        /** Sends the end mark and waits until all are acknowledged. */
        void finish(Ticks.Writer writer) throws Exception {
            ByteBuffer payload = Ticks.buffer(1);
            writer.end(payload);
            send(payload.array());
            producer.flush();
            if (failure != null) {
                throw failure;
            }
        }

        @Override
        public void close() {
            producer.close();
        }
    }

    /** Reads one partition from its beginning, over a connection of its own. */
    final class Consumer implements AutoCloseable {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private Iterator<ConsumerRecord<byte[], byte[]>> polled = Collections.emptyIterator();

        Consumer(int partition) {
            Map<String, Object> all = settings.of("consumer.");
            all.put("bootstrap.servers", settings.url());
            all.put("auto.offset.reset", "earliest");
            consumer = new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            TopicPartition assigned = new TopicPartition(name, partition);
            consumer.assign(List.of(assigned));
            consumer.seekToBeginning(List.of(assigned));
        }

        /** Waits for the producer's first message, an end mark of no records. */
        void meetProducer() {
            next();
        }

        /** The payload of the next message. */
        byte[] next() {
            while (!polled.hasNext()) {
                polled = consumer.poll(Duration.ofSeconds(1)).iterator();
            }
            return polled.next().value();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
