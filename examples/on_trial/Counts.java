import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * A small application as production has them: clicks by key in windows of 10 s, without grace. Arguments: bootstrap servers,
 * a folder for its state. It runs until its input ends, and then closes as it should; or somebody kills it.
 */
public class Counts {
    static final long SIZE_MS = 10_000;

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<String> text = Serdes.String();
        builder.stream("clicks", Consumed.with(text, text))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(SIZE_MS)))
            .count(Materialized.as("counts-store"))
            .toStream()
            .to("counts", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, SIZE_MS), Serdes.Long()));
        KafkaStreams application = new KafkaStreams(builder.build(), settings(arguments));
        application.start();
        while (System.in.read() >= 0) { }
        application.close(Duration.ofSeconds(30));
    }

    /** At least once, and commits are rare: a crash goes far back. */
    static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put("application.id", "counts");
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[1]);
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("commit.interval.ms", 3_600_000);
        settings.put("auto.offset.reset", "earliest");
        settings.put("replication.factor", 1);
        settings.put("session.timeout.ms", 6_000);
        settings.put("heartbeat.interval.ms", 1_000);
        return settings;
    }
}
