package durability;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Reports the automatic commits of a consumer after the broker has acknowledged them. */
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
        } catch (IOException closed) {
            throw new UncheckedIOException(closed);
        }
    }

    @Override
    public void close() {
        // it holds no resources
    }
}
