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

/** The clients that Kafka Streams would create, which also report their calls and the results of these. */
final class StreamsClients implements KafkaClientSupplier {
    private static final String TIMEOUT = "transaction.timeout.ms";

    private final StreamsDriver told;
    private final int timeoutMs;

    StreamsClients(StreamsDriver told, int timeoutMs) {
        this.told = told;
        this.timeoutMs = timeoutMs;
    }

    @Override
    public Admin getAdmin(Map<String, Object> settings) {
        return Admin.create(settings);
    }

    /**
     * Sets the real transaction timeout. Kafka Streams insists on one that is longer than commit.interval.ms, which is an
     * hour here, since the application requests its commits itself.
     */
    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> settings) {
        if (settings.containsKey("transactional.id")) {
            settings.put(TIMEOUT, timeoutMs);
        } else {
            settings.remove(TIMEOUT);
        }
        return new Telling(settings);
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> settings) {
        return new Committing(settings);
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
        told.tell('O', frame -> {
            frame.writeByte(inTransaction ? 1 : 0);
            frame.writeLong(at);
            frame.text(error);
            offsets(frame, given);
        });
    }

    private static void offsets(ClientDriver.Content frame, Map<TopicPartition, OffsetAndMetadata> given)
        throws IOException {
        Map<TopicPartition, OffsetAndMetadata> told = new HashMap<>(given);
        told.values().removeIf(Objects::isNull);
        frame.writeInt(told.size());
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each : told.entrySet()) {
            frame.place(each.getKey());
            frame.writeLong(each.getValue().offset());
        }
    }

    private final class Committing extends KafkaConsumer<byte[], byte[]> {
        Committing(Map<String, Object> settings) {
            super(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        /** Kafka Streams asks for its start offsets. They include a commit of a killed process that got no answer. */
        @Override
        public Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> places) {
            Map<TopicPartition, OffsetAndMetadata> found = super.committed(places);
            told.tell('G', frame -> offsets(frame, found));
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
            told.begunAnew();
        }
    }

    private final class Telling extends KafkaProducer<byte[], byte[]> {
        Telling(Map<String, Object> settings) {
            super(settings, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback back) {
            StreamsDriver.Given given = told.given;
            int partition = given.lane().partition;
            long sequence = given.lane().next;
            told.tell('S', frame -> {
                frame.writeInt(partition);
                frame.writeLong(sequence);
                frame.writeLong(given.atMs());
                frame.writeInt(given.source());
                frame.writeInt(given.partition());
                frame.writeLong(given.offset());
            });
            given.lane().next++;
            return super.send(record, (where, failure) -> {
                told.tell('A', frame -> {
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
        public void sendOffsetsToTransaction(Map<TopicPartition, OffsetAndMetadata> given, ConsumerGroupMetadata group) {
            long at = System.currentTimeMillis();
            try {
                super.sendOffsetsToTransaction(given, group);
            } catch (RuntimeException failure) {
                offsets(true, given, at, named(failure));
                throw failure;
            }
            offsets(true, given, at, "");
            if (told.due("offsets")) {
                told.hold();
            }
        }

        @Override
        public void commitTransaction() {
            end('t');
            super.commitTransaction();
            if (told.due("commit")) {
                told.hold();
            }
            end('c');
            told.begunAnew();
        }

        @Override
        public void abortTransaction() {
            super.abortTransaction();
            end('a');
            told.begunAnew();
        }

        /** Reports that a transaction begins ('b'), that its commit is tried ('t'), that it is committed or aborted. */
        private void end(char what) {
            long at = System.currentTimeMillis();
            told.tell('T', frame -> {
                frame.writeByte(what);
                frame.writeLong(at);
            });
        }
    }
}
