package durability;

import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer of the release, assigned or in a group. */
final class ClientConsumer implements ClientDriver.Role, ConsumerRebalanceListener {
    private static final long BEGINNING = -2;
    private static final long NONE = -1001;
    private static final Duration CALL = Duration.ofSeconds(5);

    private final ClientDriver driver;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private boolean subscribed;

    ClientConsumer(Map<String, Object> settings, ClientDriver driver) {
        this.driver = driver;
        if (Boolean.parseBoolean(String.valueOf(settings.get("enable.auto.commit")))) {
            settings.put("interceptor.classes", ClientCommits.class.getName());
            settings.put(ClientCommits.DRIVER, driver);
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public boolean fatal(Throwable failure) {
        return failure instanceof AuthenticationException || failure instanceof GroupAuthorizationException
            || failure instanceof UnsupportedVersionException || failure instanceof FencedInstanceIdException
            || failure instanceof IllegalStateException || failure instanceof IllegalArgumentException;
    }

    @Override
    public ClientDriver.Content call(String what, ClientDriver.Frame given) throws IOException {
        ClientDriver.Content answer = new ClientDriver.Content();
        switch (what) {
            case "subscribe" -> {
                subscribed = true;
                consumer.subscribe(given.texts(), this);
            }
            case "assign" -> assign(given.positions());
            case "unassign" -> unassign(given.places());
            case "assignment" -> answer.places(consumer.assignment());
            case "poll" -> records(consumer.poll(Duration.ofMillis(given.in.readInt())), answer);
            case "commit" -> consumer.commitSync(given.offsets(), CALL);
            case "committed" -> committed(given, answer);
            case "close" -> consumer.close(Duration.ofMillis(given.in.readLong()));
            default -> throw new IllegalArgumentException(what);
        }
        return answer;
    }

    /** Adds partitions at these positions. In a group it only seeks, because the group assigns the partitions. */
    private void assign(Map<TopicPartition, Long> positions) {
        if (!subscribed) {
            Set<TopicPartition> all = new HashSet<>(consumer.assignment());
            all.addAll(positions.keySet());
            consumer.assign(all);
        }
        positions.forEach((place, offset) -> {
            if (offset == BEGINNING) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, offset);
            }
        });
    }

    private void unassign(Collection<TopicPartition> places) {
        if (!subscribed) {
            Set<TopicPartition> all = new HashSet<>(consumer.assignment());
            all.removeAll(places);
            consumer.assign(all);
        }
    }

    private void committed(ClientDriver.Frame given, ClientDriver.Content answer) throws IOException {
        Duration within = Duration.ofMillis(given.in.readInt());
        List<TopicPartition> places = given.places();
        Map<TopicPartition, OffsetAndMetadata> known = consumer.committed(new HashSet<>(places), within);
        answer.writeInt(places.size());
        for (TopicPartition place : places) {
            OffsetAndMetadata at = known.get(place);
            answer.place(place);
            answer.writeLong(at == null ? NONE : at.offset());
        }
    }

    static void records(ConsumerRecords<byte[], byte[]> given, ClientDriver.Content answer) throws IOException {
        answer.writeInt(given.partitions().size());
        for (TopicPartition place : given.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> some = given.records(place);
            answer.place(place);
            answer.writeInt(some.size());
            for (ConsumerRecord<byte[], byte[]> record : some) {
                Optional<Integer> epoch = record.leaderEpoch();
                answer.writeLong(record.offset());
                answer.writeLong(record.timestamp());
                answer.writeInt(epoch.orElse(-1));
                Header[] headers = record.headers().toArray();
                answer.writeInt(headers.length);
                answer.content(record.key());
                answer.content(record.value());
                for (Header header : headers) {
                    answer.text(header.key());
                    answer.content(header.value());
                }
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        report('a', places);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        report('r', places);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        report('l', places);
    }

    /** Here the harness acts as an application does in its rebalance listener. It sends 'D' when it has finished. */
    private void report(char what, Collection<TopicPartition> places) {
        try {
            ClientDriver.Content frame = new ClientDriver.Content();
            frame.writeByte('B');
            frame.writeByte(what);
            frame.places(places);
            driver.write(frame);
            while (driver.serve(this) != 'D') {
                // requests that the harness makes meanwhile
            }
        } catch (IOException | InterruptedException closed) {
            throw new IllegalStateException(closed);
        }
    }
}
