package durability;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a share group (KIP-932). Every record of a poll is acknowledged before the next poll. */
final class ClientShare implements ClientDriver.Role {
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, Map<Long, ConsumerRecord<byte[], byte[]>>> held = new HashMap<>();

    ClientShare(Map<String, Object> settings) {
        consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public boolean fatal(Throwable failure) {
        return failure instanceof AuthenticationException || failure instanceof GroupAuthorizationException
            || failure instanceof UnsupportedVersionException || failure instanceof IllegalStateException
            || failure instanceof IllegalArgumentException;
    }

    @Override
    public ClientDriver.Content call(String what, ClientDriver.Frame given) throws IOException {
        ClientDriver.Content answer = new ClientDriver.Content();
        switch (what) {
            case "subscribe" -> consumer.subscribe(given.texts());
            case "poll" -> records(consumer.poll(Duration.ofMillis(given.in.readInt())), answer);
            case "acknowledge" -> acknowledge(given, answer);
            case "close" -> consumer.close(Duration.ofMillis(given.in.readLong()));
            default -> throw new IllegalArgumentException(what);
        }
        return answer;
    }

    /** The records as a consumer answers them, followed by the delivery count of each in the same order. */
    private void records(ConsumerRecords<byte[], byte[]> given, ClientDriver.Content answer) throws IOException {
        held.clear();
        ClientConsumer.records(given, answer);
        for (TopicPartition place : given.partitions()) {
            Map<Long, ConsumerRecord<byte[], byte[]>> here = held.computeIfAbsent(place, none -> new HashMap<>());
            for (ConsumerRecord<byte[], byte[]> record : given.records(place)) {
                here.put(record.offset(), record);
                answer.writeInt(record.deliveryCount().orElse((short) 0));
            }
        }
    }

    /** Acknowledges each record of the last poll. Answers the error of each partition, "" without one. */
    private void acknowledge(ClientDriver.Frame given, ClientDriver.Content answer) throws IOException {
        Duration within = Duration.ofMillis(given.in.readInt());
        for (int places = given.in.readInt(); places > 0; places--) {
            Map<Long, ConsumerRecord<byte[], byte[]>> here =
                held.get(new TopicPartition(given.text(), given.in.readInt()));
            for (int left = given.in.readInt(); left > 0; left--) {
                ConsumerRecord<byte[], byte[]> record = here.get(given.in.readLong());
                consumer.acknowledge(record, AcknowledgeType.forId(given.in.readByte()));
            }
        }
        Map<TopicIdPartition, Optional<KafkaException>> done = consumer.commitSync(within);
        answer.writeInt(done.size());
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : done.entrySet()) {
            answer.place(each.getKey().topicPartition());
            answer.text(each.getValue().map(failure -> failure.getClass().getSimpleName()).orElse(""));
        }
    }
}
