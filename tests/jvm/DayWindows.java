import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.Windows;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Counts by days of a time zone, by a Windows class of its own as users of Kafka Streams write it.
 * A case is a line: zone;start of day in ms;days;grace in ms;size in ms;rocksdb or in_memory;key time key time ...
 * Answers: "update" or "final", key, start, end, count and time of each result, the number of dropped records, "end".
 */
class DayWindows extends Windows<TimeWindow> {
    final ZoneId zone;
    final long startMs, days, graceMs, sizeMs;

    DayWindows(String[] given) {
        zone = ZoneId.of(given[0]);
        startMs = Long.parseLong(given[1]);
        days = Long.parseLong(given[2]);
        graceMs = Long.parseLong(given[3]);
        sizeMs = Long.parseLong(given[4]);
    }

    long startOf(LocalDate day) {
        return ZonedDateTime.of(day, LocalTime.ofNanoOfDay(startMs * 1_000_000), zone).toInstant().toEpochMilli();
    }

    @Override
    public Map<Long, TimeWindow> windowsFor(long timestamp) {
        LocalDate day = Instant.ofEpochMilli(timestamp).atZone(zone).toLocalDate().plusDays(days);
        day = day.minusDays(Math.floorMod(day.toEpochDay() - 4, days));
        while (startOf(day) > timestamp) day = day.minusDays(days);
        long start = Math.max(startOf(day), 0);
        return Map.of(start, new TimeWindow(start, startOf(day.plusDays(days))));
    }

    @Override
    public long size() {
        return sizeMs;
    }

    @Override
    public long gracePeriodMs() {
        return graceMs;
    }

    static void say(String what, KStream<Windowed<String>, Long> results) {
        results.process(() -> new ContextualProcessor<Windowed<String>, Long, Void, Void>() {
            @Override
            public void process(Record<Windowed<String>, Long> record) {
                TimeWindow window = (TimeWindow) record.key().window();
                System.out.println(String.join(" ", what, record.key().key(), Long.toString(window.start()),
                    Long.toString(window.end()), record.value().toString(), Long.toString(record.timestamp())));
            }
        });
    }

    static void answer(String line) {
        String[] given = line.split(";");
        DayWindows windows = new DayWindows(given);
        Duration retention = Duration.ofMillis(windows.sizeMs + windows.graceMs), size = Duration.ofMillis(windows.sizeMs);
        Materialized<String, Long, WindowStore<Bytes, byte[]>> store = Materialized.as(given[5].equals("rocksdb")
            ? Stores.persistentTimestampedWindowStore("counts", retention, size, false)
            : Stores.inMemoryWindowStore("counts", retention, size, false));
        StreamsBuilder builder = new StreamsBuilder();
        KTable<Windowed<String>, Long> counts = builder.stream("in", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey().windowedBy(windows)
            .count(store.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withCachingDisabled());
        say("update", counts.toStream());
        say("final", counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream());
        Properties properties = new Properties();
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties)) {
            TestInputTopic<String, String> topic =
                driver.createInputTopic("in", Serdes.String().serializer(), Serdes.String().serializer());
            String[] records = given[6].split(" ");
            for (int i = 0; i < records.length; i += 2) topic.pipeInput(records[i], "v", Long.parseLong(records[i + 1]));
            double dropped = driver.metrics().entrySet().stream()
                .filter(each -> each.getKey().name().equals("dropped-records-total"))
                .mapToDouble(each -> (double) each.getValue().metricValue()).sum();
            System.out.println("dropped " + (long) dropped);
        }
        System.out.println("end");
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) answer(line);
    }
}
