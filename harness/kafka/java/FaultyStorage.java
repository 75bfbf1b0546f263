package durability;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * A remote storage (KIP-405) that passes each operation to another storage, and injects the faults that orders describe.
 *
 * An order is a properties file in the folder of orders. It applies from the next operation until its file is deleted.
 * Each effect of an order is reported as a line in a file of this broker. The keys of an order:
 *
 * <ul>
 *   <li>`ops`: the operations: copy, fetch, index, delete.
 *   <li>`topic` and `partition`: if present, only operations on these.
 *   <li>`share`: the share of the operations that the order affects, from 0 to 1; all of them if absent.
 *   <li>`what`: the fault:
 *     <ul>
 *       <li>fail: the operation fails.
 *       <li>half: a copy stores the first half of the log, and fails.
 *       <li>full: a copy stores the log until all files in `folder` together have `limit_bytes`, and fails.
 *       <li>half_kept, full_kept: the same, but the copy reports success.
 *       <li>slow: each operation takes `delay_ms` longer, and segments are transferred with `bytes_per_s`.
 *       <li>late: a segment cannot be read until `delay_ms` after it was copied.
 *       <li>before, after: an operation waits at its beginning or its end while the order exists.
 *     </ul>
 * </ul>
 */
public final class FaultyStorage implements RemoteStorageManager {
    private static final String PREFIX = "durability.";
    private static final long LOOK_MS = 20;
    private static final long HOLD_MS_MAX = 300_000;

    private final Map<String, AtomicLong> counts = new ConcurrentHashMap<>();
    private RemoteStorageManager real;
    private Path orders;
    private Path reports;

    private record Order(String name, Properties says) {
        boolean fits(String op, TopicPartition of) {
            return List.of(says.getProperty("ops").split(",")).contains(op)
                && says.getProperty("topic", of.topic()).equals(of.topic())
                && Integer.parseInt(says.getProperty("partition", "" + of.partition())) == of.partition();
        }

        String what() {
            return says.getProperty("what");
        }

        long number(String key) {
            return Long.parseLong(says.getProperty(key, "0"));
        }
    }

    @Override
    public void configure(Map<String, ?> config) {
        orders = Path.of((String) config.get(PREFIX + "orders"));
        reports = Path.of((String) config.get(PREFIX + "reported")).resolve(config.get("broker.id") + ".tsv");
        try {
            Class<?> type = Class.forName((String) config.get(PREFIX + "storage"), true, getClass().getClassLoader());
            real = (RemoteStorageManager) type.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("no such remote storage", error);
        }
        real.configure(config);
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
            throws RemoteStorageException {
        List<Order> held = begin("copy", segment, segment.segmentSizeInBytes());
        for (Order order : held) {
            if (order.what().startsWith("half")) {
                return part(order, segment, data, segment.segmentSizeInBytes() / 2);
            }
            long room = order.what().startsWith("full") ? room(order) : Long.MAX_VALUE;
            if (room < segment.segmentSizeInBytes()) {
                return part(order, segment, data, Math.max(0, room));
            }
        }
        Optional<CustomMetadata> kept = real.copyLogSegmentData(segment, data);
        end("copy", held, segment);
        return kept;
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from) throws RemoteStorageException {
        List<Order> held = begin("fetch", segment, 0);
        return throttled(held, real.fetchLogSegment(segment, from));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from, int to) throws RemoteStorageException {
        List<Order> held = begin("fetch", segment, 0);
        return throttled(held, real.fetchLogSegment(segment, from, to));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        begin("index", segment, 0);
        return real.fetchIndex(segment, type);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        List<Order> held = begin("delete", segment, 0);
        real.deleteLogSegmentData(segment);
        end("delete", held, segment);
    }

    @Override
    public void close() throws IOException {
        if (real != null) {
            real.close();
        }
    }

    /** Carries out the orders that act before an operation. Returns all orders that apply to the operation. */
    private List<Order> begin(String op, RemoteLogSegmentMetadata segment, long bytes) throws RemoteStorageException {
        List<Order> due = due(op, segment);
        for (Order order : due) {
            switch (order.what()) {
                case "fail" -> {
                    report(order, op, segment, "failed");
                    throw new RemoteStorageException("ordered to fail: " + order.name());
                }
                case "late" -> {
                    if (System.currentTimeMillis() < segment.eventTimestampMs() + order.number("delay_ms")) {
                        report(order, op, segment, "late");
                        throw new RemoteResourceNotFoundException("ordered to be late: " + order.name());
                    }
                }
                case "slow" -> {
                    report(order, op, segment, "slowed");
                    long perSecond = order.number("bytes_per_s");
                    pause(order.number("delay_ms") + (perSecond > 0 ? bytes * 1000 / perSecond : 0));
                }
                case "before" -> hold(order, op, segment);
                default -> { }
            }
        }
        return due;
    }

    private void end(String op, List<Order> due, RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        for (Order order : due) {
            if (order.what().equals("after")) {
                hold(order, op, segment);
            }
        }
    }

    /** Stores only the first bytes of the log; then fails, or returns normally for half_kept and full_kept. */
    private Optional<CustomMetadata> part(Order order, RemoteLogSegmentMetadata segment, LogSegmentData data, long bytes)
            throws RemoteStorageException {
        try {
            Path part = Files.createTempFile(reports.getParent(), "part", ".log");
            try {
                Files.copy(data.logSegment(), part, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
                try (FileChannel file = FileChannel.open(part, StandardOpenOption.WRITE)) {
                    file.truncate(bytes);
                }
                Optional<CustomMetadata> kept = real.copyLogSegmentData(segment, new LogSegmentData(part,
                    data.offsetIndex(), data.timeIndex(), data.transactionIndex(), data.producerSnapshotIndex(),
                    data.leaderEpochIndex()));
                report(order, "copy", segment, order.what().split("_")[0]);
                if (order.what().endsWith("_kept")) {
                    return kept;
                }
            } finally {
                Files.deleteIfExists(part);
            }
        } catch (IOException error) {
            throw new RemoteStorageException("a partial copy could not be stored", error);
        }
        throw new RemoteStorageException("ordered to stop after " + bytes + " bytes: " + order.name());
    }

    /** The number of bytes that the folder may still grow by. */
    private long room(Order order) throws RemoteStorageException {
        AtomicLong used = new AtomicLong();
        try {
            Files.walkFileTree(orders.resolveSibling(order.says().getProperty("folder")), new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes seen) {
                    used.addAndGet(seen.size());
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult visitFileFailed(Path gone, IOException why) {
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path folder, IOException gone) {
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (IOException error) {
            throw new RemoteStorageException("the size of the tier cannot be computed", error);
        }
        return order.number("limit_bytes") - used.get();
    }

    private static InputStream throttled(List<Order> due, InputStream whole) {
        long perSecond = 0;
        for (Order order : due) {
            perSecond = order.what().equals("slow") ? order.number("bytes_per_s") : perSecond;
        }
        return perSecond > 0 ? new ThrottledStream(whole, perSecond) : whole;
    }

    private List<Order> due(String op, RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        TopicPartition of = segment.remoteLogSegmentId().topicIdPartition().topicPartition();
        List<Order> due = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(orders, "*.properties")) {
            for (Path file : files) {
                Order order = read(file);
                if (order != null && order.fits(op, of) && isTurn(order)) {
                    due.add(order);
                }
            }
        } catch (IOException error) {
            throw new RemoteStorageException("orders cannot be read", error);
        }
        return due;
    }

    private static Order read(Path file) throws IOException {
        Properties says = new Properties();
        try (InputStream stream = Files.newInputStream(file)) {
            says.load(stream);
        } catch (NoSuchFileException gone) {
            return null;
        }
        return new Order(file.getFileName().toString(), says);
    }

    /** With a share of 0.25: every fourth operation, from the fourth on. */
    private boolean isTurn(Order order) {
        double share = Double.parseDouble(order.says().getProperty("share", "1"));
        long nth = counts.computeIfAbsent(order.name(), name -> new AtomicLong()).incrementAndGet();
        return Math.floor(nth * share) > Math.floor((nth - 1) * share);
    }

    private void hold(Order order, String op, RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        report(order, op, segment, "held");
        long until = System.currentTimeMillis() + HOLD_MS_MAX;
        while (Files.exists(orders.resolve(order.name())) && System.currentTimeMillis() < until) {
            pause(LOOK_MS);
        }
        report(order, op, segment, "let go");
    }

    private static void pause(long ms) throws RemoteStorageException {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new RemoteStorageException("interrupted", error);
        }
    }

    private synchronized void report(Order order, String op, RemoteLogSegmentMetadata segment, String did)
            throws RemoteStorageException {
        TopicPartition of = segment.remoteLogSegmentId().topicIdPartition().topicPartition();
        String line = String.join("\t", "" + System.currentTimeMillis(), order.name(), op, did, of.topic(),
            "" + of.partition(), segment.remoteLogSegmentId().id().toString(), "" + segment.startOffset()) + "\n";
        try {
            Files.write(reports, line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new RemoteStorageException("the effect of an order cannot be reported", error);
        }
    }

    /** A stream that returns `perSecond` bytes in a second, at most a twentieth of that in each read. */
    private static final class ThrottledStream extends FilterInputStream {
        private final long perSecond;

        ThrottledStream(InputStream whole, long perSecond) {
            super(whole);
            this.perSecond = perSecond;
        }

        @Override
        public int read() throws IOException {
            int one = in.read();
            wait(one < 0 ? 0 : 1);
            return one;
        }

        @Override
        public int read(byte[] into, int at, int most) throws IOException {
            int some = in.read(into, at, (int) Math.max(1, Math.min(most, perSecond / 20)));
            wait(Math.max(some, 0));
            return some;
        }

        private void wait(int bytes) throws IOException {
            try {
                Thread.sleep(bytes * 1000L / perSecond);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IOException(error);
            }
        }
    }
}
