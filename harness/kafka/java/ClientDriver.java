package durability;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;

/**
 * One producer or consumer of the release, with requests on standard input and answers on standard output.
 *
 * A frame is its length (int), an operation (byte) and fields. Texts and contents are a length (int, -1 = null), then
 * that many bytes. The first frame names the role ("producer", "consumer", or the class of another role) and the
 * settings. The process ends at once when its input ends, because the harness has ended then. The other end of the
 * protocol is harness/workload/java/java_process.py.
 */
public final class ClientDriver {
    static final int FATAL = 1;
    static final int RETRIABLE = 2;
    static final int NEVER_SENT = 4;

    private final BlockingQueue<Frame> requests = new LinkedBlockingQueue<>();
    private final DataOutputStream out;
    private final Maker maker;

    private ClientDriver(OutputStream out, Maker maker) {
        this.out = new DataOutputStream(new BufferedOutputStream(out, 1 << 16));
        this.maker = maker;
    }

    public static void main(String[] arguments) {
        drive(ClientDriver::roleOf);
    }

    /** Drives the role that `maker` makes until the input ends. */
    static void drive(Maker maker) {
        OutputStream out = System.out;
        System.setOut(System.err);  // some libraries print
        ClientDriver driver = new ClientDriver(out, maker);
        Thread reader = new Thread(() -> driver.read(System.in), "requests");
        reader.setDaemon(true);
        reader.start();
        int code = 0;
        try {
            driver.run();
        } catch (Throwable failure) {
            failure.printStackTrace();
            code = 1;
        }
        Runtime.getRuntime().halt(code);
    }

    private void run() throws IOException, InterruptedException {
        Frame first = requests.take();
        String kind = first.text();
        Map<String, Object> settings = new HashMap<>();
        for (int left = first.in.readInt(); left > 0; left--) {
            settings.put(first.text(), first.text());
        }
        Role role;
        try {
            role = maker.make(kind, settings, this);
        } catch (RuntimeException refused) {
            error(0, refused, FATAL);
            return;
        }
        answer(0, new Content());
        while (serve(role) != 'X') {
            // the next request
        }
    }

    /** Roles for clients that only later releases have are found by class name, because they may not be compiled. */
    private static Role roleOf(String kind, Map<String, Object> settings, ClientDriver driver) {
        return switch (kind) {
            case "producer" -> new ClientProducer(settings, driver);
            case "consumer" -> new ClientConsumer(settings, driver);
            default -> named("durability." + kind, settings);
        };
    }

    private static Role named(String name, Map<String, Object> settings) {
        try {
            return (Role) Class.forName(name).getDeclaredConstructor(Map.class).newInstance(settings);
        } catch (InvocationTargetException refused) {
            throw refused.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(refused);
        } catch (ReflectiveOperationException lacking) {
            throw new IllegalArgumentException(lacking);
        }
    }

    /** Serves one request and returns its operation. */
    byte serve(Role role) throws IOException, InterruptedException {
        Frame frame = requests.take();
        if (frame.op == 'S') {
            role.send(frame);
        } else if (frame.op == 'Q' || frame.op == 'X') {
            int call = frame.in.readInt();
            try {
                answer(call, role.call(frame.text(), frame));
            } catch (RuntimeException failure) {
                error(call, failure, role.fatal(failure) ? FATAL : 0);
            }
        }
        return frame.op;
    }

    private void read(InputStream from) {
        try {
            DataInputStream in = new DataInputStream(new BufferedInputStream(from, 1 << 16));
            while (true) {
                byte[] body = new byte[in.readInt()];
                in.readFully(body);
                requests.add(new Frame(body));
            }
        } catch (EOFException end) {
            Runtime.getRuntime().halt(0);
        } catch (IOException broken) {
            Runtime.getRuntime().halt(2);
        }
    }

    private void answer(int call, Content fields) throws IOException {
        Content frame = new Content();
        frame.writeByte('R');
        frame.writeInt(call);
        frame.write(fields.bytes());
        write(frame);
    }

    private void error(int call, Throwable failure, int flags) throws IOException {
        Content frame = new Content();
        frame.writeByte('E');
        frame.writeInt(call);
        frame.text(failure.getClass().getSimpleName());
        frame.writeByte(flags | (failure instanceof RetriableException ? RETRIABLE : 0));
        frame.text(String.valueOf(failure.getMessage()));
        frame.places(failure instanceof InvalidOffsetException invalid ? invalid.partitions() : List.of());
        write(frame);
    }

    synchronized void write(Content frame) throws IOException {
        byte[] bytes = frame.bytes();
        out.writeInt(bytes.length);
        out.write(bytes);
        out.flush();
    }

    /** Makes the role that the first frame names. */
    interface Maker {
        Role make(String kind, Map<String, Object> settings, ClientDriver driver);
    }

    /** The requests that a client can serve. */
    interface Role {
        default void send(Frame frame) throws IOException {
            throw new IllegalStateException("this role sends no records");
        }

        Content call(String what, Frame given) throws IOException;

        boolean fatal(Throwable failure);
    }

    static final class Frame {
        final DataInputStream in;
        private final byte op;

        Frame(byte[] body) throws IOException {
            in = new DataInputStream(new ByteArrayInputStream(body));
            op = in.readByte();
        }

        byte[] content() throws IOException {
            int length = in.readInt();
            return length < 0 ? null : in.readNBytes(length);
        }

        String text() throws IOException {
            return new String(content(), StandardCharsets.UTF_8);
        }

        List<String> texts() throws IOException {
            List<String> found = new ArrayList<>();
            for (int left = in.readInt(); left > 0; left--) {
                found.add(text());
            }
            return found;
        }

        List<TopicPartition> places() throws IOException {
            List<TopicPartition> found = new ArrayList<>();
            for (int left = in.readInt(); left > 0; left--) {
                found.add(new TopicPartition(text(), in.readInt()));
            }
            return found;
        }

        Map<TopicPartition, Long> positions() throws IOException {
            Map<TopicPartition, Long> found = new HashMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                TopicPartition place = new TopicPartition(text(), in.readInt());
                found.put(place, in.readLong());
            }
            return found;
        }

        Map<TopicPartition, OffsetAndMetadata> offsets() throws IOException {
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            positions().forEach((place, offset) -> found.put(place, new OffsetAndMetadata(offset)));
            return found;
        }
    }

    static final class Content extends DataOutputStream {
        Content() {
            super(new ByteArrayOutputStream());
        }

        byte[] bytes() {
            return ((ByteArrayOutputStream) out).toByteArray();
        }

        void content(byte[] content) throws IOException {
            writeInt(content == null ? -1 : content.length);
            if (content != null) {
                write(content);
            }
        }

        void text(String text) throws IOException {
            content(text.getBytes(StandardCharsets.UTF_8));
        }

        void place(TopicPartition place) throws IOException {
            text(place.topic());
            writeInt(place.partition());
        }

        void places(Collection<TopicPartition> places) throws IOException {
            writeInt(places.size());
            for (TopicPartition place : places) {
                place(place);
            }
        }
    }
}
