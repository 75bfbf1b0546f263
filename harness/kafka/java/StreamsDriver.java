package durability;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * An application of Kafka Streams that makes one record from each input record and reports what it does.
 *
 * It requests commits itself, in place of commit.interval.ms, so that an application that is to die does not commit
 * before. It reports a record before it is sent, its outcome, the beginning and end of a transaction, and commits of
 * offsets. Reports are in a pipe, so those of a process that died are not lost. The other end of the protocol is
 * harness/workload/java/kafka_streams.py.
 */
public final class StreamsDriver implements ClientDriver.Role {
    private static final Duration EVERY = Duration.ofMillis(100);
    private static final int RANGE_S = 30;

    final ClientDriver driver;
    private final List<String> reads;
    private final String sink;
    private final int partitions;
    private final long run;
    private final Lane[] lanes;
    private final Map<TopicPartition, long[]> uncommitted = new HashMap<>();  // of the application's only thread
    private final BlockingQueue<ClientDriver.Frame> ranges = new LinkedBlockingQueue<>();
    private final KafkaStreams streams;
    private int held;
    private volatile Death death;
    Given given;  // the input record of the record that is sent next

    /** The process dies at this moment of the next commit, once it has made that many uncommitted records. */
    private record Death(String at, int records) { }

    record Given(Lane lane, int source, int partition, long offset, long atMs) { }

    /** The records to one partition: a stream of the ledger. */
    static final class Lane {
        final int partition;
        int stream;
        long next;
        private long end;

        Lane(int partition) {
            this.partition = partition;
        }
    }

    public static void main(String[] arguments) {
        ClientDriver.drive((kind, settings, driver) -> new StreamsDriver(settings, driver));
    }

    private StreamsDriver(Map<String, Object> settings, ClientDriver driver) {
        this.driver = driver;
        reads = List.of(own(settings, "reads").split(","));
        sink = own(settings, "sink");
        partitions = Integer.parseInt(own(settings, "partitions"));
        run = Long.parseLong(own(settings, "run"));
        int timeoutMs = Integer.parseInt(own(settings, "transaction.timeout.ms"));
        lanes = new Lane[partitions];
        for (int at = 0; at < partitions; at++) {
            lanes[at] = new Lane(at);
        }
        Properties properties = new Properties();
        properties.putAll(settings);
        streams = new KafkaStreams(topology(), properties, new StreamsClients(this, timeoutMs));
        streams.setUncaughtExceptionHandler(failure -> {
            reportState("ERROR", failure);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((state, before) -> reportState(state.name(), null));
        streams.start();
    }

    private static String own(Map<String, Object> settings, String name) {
        return (String) settings.remove("durability." + name);
    }

    private Topology topology() {
        Topology topology = new Topology();
        Serializer<byte[]> bytes = Serdes.ByteArray().serializer();
        topology.addSource("given", Serdes.ByteArray().deserializer(), Serdes.ByteArray().deserializer(),
            reads.toArray(new String[0]));
        topology.addProcessor("making", Making::new, "given");
        return topology.addSink("made", sink, bytes, bytes, new ByGiven(), "making");
    }

    /** Sends the records of one input partition to one output partition, in their order. */
    private final class ByGiven implements StreamPartitioner<byte[], byte[]> {
        public Integer partition(String topic, byte[] key, byte[] value, int count) {  // before 4.0
            return given.lane().partition;
        }

        @Override
        public Optional<Set<Integer>> partitions(String topic, byte[] key, byte[] value, int count) {
            return Optional.of(Set.of(given.lane().partition));
        }
    }

    private final class Making implements Processor<byte[], byte[], byte[], byte[]> {
        private ProcessorContext<byte[], byte[]> context;

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            this.context = context;
            context.schedule(EVERY, PunctuationType.WALL_CLOCK_TIME, now -> {
                if (death == null) {
                    context.commit();
                }
            });
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata at = context.recordMetadata().orElseThrow();
            Lane lane = lanes[at.partition() % partitions];
            cover(lane);
            long now = System.currentTimeMillis();
            given = new Given(lane, reads.indexOf(at.topic()), at.partition(), at.offset(), now);
            context.forward(new Record<>(null, sealed(lane, record.value()), now));
            worked(new TopicPartition(at.topic(), at.partition()), at.offset());
            Death mine = death;
            if (due("produced")) {
                hold();
            } else if (mine != null && held >= mine.records) {
                context.commit();
            }
        }
    }

    /** Returns once the next sequence of a lane is reserved. */
    private void cover(Lane lane) {
        while (lane.next >= lane.end) {
            report('V', frame -> frame.writeInt(lane.partition));
            try {
                ClientDriver.Frame range = ranges.poll(RANGE_S, TimeUnit.SECONDS);
                if (range == null) {
                    throw new IllegalStateException("the harness reserved no sequences within " + RANGE_S + " s");
                }
                lane.stream = range.in.readInt();
                lane.end = range.in.readLong();
            } catch (IOException | InterruptedException failure) {
                throw new IllegalStateException(failure);
            }
        }
    }

    /** A payload as in harness/workload/records/payload.py: a prefix, the input value, and the CRC-32 of both. */
    private byte[] sealed(Lane lane, byte[] from) {
        int length = from == null ? 0 : from.length;
        ByteBuffer value = ByteBuffer.allocate(36 + length + 4).order(ByteOrder.LITTLE_ENDIAN);
        value.put("DUR1".getBytes(StandardCharsets.US_ASCII)).putLong(run).putInt(lane.stream).putLong(lane.next);
        value.putInt(sum(sink.getBytes(StandardCharsets.UTF_8), sink.length())).putInt(lane.partition).putInt(0);
        if (from != null) {
            value.put(from);
        }
        return value.putInt(sum(value.array(), 36 + length)).array();
    }

    private static int sum(byte[] of, int length) {
        CRC32 crc = new CRC32();
        crc.update(of, 0, length);
        return (int) crc.getValue();
    }

    private void worked(TopicPartition place, long offset) {
        held++;
        uncommitted.computeIfAbsent(place, any -> new long[] {offset, offset})[1] = offset + 1;
    }

    /** Every record so far is committed, or will be processed again after an abort. */
    void allCommitted() {
        held = 0;
        uncommitted.clear();
    }

    /** Whether the process is to die at this moment. */
    boolean due(String moment) {
        Death mine = death;
        return mine != null && mine.at.equals(moment) && held >= mine.records;
    }

    /** Waits until the process is killed or allowed to go on. */
    void hold() {
        Death mine = death;
        report('H', frame -> {
            frame.writeInt(uncommitted.size());
            for (Map.Entry<TopicPartition, long[]> each : uncommitted.entrySet()) {
                frame.place(each.getKey());
                frame.writeLong(each.getValue()[0]);
                frame.writeLong(each.getValue()[1]);
            }
        });
        try {
            while (death == mine) {
                Thread.sleep(20);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void reportState(String state, Throwable failure) {
        report('Z', frame -> {
            frame.text(state);
            frame.text(failure == null ? "" : String.valueOf(failure));
        });
    }

    interface Fields {
        void of(ClientDriver.Content frame) throws IOException;
    }

    void report(char what, Fields fields) {
        try {
            ClientDriver.Content frame = new ClientDriver.Content();
            frame.writeByte(what);
            fields.of(frame);
            driver.write(frame);
        } catch (IOException closed) {
            Runtime.getRuntime().halt(3);
        }
    }

    @Override
    public void send(ClientDriver.Frame range) {
        ranges.add(range);
    }

    @Override
    public ClientDriver.Content call(String what, ClientDriver.Frame asked) throws IOException {
        switch (what) {
            case "die" -> death = new Death(asked.text(), asked.in.readInt());
            case "live" -> death = null;
            case "close" -> {
                if (!streams.close(Duration.ofMillis(asked.in.readLong()))) {
                    throw new IllegalStateException("it did not close in time");
                }
            }
            default -> throw new IllegalArgumentException(what);
        }
        return new ClientDriver.Content();
    }

    @Override
    public boolean fatal(Throwable failure) {
        return true;
    }
}
