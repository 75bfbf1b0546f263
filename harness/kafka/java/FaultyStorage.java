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
 * A remote storage (KIP-405) that hands everything on to another, but for what it is ordered to do otherwise.
 *
 * An order is a properties file in the folder of orders, and holds from the next operation on until it is gone. `ops`: copy,
 * fetch, index, delete; `topic` and `partition`, where it is about one; `share`: of so many operations. `what`: fail; half
 * (a copy stops half way through the log, and fails), full (it stops where all that lies in `folder` has `limit_bytes`),
 * half_kept and full_kept (and say that they have all); slow (`delay_ms` each, and `bytes_per_s` of segments); late (nothing
 * can be read for `delay_ms` after it was copied); before, after (an operation stands still at its begin or end while the
 * order is there). Whatever an order did is a line in a file of this broker.
 */
public final class FaultyStorage implements RemoteStorageManager {
    private static final String PREFIX = "durability.";
    private static final long LOOK_MS = 20;
    private static final long HOLD_MS_MAX = 300_000;

    private final Map<String, AtomicLong> counts = new ConcurrentHashMap<>();
    private RemoteStorageManager real;
    private Path orders;
    private Path told;

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
        told = Path.of((String) config.get(PREFIX + "reported")).resolve(config.get("broker.id") + ".tsv");
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
        return narrowed(held, real.fetchLogSegment(segment, from));
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from, int to) throws RemoteStorageException {
        List<Order> held = begin("fetch", segment, 0);
        return narrowed(held, real.fetchLogSegment(segment, from, to));
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

    /** Does what is ordered of this operation before it begins; the orders that it is under. */
    private List<Order> begin(String op, RemoteLogSegmentMetadata segment, long bytes) throws RemoteStorageException {
        List<Order> due = due(op, segment);
        for (Order order : due) {
            switch (order.what()) {
                case "fail" -> {
                    tell(order, op, segment, "failed");
                    throw new RemoteStorageException("ordered to fail: " + order.name());
                }
                case "late" -> {
                    if (System.currentTimeMillis() < segment.eventTimestampMs() + order.number("delay_ms")) {
                        tell(order, op, segment, "late");
                        throw new RemoteResourceNotFoundException("ordered to be late: " + order.name());
                    }
                }
                case "slow" -> {
                    tell(order, op, segment, "slowed");
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

    /** Keeps the first bytes of the log; then says that it failed, or that all is well. */
    private Optional<CustomMetadata> part(Order order, RemoteLogSegmentMetadata segment, LogSegmentData data, long bytes)
            throws RemoteStorageException {
        try {
            Path part = Files.createTempFile(told.getParent(), "part", ".log");
            try {
                Files.copy(data.logSegment(), part, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
                try (FileChannel file = FileChannel.open(part, StandardOpenOption.WRITE)) {
                    file.truncate(bytes);
                }
                Optional<CustomMetadata> kept = real.copyLogSegmentData(segment, new LogSegmentData(part,
                    data.offsetIndex(), data.timeIndex(), data.transactionIndex(), data.producerSnapshotIndex(),
                    data.leaderEpochIndex()));
                tell(order, "copy", segment, order.what().split("_")[0]);
                if (order.what().endsWith("_kept")) {
                    return kept;
                }
            } finally {
                Files.deleteIfExists(part);
            }
        } catch (IOException error) {
            throw new RemoteStorageException("a part of a copy could not be made", error);
        }
        throw new RemoteStorageException("ordered to stop after " + bytes + " bytes: " + order.name());
    }

    /** Of the bytes that may lie in the folder, those that do not yet. */
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
            throw new RemoteStorageException("what lies in the tier cannot be told", error);
        }
        return order.number("limit_bytes") - used.get();
    }

    private static InputStream narrowed(List<Order> due, InputStream whole) {
        long perSecond = 0;
        for (Order order : due) {
            perSecond = order.what().equals("slow") ? order.number("bytes_per_s") : perSecond;
        }
        return perSecond > 0 ? new Narrow(whole, perSecond) : whole;
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

    /** With a share of 0.25 every fourth one, from the fourth on. */
    private boolean isTurn(Order order) {
        double share = Double.parseDouble(order.says().getProperty("share", "1"));
        long nth = counts.computeIfAbsent(order.name(), name -> new AtomicLong()).incrementAndGet();
        return Math.floor(nth * share) > Math.floor((nth - 1) * share);
    }

    private void hold(Order order, String op, RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        tell(order, op, segment, "held");
        long until = System.currentTimeMillis() + HOLD_MS_MAX;
        while (Files.exists(orders.resolve(order.name())) && System.currentTimeMillis() < until) {
            pause(LOOK_MS);
        }
        tell(order, op, segment, "let go");
    }

    private static void pause(long ms) throws RemoteStorageException {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new RemoteStorageException("interrupted", error);
        }
    }

    private synchronized void tell(Order order, String op, RemoteLogSegmentMetadata segment, String did)
            throws RemoteStorageException {
        TopicPartition of = segment.remoteLogSegmentId().topicIdPartition().topicPartition();
        String line = String.join("\t", "" + System.currentTimeMillis(), order.name(), op, did, of.topic(),
            "" + of.partition(), segment.remoteLogSegmentId().id().toString(), "" + segment.startOffset()) + "\n";
        try {
            Files.write(told, line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new RemoteStorageException("what was done cannot be told", error);
        }
    }

    /** So many bytes a second, in pieces of a twentieth of that. */
    private static final class Narrow extends FilterInputStream {
        private final long perSecond;

        Narrow(InputStream whole, long perSecond) {
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
