package durability;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.utils.ChildFirstClassLoader;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * Fetches all segments from a remote storage (KIP-405) into a folder, without the brokers.
 *
 * Arguments: a properties file (`class`, `path`, and the settings of the storage, prefixed `config.`), and the folder.
 * Standard input: the values of the records of __remote_log_metadata in their order, in base64, one on each line. The
 * folder gets the layout of LocalTieredStorage. Files that the storage lacks are missing in the folder too.
 */
public final class StorageReader {
    private static final Map<IndexType, String> INDEXES = Map.of(
        IndexType.OFFSET, "index",
        IndexType.TIMESTAMP, "timeindex",
        IndexType.TRANSACTION, "txnindex",
        IndexType.PRODUCER_SNAPSHOT, "snapshot",
        IndexType.LEADER_EPOCH, "leader_epoch_checkpoint");

    /** Marks the lines of this class, because libraries of the storage also write to standard error. */
    private static final String MARK = "storage-reader: ";

    private StorageReader() {
    }

    public static void main(String[] arguments) {
        int code = 0;
        try (RemoteStorageManager storage = storage(Path.of(arguments[0]))) {
            for (RemoteLogSegmentMetadata segment : segments()) {
                fetch(storage, segment, Path.of(arguments[1]));
            }
        } catch (Throwable failure) {
            for (Throwable why = failure; why != null; why = why.getCause()) {
                System.err.println(MARK + why);
            }
            code = 1;
        }
        System.exit(code);  // also ends threads that the storage has left running
    }

    /** Makes the storage as a broker does: its own classes come first, and its loader is the context class loader. */
    private static RemoteStorageManager storage(Path file) throws IOException, ReflectiveOperationException {
        Properties given = new Properties();
        try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
            given.load(reader);
        }
        ClassLoader loader = new ChildFirstClassLoader(given.getProperty("path"), StorageReader.class.getClassLoader());
        Thread.currentThread().setContextClassLoader(loader);
        Class<?> type = Class.forName(given.getProperty("class"), true, loader);
        RemoteStorageManager storage = (RemoteStorageManager) type.getDeclaredConstructor().newInstance();
        Map<String, Object> config = new HashMap<>();
        for (String key : given.stringPropertyNames()) {
            if (key.startsWith("config.")) {
                config.put(key.substring("config.".length()), given.getProperty(key));
            }
        }
        config.put("broker.id", -1);
        storage.configure(config);
        return storage;
    }

    private static Collection<RemoteLogSegmentMetadata> segments() throws IOException {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        Map<RemoteLogSegmentId, RemoteLogSegmentMetadata> known = new LinkedHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            RemoteLogMetadata read;
            try {
                read = serde.deserialize(Base64.getDecoder().decode(line));
            } catch (RuntimeException unreadable) {
                continue;  // the harness reports unreadable records itself
            }
            if (read instanceof RemoteLogSegmentMetadata segment) {
                known.put(segment.remoteLogSegmentId(), segment);
            } else if (read instanceof RemoteLogSegmentMetadataUpdate update) {
                known.computeIfPresent(update.remoteLogSegmentId(), (id, segment) -> segment.createWithUpdates(update));
            }
        }
        return known.values();
    }

    private static void fetch(RemoteStorageManager storage, RemoteLogSegmentMetadata segment, Path folder)
            throws IOException, RemoteStorageException {
        TopicIdPartition of = segment.topicIdPartition();
        Path place = Files.createDirectories(folder.resolve(of.topic() + "-" + of.partition() + "-" + of.topicId()));
        String name = String.format("%020d-%s.", segment.startOffset(), segment.remoteLogSegmentId().id());
        try (InputStream log = storage.fetchLogSegment(segment, 0)) {
            Files.copy(log, place.resolve(name + "log"), StandardCopyOption.REPLACE_EXISTING);
        } catch (RemoteResourceNotFoundException absent) {
            Files.deleteIfExists(place.resolve(name + "log"));
        }
        for (Map.Entry<IndexType, String> index : INDEXES.entrySet()) {
            try (InputStream content = storage.fetchIndex(segment, index.getKey())) {
                Files.copy(content, place.resolve(name + index.getValue()), StandardCopyOption.REPLACE_EXISTING);
            } catch (RemoteResourceNotFoundException absent) {
                Files.deleteIfExists(place.resolve(name + index.getValue()));
            }
        }
    }
}
