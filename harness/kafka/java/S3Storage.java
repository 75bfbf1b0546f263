package durability;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
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
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.checksums.RequestChecksumCalculation;
import software.amazon.awssdk.core.checksums.ResponseChecksumValidation;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.retries.DefaultRetryStrategy;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.NoSuchKeyException;

/**
 * A remote storage (KIP-405) in a bucket of S3: each file of a segment is an object.
 *
 * Objects have the names of the files of Kafka's own LocalTieredStorage, TOPIC-PARTITION-TOPICID/BASE-SEGMENTID.KIND.
 * The log is stored last, so an interrupted copy has no log. A call is tried only twice, because brokers also retry.
 */
public final class S3Storage implements RemoteStorageManager {
    private static final String PREFIX = "durability.s3.";
    private static final Duration ATTEMPT = Duration.ofSeconds(5);
    private static final Duration CALL = Duration.ofSeconds(12);
    private static final int ATTEMPTS = 2;
    private static final List<String> KINDS =
        List.of("index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint", "log");

    private S3Client client;
    private String bucket;

    @Override
    public void configure(Map<String, ?> config) {
        bucket = (String) config.get(PREFIX + "bucket");
        AwsBasicCredentials key =
            AwsBasicCredentials.create((String) config.get(PREFIX + "access"), (String) config.get(PREFIX + "secret"));
        client = S3Client.builder()
            .endpointOverride(URI.create((String) config.get(PREFIX + "endpoint")))
            .region(Region.US_EAST_1)
            .forcePathStyle(true)
            .credentialsProvider(StaticCredentialsProvider.create(key))
            .requestChecksumCalculation(RequestChecksumCalculation.WHEN_REQUIRED)
            .responseChecksumValidation(ResponseChecksumValidation.WHEN_REQUIRED)
            .httpClientBuilder(UrlConnectionHttpClient.builder().connectionTimeout(ATTEMPT).socketTimeout(ATTEMPT))
            .overrideConfiguration(settings -> settings
                .retryStrategy(DefaultRetryStrategy.standardStrategyBuilder().maxAttempts(ATTEMPTS).build())
                .apiCallAttemptTimeout(ATTEMPT)
                .apiCallTimeout(CALL))
            .build();
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
            throws RemoteStorageException {
        put(segment, "index", data.offsetIndex());
        put(segment, "timeindex", data.timeIndex());
        if (data.transactionIndex().isPresent()) {
            put(segment, "txnindex", data.transactionIndex().get());
        }
        put(segment, "snapshot", data.producerSnapshotIndex());
        ByteBuffer epochs = data.leaderEpochIndex().duplicate();
        put(segment, "leader_epoch_checkpoint", RequestBody.fromRemainingByteBuffer(epochs));
        put(segment, "log", data.logSegment());
        return Optional.empty();
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from) throws RemoteStorageException {
        return get(segment, "log", "bytes=" + from + "-");
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int from, int to)
            throws RemoteStorageException {
        return get(segment, "log", "bytes=" + from + "-" + to);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        return get(segment, switch (type) {
            case OFFSET -> "index";
            case TIMESTAMP -> "timeindex";
            case TRANSACTION -> "txnindex";
            case PRODUCER_SNAPSHOT -> "snapshot";
            case LEADER_EPOCH -> "leader_epoch_checkpoint";
        }, null);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        for (String kind : KINDS) {  // to delete an object that does not exist is no error in S3
            asked("delete", segment, kind, key -> client.deleteObject(ask -> ask.bucket(bucket).key(key)));
        }
    }

    @Override
    public void close() throws IOException {
        if (client != null) {
            client.close();
        }
    }

    private void put(RemoteLogSegmentMetadata segment, String kind, Path file) throws RemoteStorageException {
        put(segment, kind, RequestBody.fromFile(file));
    }

    private void put(RemoteLogSegmentMetadata segment, String kind, RequestBody body) throws RemoteStorageException {
        asked("put", segment, kind, key -> client.putObject(ask -> ask.bucket(bucket).key(key), body));
    }

    private InputStream get(RemoteLogSegmentMetadata segment, String kind, String range) throws RemoteStorageException {
        return asked("get", segment, kind, key -> client.getObject(ask -> ask.bucket(bucket).key(key).range(range)));
    }

    private interface Call<T> {
        T of(String key);
    }

    private static <T> T asked(String what, RemoteLogSegmentMetadata segment, String kind, Call<T> call)
            throws RemoteStorageException {
        String key = key(segment, kind);
        try {
            return call.of(key);
        } catch (NoSuchKeyException absent) {
            throw new RemoteResourceNotFoundException(what + " " + key, absent);
        } catch (SdkException failed) {
            throw new RemoteStorageException(what + " " + key, failed);
        }
    }

    private static String key(RemoteLogSegmentMetadata segment, String kind) {
        TopicIdPartition of = segment.remoteLogSegmentId().topicIdPartition();
        return String.format(Locale.ROOT, "%s-%d-%s/%020d-%s.%s", of.topic(), of.partition(), of.topicId(),
            segment.startOffset(), segment.remoteLogSegmentId().id(), kind);
    }
}
