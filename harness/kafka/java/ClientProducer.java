package durability;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer of the release. It reports the outcome of each record once, in the order of the client's callbacks. */
final class ClientProducer implements ClientDriver.Role {
    private static final long NUMBERS_EVERY_MS = 500;

    private final ClientDriver driver;
    private final KafkaProducer<byte[], byte[]> producer;
    private final boolean transactional;
    private final Thread worker = Thread.currentThread();
    private final BlockingQueue<Done> done = new LinkedBlockingQueue<>();
    private boolean sending;  // only the worker uses it

    ClientProducer(Map<String, Object> settings, ClientDriver driver) {
        this.driver = driver;
        transactional = settings.containsKey("transactional.id");
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        Thread reports = new Thread(this::report, "reports");
        reports.setDaemon(true);
        reports.start();
    }

    private record Done(long id, long offset, String error, int flags) { }

    @Override
    public void send(ClientDriver.Frame frame) throws IOException {
        long id = frame.in.readLong();
        String topic = frame.text();
        int partition = frame.in.readInt();
        long at = frame.in.readLong();
        for (int left = frame.in.readInt(); left > 0; left--, id++) {
            byte[] key = frame.content();
            byte[] value = frame.content();
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(topic, partition, at < 0 ? null : at, key, value);
            for (int headers = frame.in.readInt(); headers > 0; headers--) {
                record.headers().add(frame.text(), frame.content());
            }
            enqueue(id, record);
        }
    }

    private void enqueue(long id, ProducerRecord<byte[], byte[]> record) {
        Callback report = (where, failure) -> done.add(failure == null
            ? new Done(id, where.hasOffset() ? where.offset() : -1, "", 0)
            : new Done(id, -1, failure.getClass().getSimpleName(), flags(failure)));
        sending = true;
        try {
            producer.send(record, report);
        } catch (RuntimeException failure) {
            // The record may be in the buffer all the same. The harness ignores a second report.
            done.add(new Done(id, -1, failure.getClass().getSimpleName(), ClientDriver.FATAL));
        } finally {
            sending = false;
        }
    }

    /** NEVER_SENT: reported before `send` returned, with an error by which the record never entered the buffer. */
    private int flags(Throwable failure) {
        boolean within = Thread.currentThread() == worker && sending && !transactional;
        boolean never = failure instanceof RecordTooLargeException || failure instanceof TimeoutException
            || failure instanceof InvalidTopicException;
        return (fatal(failure) ? ClientDriver.FATAL : 0) | (within && never ? ClientDriver.NEVER_SENT : 0);
    }

    @Override
    public boolean fatal(Throwable failure) {
        return failure instanceof ProducerFencedException || failure instanceof AuthenticationException
            || failure instanceof ClusterAuthorizationException || failure instanceof UnsupportedVersionException
            || failure instanceof TransactionalIdAuthorizationException || failure instanceof IllegalStateException;
    }

    @Override
    public ClientDriver.Content call(String what, ClientDriver.Frame given) throws IOException {
        ClientDriver.Content answer = new ClientDriver.Content();
        switch (what) {
            case "partitions" -> answer.writeInt(producer.partitionsFor(given.text()).size());
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "offsets" -> {
                ConsumerGroupMetadata group = new ConsumerGroupMetadata(given.text());
                producer.sendOffsetsToTransaction(given.offsets(), group);
            }
            case "close" -> producer.close(Duration.ofMillis(given.in.readLong()));
            default -> throw new IllegalArgumentException(what);
        }
        return answer;
    }

    /** Sends reports as they come, and twice a second the number of retries. */
    private void report() {
        try {
            List<Done> some = new ArrayList<>();
            long numbersAt = System.nanoTime();
            while (true) {
                Done first = done.poll(NUMBERS_EVERY_MS, TimeUnit.MILLISECONDS);
                if (first != null) {
                    some.add(first);
                    done.drainTo(some, 10_000);
                    reports(some);
                    some.clear();
                }
                if (System.nanoTime() - numbersAt > NUMBERS_EVERY_MS * 1_000_000) {
                    numbersAt = System.nanoTime();
                    numbers();
                }
            }
        } catch (IOException | InterruptedException closed) {
            Runtime.getRuntime().halt(3);
        }
    }

    private void reports(List<Done> some) throws IOException {
        for (int from = 0, to; from < some.size(); from = to) {
            Done one = some.get(from);
            to = from + 1;
            while (to < some.size() && some.get(to).error.equals(one.error) && some.get(to).flags == one.flags) {
                to++;
            }
            ClientDriver.Content frame = new ClientDriver.Content();
            frame.writeByte('A');
            frame.text(one.error);
            frame.writeByte(one.flags);
            frame.writeInt(to - from);
            for (Done each : some.subList(from, to)) {
                frame.writeLong(each.id);
                frame.writeLong(each.offset);
            }
            driver.write(frame);
        }
    }

    private void numbers() throws IOException {
        for (Map.Entry<MetricName, ? extends Metric> each : producer.metrics().entrySet()) {
            MetricName name = each.getKey();
            if (name.group().equals("producer-metrics") && name.name().equals("record-retry-total")) {
                ClientDriver.Content frame = new ClientDriver.Content();
                frame.writeByte('N');
                frame.writeLong(((Number) each.getValue().metricValue()).longValue());
                driver.write(frame);
            }
        }
    }
}
