package durability;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * A remote storage (KIP-405) in a folder that all brokers share: each file of a segment is an object.
 *
 * An object has the name that Kafka's LocalTieredStorage gives it, TOPIC-PARTITION-TOPICID/BASE-SEGMENTID.KIND. It gets
 * that name when it is complete, and the log is stored last, so a copy that was interrupted has no log. Nothing is
 * flushed to disk: what is stored survives every fault of a broker, but not a power loss of the machine.
 *
 * The storage does not create its folder. While the folder is missing, or a file is in its place, the storage is
 * unavailable. That is not reported as a missing object, because brokers treat a missing transaction index as empty.
 */
public final class FileStorage implements RemoteStorageManager {
    private static final String LOG = "log";
    private static final List<String> KINDS = // in the order in which they are deleted
        List.of(LOG, "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint");
    private static final String INCOMPLETE = ".incomplete";

    private Path folder;

    @Override
    public void configure(Map<String, ?> config) {
        folder = Path.of((String) config.get("durability.folder"));
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
            throws RemoteStorageException {
        try {
            createPartitionFolder(segment);
            put(segment, "index", data.offsetIndex());
            put(segment, "timeindex", data.timeIndex());
            if (data.transactionIndex().isPresent()) {
                put(segment, "txnindex", data.transactionIndex().get());
            }
            put(segment, "snapshot", data.producerSnapshotIndex());
            put(segment, "leader_epoch_checkpoint", data.leaderEpochIndex());
            put(segment, LOG, data.logSegment());
        } catch (IOException error) { // also where a file of the broker is no longer there
            RemoteStorageException failed = new RemoteStorageException("copy " + path(segment, LOG), error);
            try {
                deleteLogSegmentData(segment);
            } catch (RemoteStorageException left) {
                failed.addSuppressed(left);
            }
            throw failed;
        }
        return Optional.empty();
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from) throws RemoteStorageException {
        return open(segment, LOG, from, Long.MAX_VALUE);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from, int to) throws RemoteStorageException {
        return open(segment, LOG, from, (long) to - from + 1);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        return open(segment, switch (type) {
            case OFFSET -> "index";
            case TIMESTAMP -> "timeindex";
            case TRANSACTION -> "txnindex";
            case PRODUCER_SNAPSHOT -> "snapshot";
            case LEADER_EPOCH -> "leader_epoch_checkpoint";
        }, 0, Long.MAX_VALUE);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        try {
            for (String kind : KINDS) {
                Files.deleteIfExists(path(segment, kind));
                Files.deleteIfExists(incomplete(segment, kind));
            }
        } catch (IOException error) {
            throw new RemoteStorageException("delete " + path(segment, LOG), error);
        }
        if (!Files.isDirectory(folder)) { // nothing was deleted, for nothing could be seen
            throw unavailable("delete", segment, LOG, null);
        }
    }

    @Override
    public void close() { }

    private void createPartitionFolder(RemoteLogSegmentMetadata segment) throws IOException {
        try {
            Files.createDirectory(path(segment, LOG).getParent());
        } catch (FileAlreadyExistsException known) { // by another copy
        }
    }

    private void put(RemoteLogSegmentMetadata segment, String kind, Path file) throws IOException {
        Files.copy(file, incomplete(segment, kind), StandardCopyOption.REPLACE_EXISTING);
        complete(segment, kind);
    }

    private void put(RemoteLogSegmentMetadata segment, String kind, ByteBuffer content) throws IOException {
        byte[] bytes = new byte[content.remaining()];
        content.duplicate().get(bytes);
        Files.write(incomplete(segment, kind), bytes);
        complete(segment, kind);
    }

    private void complete(RemoteLogSegmentMetadata segment, String kind) throws IOException {
        Files.move(incomplete(segment, kind), path(segment, kind), StandardCopyOption.ATOMIC_MOVE);
    }

    private InputStream open(RemoteLogSegmentMetadata segment, String kind, long from, long bytes)
            throws RemoteStorageException {
        try {
            SeekableByteChannel file = Files.newByteChannel(path(segment, kind));
            return new Range(Channels.newInputStream(file.position(from)), bytes);
        } catch (NoSuchFileException missing) {
            if (!Files.isDirectory(folder)) {
                throw unavailable("fetch", segment, kind, missing);
            }
            throw new RemoteResourceNotFoundException("fetch " + path(segment, kind), missing);
        } catch (IOException error) {
            throw new RemoteStorageException("fetch " + path(segment, kind), error);
        }
    }

    private RemoteStorageException unavailable(String what, RemoteLogSegmentMetadata segment, String kind, IOException why) {
        return new RemoteStorageException(what + " " + path(segment, kind) + ": there is no folder " + folder, why);
    }

    private Path incomplete(RemoteLogSegmentMetadata segment, String kind) {
        return path(segment, kind + INCOMPLETE);
    }

    private Path path(RemoteLogSegmentMetadata segment, String kind) {
        TopicIdPartition of = segment.remoteLogSegmentId().topicIdPartition();
        return folder.resolve(String.format(Locale.ROOT, "%s-%d-%s/%020d-%s.%s", of.topic(), of.partition(), of.topicId(),
            segment.startOffset(), segment.remoteLogSegmentId().id(), kind));
    }

    /** At most so many bytes of a stream. */
    private static final class Range extends InputStream {
        private final InputStream whole;
        private long left;

        Range(InputStream whole, long bytes) {
            this.whole = whole;
            this.left = bytes;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] into, int at, int most) throws IOException {
            if (left <= 0) {
                return most == 0 ? 0 : -1;
            }
            int some = whole.read(into, at, (int) Math.min(most, left));
            left -= Math.max(some, 0);
            return some;
        }

        @Override
        public void close() throws IOException {
            whole.close();
        }
    }
}
