import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;

/** An application of Kept at a broker, until its input ends. Arguments: servers, method, state folder, guarantee, id. */
public class Application {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[4]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[3]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, 500);
        settings.put(StreamsConfig.WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG, 3_000_000_000_000L);
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 5);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        if (System.getProperty("dsl.store.format") != null) {
            settings.put("dsl.store.format", System.getProperty("dsl.store.format"));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.listConsumerGroupOffsets(arguments[4]).partitionsToOffsetAndMetadata().get().forEach((partition, at) ->
                System.out.println(
                    "begins " + partition + " " + TopicPartitionMetadata.decode(at.metadata()).partitionTime()));
        }
        StreamsBuilder builder = new StreamsBuilder();
        Kept.class.getDeclaredMethod(arguments[1], StreamsBuilder.class).invoke(null, builder);
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close(Duration.ofSeconds(30));
    }
}
