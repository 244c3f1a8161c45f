import java.time.Duration;
import java.util.Properties;
import java.util.Scanner;
import java.util.StringJoiner;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.test.TestRecord;

/**
 * A processor that looks into the store of windows or sessions of a count over its own input, and puts into it. A line
 * of the input has a key, a value and a time; "windows memory" begins a tape. Values: x, put:START:COUNT:TIME and
 * del:START, of sessions put:START:END:COUNT and del:START:END. Output: what the processor saw, and updates.
 */
public class WrittenWindows {
    static String said(Windowed<String> key, Object value) {
        return key.key() + "@" + key.window().start() + "/" + key.window().end() + "=" + value;
    }

    static class OfWindows extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            TimestampedWindowStore<String, Long> counts = context().getStateStore("counts");
            StringJoiner seen = new StringJoiner(" ");
            try (KeyValueIterator<Windowed<String>, ValueAndTimestamp<Long>> all = counts.all()) {
                while (all.hasNext()) {
                    KeyValue<Windowed<String>, ValueAndTimestamp<Long>> one = all.next();
                    seen.add(said(one.key, one.value.value() + "," + one.value.timestamp()));
                }
            }
            context().forward(record.withValue(seen.toString()));
            String[] asked = record.value().split(":");
            if (asked[0].equals("put")) {
                counts.put(
                    record.key(),
                    ValueAndTimestamp.make(Long.parseLong(asked[2]), Long.parseLong(asked[3])),
                    Long.parseLong(asked[1]));
            } else if (asked[0].equals("del")) {
                counts.put(record.key(), null, Long.parseLong(asked[1]));
            }
        }
    }

    static class OfSessions extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            SessionStore<String, Long> counts = context().getStateStore("counts");
            StringJoiner seen = new StringJoiner(" ");
            try (KeyValueIterator<Windowed<String>, Long> all = counts.findSessions("a", "z", 0, Long.MAX_VALUE)) {
                while (all.hasNext()) {
                    KeyValue<Windowed<String>, Long> one = all.next();
                    seen.add(said(one.key, one.value));
                }
            }
            context().forward(record.withValue(seen.toString()));
            String[] asked = record.value().split(":");
            if (asked.length > 1) {
                SessionWindow window = new SessionWindow(Long.parseLong(asked[1]), Long.parseLong(asked[2]));
                Windowed<String> session = new Windowed<>(record.key(), window);
                if (asked[0].equals("put")) {
                    counts.put(session, Long.parseLong(asked[3]));
                } else {
                    counts.remove(session);
                }
            }
        }
    }

    static TopologyTestDriver driver(String kind, boolean inMemory) {
        Duration retention = Duration.ofMillis(40);
        Serde<String> text = Serdes.String();
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> in = builder.stream("in", Consumed.with(text, text));
        if (kind.equals("windows")) {
            Duration size = Duration.ofMillis(10);
            in.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(size, Duration.ofMillis(20)))
                .count(Materialized.<String, Long>as(inMemory
                        ? Stores.inMemoryWindowStore("counts", retention, size, false)
                        : Stores.persistentTimestampedWindowStore("counts", retention, size, false))
                    .withKeySerde(text).withValueSerde(Serdes.Long()).withCachingDisabled())
                .toStream((key, count) -> said(key, ""))
                .to("updates", Produced.with(text, Serdes.Long()));
            in.process(OfWindows::new, "counts").to("seen", Produced.with(text, text));
        } else {
            in.groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(5), Duration.ofMillis(20)))
                .count(Materialized.<String, Long>as(inMemory
                        ? Stores.inMemorySessionStore("counts", retention)
                        : Stores.persistentSessionStore("counts", retention))
                    .withKeySerde(text).withValueSerde(Serdes.Long()).withCachingDisabled())
                .toStream((key, count) -> said(key, ""))
                .to("updates", Produced.with(text, Serdes.Long()));
            in.process(OfSessions::new, "counts").to("seen", Produced.with(text, text));
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        return new TopologyTestDriver(builder.build(), settings);
    }

    static void play(TopologyTestDriver driver, Scanner lines) {
        TestInputTopic<String, String> in =
            driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
        while (lines.hasNextLine()) {
            String[] line = lines.nextLine().split(" ");
            if (line[0].equals("end")) {
                break;
            }
            in.pipeInput(line[0], line[1], Long.parseLong(line[2]));
        }
        for (TestRecord<String, String> one
                : driver.createOutputTopic("seen", new StringDeserializer(), new StringDeserializer())
                    .readRecordsToList()) {
            System.out.println("seen " + one.value());
        }
        for (TestRecord<String, Long> one
                : driver.createOutputTopic("updates", new StringDeserializer(), new LongDeserializer())
                    .readRecordsToList()) {
            System.out.println("update " + one.key() + one.value() + " " + one.timestamp());
        }
        System.out.println("end");
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] asked = lines.nextLine().split(" ");
            try (TopologyTestDriver driver = driver(asked[0], asked[1].equals("memory"))) {
                play(driver, lines);
            }
        }
    }
}
