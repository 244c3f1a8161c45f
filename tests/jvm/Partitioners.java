import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.errors.DefaultProductionExceptionHandler;
import org.apache.kafka.streams.internals.StreamsConfigUtils.ProcessingMode;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.WindowedSerializer;
import org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.ProcessorTopology;
import org.apache.kafka.streams.processor.internals.RecordCollectorImpl;
import org.apache.kafka.streams.processor.internals.StreamsProducer;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * Where Kafka Streams' RecordCollector sends records, of which a partitioner of the user's is asked. A line a case:
 * partitions;key;answer of the partitioner, where the answer is "-" for Optional.empty, "" for an empty set, "none"
 * where there is no partitioner, and else partitions by commas. Of a windowed key ;kind;start;end are behind it, where
 * kind is "time" or "session". A line an answer: the partitions to which the record was sent, "dropped", or the error's class.
 */
public class Partitioners {
    static final String TOPIC = "out";

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(";", -1);
            int partitions = Integer.parseInt(parts[0]);
            StringSerializer text = new StringSerializer();
            if (parts.length == 3) {
                System.out.println("answer " + sent(partitions, parts[1], text, parts[2]));
                continue;
            }
            boolean isSession = parts[3].equals("session");
            long start = Long.parseLong(parts[4]);
            long end = Long.parseLong(parts[5]);
            Window window = isSession ? new SessionWindow(start, end) : new TimeWindow(start, end);
            Serializer<Windowed<String>> serializer =
                    isSession ? new SessionWindowedSerializer<>(text) : new TimeWindowedSerializer<>(text);
            System.out.println("answer " + sent(partitions, new Windowed<>(parts[1], window), serializer, parts[2]));
        }
    }

    /** As a sink does (StreamSinkNode.writeToTopology), which gives windowed keys a partitioner if there is none. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static <K> String sent(int partitions, K key, Serializer<K> serializer, String answer) {
        List<String> found = new ArrayList<>();
        MockProducer<byte[], byte[]> producer = new MockProducer<>(
                cluster(partitions), true, new ByKey(), new ByteArraySerializer(), new ByteArraySerializer()) {
            @Override
            public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
                Future<RecordMetadata> future = super.send(record, null);
                try {
                    found.add(String.valueOf(future.get().partition()));
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
                return future;
            }
        };
        StreamPartitioner<K, String> own = (topic, k, value, n) -> {
            if (value.equals("-")) {
                return Optional.empty();
            }
            Set<Integer> chosen = new TreeSet<>();
            for (String one : value.isEmpty() ? new String[0] : value.split(",")) {
                chosen.add(Integer.parseInt(one));
            }
            return Optional.of(chosen);
        };
        StreamPartitioner<K, String> partitioner = !answer.equals("none") ? own
                : serializer instanceof WindowedSerializer
                ? (StreamPartitioner<K, String>) new WindowedStreamPartitioner((WindowedSerializer<?>) serializer)
                : null;
        LogContext log = new LogContext();
        RecordCollectorImpl collector = new RecordCollectorImpl(
                log, new TaskId(0, 0),
                new StreamsProducer(producer, ProcessingMode.AT_LEAST_ONCE, Time.SYSTEM, log),
                new DefaultProductionExceptionHandler(),
                new StreamsMetricsImpl(new Metrics(), "client", Time.SYSTEM),
                new ProcessorTopology(List.of(), Map.of(), Map.of(), List.of(), List.of(), Map.of(), Set.of(), Map.of()));
        try {
            collector.send(TOPIC, key, answer, new RecordHeaders(), 0L, serializer, new StringSerializer(),
                    "sink", null, partitioner);
        } catch (RuntimeException error) {
            if (!(error instanceof NullPointerException)) {
                return error.getClass().getSimpleName();
            }
            throw error;
        }
        return found.isEmpty() ? "dropped" : String.join(",", found);
    }

    static Cluster cluster(int partitions) {
        Node node = new Node(0, "localhost", 1);
        List<PartitionInfo> infos = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            infos.add(new PartitionInfo(TOPIC, number, node, new Node[0], new Node[0]));
        }
        return new Cluster("cluster", List.of(node), infos, Set.of(), Set.of());
    }

    /** KafkaProducer.partition, of a record with a key. */
    static class ByKey implements Partitioner {
        @Override
        public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes,
                             Cluster cluster) {
            return BuiltInPartitioner.partitionForKey(keyBytes, cluster.partitionCountForTopic(topic));
        }

        @Override
        public void close() {
        }

        @Override
        public void configure(Map<String, ?> configs) {
        }
    }
}
