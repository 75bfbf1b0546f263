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

/** A consumer of the release, with assigned partitions or as a member of a group. */
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
        ClientDriver.Content told = new ClientDriver.Content();
        switch (what) {
            case "subscribe" -> {
                subscribed = true;
                consumer.subscribe(given.texts(), this);
            }
            case "assign" -> assign(given.positions());
            case "unassign" -> unassign(given.places());
            case "assignment" -> told.places(consumer.assignment());
            case "poll" -> records(consumer.poll(Duration.ofMillis(given.in.readInt())), told);
            case "commit" -> consumer.commitSync(given.offsets(), CALL);
            case "committed" -> committed(given, told);
            case "close" -> consumer.close(Duration.ofMillis(given.in.readLong()));
            default -> throw new IllegalArgumentException(what);
        }
        return told;
    }

    /** Adds partitions at the given offsets. For partitions that a group has assigned, it only seeks. */
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

    private void committed(ClientDriver.Frame given, ClientDriver.Content told) throws IOException {
        Duration within = Duration.ofMillis(given.in.readInt());
        List<TopicPartition> places = given.places();
        Map<TopicPartition, OffsetAndMetadata> known = consumer.committed(new HashSet<>(places), within);
        told.writeInt(places.size());
        for (TopicPartition place : places) {
            OffsetAndMetadata at = known.get(place);
            told.place(place);
            told.writeLong(at == null ? NONE : at.offset());
        }
    }

    static void records(ConsumerRecords<byte[], byte[]> given, ClientDriver.Content told) throws IOException {
        told.writeInt(given.partitions().size());
        for (TopicPartition place : given.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> some = given.records(place);
            told.place(place);
            told.writeInt(some.size());
            for (ConsumerRecord<byte[], byte[]> record : some) {
                Optional<Integer> epoch = record.leaderEpoch();
                told.writeLong(record.offset());
                told.writeLong(record.timestamp());
                told.writeInt(epoch.orElse(-1));
                Header[] headers = record.headers().toArray();
                told.writeInt(headers.length);
                told.content(record.key());
                told.content(record.value());
                for (Header header : headers) {
                    told.text(header.key());
                    told.content(header.value());
                }
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> places) {
        tell('a', places);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> places) {
        tell('r', places);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> places) {
        tell('l', places);
    }

    /** Runs the rebalance listener of the harness: sends the partitions, and serves requests until it reports the end. */
    private void tell(char what, Collection<TopicPartition> places) {
        try {
            ClientDriver.Content frame = new ClientDriver.Content();
            frame.writeByte('B');
            frame.writeByte(what);
            frame.places(places);
            driver.write(frame);
            while (driver.serve(this) != 'D') {
                // serves requests that the listener makes
            }
        } catch (IOException | InterruptedException gone) {
            throw new IllegalStateException(gone);
        }
    }
}
