package durability;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaClientSupplier;

/** Makes the clients of Kafka Streams, which report every request of the library and its outcome. */
final class StreamsClients implements KafkaClientSupplier {
    private static final String TIMEOUT = "transaction.timeout.ms";

    private final StreamsDriver driver;
    private final int timeoutMs;

    StreamsClients(StreamsDriver driver, int timeoutMs) {
        this.driver = driver;
        this.timeoutMs = timeoutMs;
    }

    @Override
    public Admin getAdmin(Map<String, Object> settings) {
        return Admin.create(settings);
    }

    /** Kafka Streams requires a transaction timeout above commit.interval.ms, which this application does not use. */
    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> settings) {
        if (settings.containsKey("transactional.id")) {
            settings.put(TIMEOUT, timeoutMs);
        } else {
            settings.remove(TIMEOUT);
        }
        return new ReportingProducer(settings);
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> settings) {
        return new ReportingConsumer(settings);
    }

    @Override
    public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> settings) {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> settings) {
        return getRestoreConsumer(settings);
    }

    private static String named(Throwable failure) {
        return failure == null ? "" : failure.getClass().getSimpleName();
    }

    private void offsets(boolean inTransaction, Map<TopicPartition, OffsetAndMetadata> given, long at, String error) {
        driver.report('O', frame -> {
            frame.writeByte(inTransaction ? 1 : 0);
            frame.writeLong(at);
            frame.text(error);
            offsets(frame, given);
        });
    }

    private static void offsets(ClientDriver.Content frame, Map<TopicPartition, OffsetAndMetadata> given)
        throws IOException {
        Map<TopicPartition, OffsetAndMetadata> known = new HashMap<>(given);
        known.values().removeIf(Objects::isNull);
        frame.writeInt(known.size());
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each : known.entrySet()) {
            frame.place(each.getKey());
            frame.writeLong(each.getValue().offset());
        }
    }

    private final class ReportingConsumer extends KafkaConsumer<byte[], byte[]> {
        ReportingConsumer(Map<String, Object> settings) {
            super(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        /** The start position of Kafka Streams may be a commit whose process died before its acknowledgement. */
        @Override
        public Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> places) {
            Map<TopicPartition, OffsetAndMetadata> found = super.committed(places);
            driver.report('G', frame -> offsets(frame, found));
            return found;
        }

        @Override
        public void commitSync(Map<TopicPartition, OffsetAndMetadata> given) {
            long at = System.currentTimeMillis();
            try {
                super.commitSync(given);
            } catch (RuntimeException failure) {
                offsets(false, given, at, named(failure));
                throw failure;
            }
            offsets(false, given, at, "");
            driver.allCommitted();
        }
    }

    private final class ReportingProducer extends KafkaProducer<byte[], byte[]> {
        ReportingProducer(Map<String, Object> settings) {
            super(settings, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback back) {
            StreamsDriver.Given given = driver.given;
            int partition = given.lane().partition;
            long sequence = given.lane().next;
            driver.report('S', frame -> {
                frame.writeInt(partition);
                frame.writeLong(sequence);
                frame.writeLong(given.atMs());
                frame.writeInt(given.source());
                frame.writeInt(given.partition());
                frame.writeLong(given.offset());
            });
            given.lane().next++;
            return super.send(record, (where, failure) -> {
                driver.report('A', frame -> {
                    frame.writeInt(partition);
                    frame.writeLong(sequence);
                    frame.writeLong(failure == null && where.hasOffset() ? where.offset() : -1);
                    frame.text(named(failure));
                });
                back.onCompletion(where, failure);
            });
        }

        @Override
        public void beginTransaction() {
            end('b');
            super.beginTransaction();
        }

        @Override
        public void sendOffsetsToTransaction(
                Map<TopicPartition, OffsetAndMetadata> given, ConsumerGroupMetadata group) {
            long at = System.currentTimeMillis();
            try {
                super.sendOffsetsToTransaction(given, group);
            } catch (RuntimeException failure) {
                offsets(true, given, at, named(failure));
                throw failure;
            }
            offsets(true, given, at, "");
            if (driver.due("offsets")) {
                driver.hold();
            }
        }

        @Override
        public void commitTransaction() {
            end('t');
            super.commitTransaction();
            if (driver.due("commit")) {
                driver.hold();
            }
            end('c');
            driver.allCommitted();
        }

        @Override
        public void abortTransaction() {
            super.abortTransaction();
            end('a');
            driver.allCommitted();
        }

        /** Reports that a transaction begins ('b'), is being committed ('t'), is committed ('c') or aborted ('a'). */
        private void end(char what) {
            long at = System.currentTimeMillis();
            driver.report('T', frame -> {
                frame.writeByte(what);
                frame.writeLong(at);
            });
        }
    }
}
