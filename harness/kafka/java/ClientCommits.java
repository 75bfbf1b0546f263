package durability;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Reports each auto-commit of a consumer once the broker has acknowledged it (KIP-42). */
public final class ClientCommits implements ConsumerInterceptor<byte[], byte[]> {
    static final String DRIVER = "durability.driver";

    private ClientDriver driver;

    @Override
    public void configure(Map<String, ?> settings) {
        driver = (ClientDriver) settings.get(DRIVER);
    }

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        try {
            ClientDriver.Content frame = new ClientDriver.Content();
            frame.writeByte('K');
            frame.writeInt(offsets.size());
            for (Map.Entry<TopicPartition, OffsetAndMetadata> each : offsets.entrySet()) {
                frame.place(each.getKey());
                frame.writeLong(each.getValue().offset());
            }
            driver.write(frame);
        } catch (IOException gone) {
            throw new UncheckedIOException(gone);
        }
    }

    @Override
    public void close() {
        // nothing to close
    }
}
