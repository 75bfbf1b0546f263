package durability;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;

/**
 * Calls FileStorage as a broker does, for one segment: one operation for each line on standard input.
 *
 * Arguments: the folder of the storage, and the folder with the files of the segment. The answer to an operation is one
 * line: the content that was read, "done", or the class of the exception.
 */
public final class FileStorageProbe {
    private static final RemoteLogSegmentMetadata SEGMENT = new RemoteLogSegmentMetadata(
        new RemoteLogSegmentId(
            new TopicIdPartition(new Uuid(1, 2), new TopicPartition("far", 7)), new Uuid(3, 4)),
        1000, 1999, 0, 1, 0, 100, Map.of(0, 1000L));

    private FileStorageProbe() {
    }

    public static void main(String[] arguments) throws IOException {
        FileStorage storage = new FileStorage();
        storage.configure(Map.of("durability.folder", arguments[0]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(storage, Path.of(arguments[1]), line.split(" ")));
        }
    }

    private static String answer(FileStorage storage, Path files, String[] words) throws IOException {
        try {
            switch (words[0]) {
                case "copy" -> storage.copyLogSegmentData(SEGMENT, new LogSegmentData(files.resolve("log"),
                    files.resolve("index"), files.resolve("timeindex"), Optional.of(files.resolve("txnindex")),
                    files.resolve("snapshot"), ByteBuffer.wrap("epochs".getBytes(StandardCharsets.US_ASCII))));
                case "delete" -> storage.deleteLogSegmentData(SEGMENT);
                case "index" -> {
                    return text(storage.fetchIndex(SEGMENT, IndexType.valueOf(words[1])));
                }
                case "from" -> {
                    return text(storage.fetchLogSegment(SEGMENT, Integer.parseInt(words[1])));
                }
                default -> {
                    return text(storage.fetchLogSegment(SEGMENT, Integer.parseInt(words[1]), Integer.parseInt(words[2])));
                }
            }
            return "done";
        } catch (RemoteStorageException error) {
            return error.getClass().getSimpleName();
        }
    }

    private static String text(InputStream content) throws IOException {
        try (content) {
            return new String(content.readAllBytes(), StandardCharsets.US_ASCII);
        }
    }
}
