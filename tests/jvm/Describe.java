import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;

/** Prints Kafka's own description of the topologies that test_describe.py builds with our DSL. */
public class Describe {
    static final Serde<String> STRING = Serdes.String();
    static final Serde<Long> LONG = Serdes.Long();

    static KStream<String, Long> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(STRING, LONG));
    }

    static KGroupedStream<String, Long> byKey(KStream<String, Long> stream) {
        return stream.groupByKey(Grouped.with(STRING, LONG));
    }

    static void stateless(StreamsBuilder builder) {
        KStream<String, Long> stream = stream(builder, "in");
        stream.filter((key, value) -> true).mapValues(value -> value).to("out");
        stream.filterNot((key, value) -> true).selectKey((key, value) -> key).to("rekeyed");
        stream(builder, "other").to("copies");
    }

    static void finalResults(StreamsBuilder builder) {
        byKey(stream(builder, "in"))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(10), Duration.ofMillis(5)))
            .count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .to("final");
    }

    static void repartitioned(StreamsBuilder builder) {
        KStream<String, Long> stream = stream(builder, "in");
        KGroupedStream<String, Long> grouped = stream.groupBy((key, value) -> key, Grouped.with(STRING, LONG));
        grouped.count().toStream().to("counts");
        grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(10), Duration.ofMillis(5)))
            .reduce((one, other) -> one)
            .toStream()
            .to("sessions");
        stream.to("copies");
    }

    static void named(StreamsBuilder builder) {
        builder.stream("in", Consumed.with(STRING, LONG).withName("read"))
            .selectKey((key, value) -> key, Named.as("rekey"))
            .filter((key, value) -> true, Named.as("some"))
            .groupByKey(Grouped.with(STRING, LONG))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10)))
            .count(Named.as("count"), Materialized.as("counts"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("final"))
            .toStream(Named.as("changes"))
            .mapValues(value -> value, Named.as("copy"))
            .to("out", Produced.<Windowed<String>, Long>as("write"));
    }

    static void threeLevels(StreamsBuilder builder) {
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> totals = Materialized.as("totals");
        KStream<String, Long> finals = byKey(stream(builder, "in"))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10)))
            .count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .selectKey((key, value) -> key.key());
        KStream<String, Long> sums = byKey(finals)
            .aggregate(() -> 0L, (key, value, sum) -> sum, totals)
            .toStream();
        sums.to("totals");
        sums.groupBy((key, value) -> key, Grouped.with(STRING, LONG)).count().toStream().to("ranks");
        finals.to("finals");
    }

    static void sideBySide(StreamsBuilder builder) {
        KStream<String, Long> stream = stream(builder, "in");
        KTable<Windowed<String>, Long> counts = byKey(stream)
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10)).advanceBy(Duration.ofMillis(5)))
            .count();
        counts.toStream().to("updates");
        counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream().to("final");
        stream.mapValues(value -> value).to("values");
    }

    static void wide(StreamsBuilder builder) {
        KStream<String, Long> stream = stream(builder, "in");
        for (int number = 0; number < 7; number++) {
            KStream<String, Long> branch = stream.filter((key, value) -> true);
            for (int step = 0; step < number % 4; step++) {
                branch = branch.mapValues(value -> value);
            }
            branch.to("out-" + number);
        }
    }

    public static void main(String[] arguments) {
        Map<String, Consumer<StreamsBuilder>> topologies = new LinkedHashMap<>();
        topologies.put("stateless", Describe::stateless);
        topologies.put("final_results", Describe::finalResults);
        topologies.put("repartitioned", Describe::repartitioned);
        topologies.put("named", Describe::named);
        topologies.put("three_levels", Describe::threeLevels);
        topologies.put("side_by_side", Describe::sideBySide);
        topologies.put("wide", Describe::wide);
        topologies.forEach((name, build) -> {
            StreamsBuilder builder = new StreamsBuilder();
            build.accept(builder);
            System.out.println("=== " + name);
            System.out.print(builder.build().describe());
        });
    }
}
