import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

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

    static void topics(StreamsBuilder builder) {
        KStream<String, Long> several = builder.stream(List.of("in", "b", "a-third"), Consumed.with(STRING, LONG));
        several.filter((key, value) -> true).to("out");
        builder.stream(List.of("b", "a-third", "in"), Consumed.with(STRING, LONG)).to("again");
        KTable<String, Long> table = builder.table("t", Consumed.with(STRING, LONG));
        several.join(table, (one, other) -> one).to("joined");
        several.selectKey((key, value) -> key).merge(stream(builder, "z")).groupByKey(Grouped.with(STRING, LONG))
            .count(Materialized.with(STRING, LONG)).toStream().to("counts");
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

    static KTable<String, Long> table(StreamsBuilder builder, String topic) {
        return builder.table(topic, Consumed.with(STRING, LONG));
    }

    static <K> Materialized<K, Long, KeyValueStore<Bytes, byte[]>> store(String name) {
        return Materialized.as(name);
    }

    static void tables(StreamsBuilder builder) {
        KTable<String, Long> table = table(builder, "t");
        table.filter((key, value) -> true).mapValues(value -> value).toStream().to("seen");
        table.filterNot((key, value) -> true, Describe.<String>store("kept").withKeySerde(STRING).withValueSerde(LONG))
            .mapValues(value -> value, Named.as("copy"), Materialized.with(STRING, LONG))
            .toStream()
            .to("kept");
        builder.table("u", Consumed.with(STRING, LONG).withName("users"), store("users-store"))
            .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(5), Suppressed.BufferConfig.maxRecords(2)))
            .toStream()
            .to("users");
        stream(builder, "v").toTable().toStream().to("versions");
        stream(builder, "w").selectKey((key, value) -> key).toTable(Named.as("table"), store("w")).toStream().to("w-out");
        stream(builder, "x").selectKey((key, value) -> key).toTable().filter((key, value) -> true).toStream().to("x-out");
    }

    static void groupedTables(StreamsBuilder builder) {
        KTable<String, Long> table = table(builder, "t").mapValues(value -> value);
        table.groupBy((key, value) -> KeyValue.pair(key, value), Grouped.with(STRING, LONG)).count().toStream().to("counts");
        table.groupBy((key, value) -> KeyValue.pair(key, value), Grouped.with("regrouped", STRING, LONG))
            .aggregate(() -> 0L, (key, value, sum) -> sum, (key, value, sum) -> sum, Named.as("sum"), store("sums"))
            .toStream()
            .to("sums");
        table.groupBy((key, value) -> KeyValue.pair(key, value), Grouped.with(STRING, LONG))
            .reduce((sum, value) -> sum, (sum, value) -> sum)
            .groupBy((key, value) -> KeyValue.pair(key, value), Grouped.with(STRING, LONG))
            .count(Materialized.with(STRING, LONG))
            .toStream()
            .to("reduced");
    }

    static final JoinWindows NEAR = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(5));

    static StreamJoined<String, Long, Long> joined() {
        return StreamJoined.with(STRING, LONG, LONG);
    }

    static void streamJoins(StreamsBuilder builder) {
        KStream<String, Long> left = stream(builder, "left");
        KStream<String, Long> right = stream(builder, "right");
        left.join(right, (one, other) -> one, NEAR, joined()).to("inner");
        left.leftJoin(right, (one, other) -> one, NEAR, joined()).to("left-joined");
        left.outerJoin(right, (one, other) -> one, NEAR, joined()).to("outer");
        left.outerJoin(right, (one, other) -> one, NEAR, joined().withName("both").withStoreName("sides")).to("named");
        left.leftJoin(right, (one, other) -> one, NEAR, joined().withName("some")).to("named-left");
        left.join(left, (one, other) -> one, NEAR, joined()).to("self");
    }

    static void rekeyedJoins(StreamsBuilder builder) {
        KStream<String, Long> left = stream(builder, "left").selectKey((key, value) -> key);
        KStream<String, Long> right = stream(builder, "right").map((key, value) -> KeyValue.pair(key, value));
        KTable<String, Long> table = table(builder, "t");
        left.join(right, (one, other) -> one, NEAR, joined()).to("once");
        left.leftJoin(right, (one, other) -> one, NEAR, joined()).to("twice");
        left.join(right, (one, other) -> one, NEAR, joined().withName("both")).to("named");
        left.join(table, (one, other) -> one, Joined.with(STRING, LONG, LONG)).to("with-table");
        left.leftJoin(table, (one, other) -> one, Joined.with(STRING, LONG, LONG, "lookup")).to("named-with-table");
    }

    static void tableLookups(StreamsBuilder builder) {
        KStream<String, Long> stream = stream(builder, "in");
        GlobalKTable<String, Long> global = builder.globalTable("g", Consumed.with(STRING, LONG));
        stream.join(global, (key, value) -> key, (one, other) -> one).to("global");
        stream.leftJoin(global, (key, value) -> key, (one, other) -> one, Named.as("wide")).to("global-left");
        stream.join(table(builder, "t").filter((key, value) -> true).mapValues(value -> value), (one, other) -> one).to("t-out");
        KTable<String, Long> versioned = builder.table("v", Consumed.with(STRING, LONG),
            Materialized.as(Stores.persistentVersionedKeyValueStore("history", Duration.ofMillis(100))));
        stream.join(versioned, (one, other) -> one, Joined.with(STRING, LONG, LONG, "waits", Duration.ofMillis(5))).to("v-out");
    }

    static void tableJoins(StreamsBuilder builder) {
        KTable<String, Long> a = table(builder, "a");
        KTable<String, Long> b = table(builder, "b");
        KTable<String, Long> c = table(builder, "c").suppress(
            Suppressed.untilTimeLimit(Duration.ofMillis(5), Suppressed.BufferConfig.unbounded()));
        a.join(b, (one, other) -> one).leftJoin(c, (one, other) -> one, store("abc")).toStream().to("abc");
        a.outerJoin(b, (one, other) -> one, Named.as("both"), Materialized.with(STRING, LONG)).toStream().to("both");
        stream(builder, "in").join(a.join(b, (one, other) -> one), (one, other) -> one).to("with-join");
    }

    static void foreignKeys(StreamsBuilder builder) {
        KTable<String, Long> a = table(builder, "a");
        KTable<String, Long> b = table(builder, "b");
        a.join(b, value -> "k", (one, other) -> one).toStream().to("joined");
        a.leftJoin(b.filter((key, value) -> true), value -> "k", (one, other) -> one, TableJoined.as("fk"), store("fks")).toStream().to("named");
    }

    static void cogrouped(StreamsBuilder builder) {
        KGroupedStream<String, Long> a = byKey(stream(builder, "a"));
        KGroupedStream<String, Long> b = stream(builder, "b").groupBy((key, value) -> key, Grouped.with(STRING, LONG));
        a.<Long>cogroup((key, value, sum) -> sum).cogroup(b, (key, value, sum) -> sum)
            .aggregate(() -> 0L, Materialized.with(STRING, LONG)).toStream().to("sums");
        a.<Long>cogroup((key, value, sum) -> sum).cogroup(b, (key, value, sum) -> sum)
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10)))
            .aggregate(() -> 0L, Named.as("agg"), Materialized.as("windowed")).toStream().to("windowed");
    }

    static void branches(StreamsBuilder builder) {
        Map<String, KStream<String, Long>> numbers = stream(builder, "in").split()
            .branch((key, value) -> value > 5)
            .branch((key, value) -> value > 3)
            .defaultBranch();
        new TreeMap<>(numbers).forEach((name, branch) -> branch.to("to-" + name));
        Map<String, KStream<String, Long>> left = stream(builder, "in").split()
            .branch((key, value) -> value > 5, Branched.withConsumer(branch -> branch.to("consumed")))
            .branch((key, value) -> value > 3, Branched.withFunction(branch -> branch.mapValues(value -> value), "mapped"))
            .branch((key, value) -> value > 2, Branched.withFunction(branch -> null))
            .defaultBranch(Branched.withConsumer(branch -> branch.print(Printed.toSysOut())));
        left.forEach((name, branch) -> branch.to("left-" + name));
        Map<String, KStream<String, Long>> named = stream(builder, "in").selectKey((key, value) -> key)
            .split(Named.as("by-size-"))
            .branch((key, value) -> value > 5, Branched.as("large"))
            .noDefaultBranch();
        byKey(named.get("by-size-large")).count(Materialized.with(STRING, LONG)).toStream().to("large");
    }

    static void steps(StreamsBuilder builder) {
        KStream<String, Long> one = stream(builder, "in");
        KStream<String, Long> other = stream(builder, "in");
        one.peek((key, value) -> { }).merge(other.flatMapValues(value -> List.of(value))).to("merged");
        one.merge(one).to("doubled");
        other.foreach((key, value) -> { });
        other.repartition(Repartitioned.with(STRING, LONG)).to("spread");
        other.repartition(Repartitioned.<String, Long>as("again").withKeySerde(STRING).withValueSerde(LONG)).to("spread-again");
        other.flatMap((key, value) -> List.of(KeyValue.pair(key, value)))
            .merge(one)
            .groupByKey(Grouped.with("flat", STRING, LONG))
            .windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(5)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.with(STRING, LONG))
            .toStream()
            .to("flat");
        other.process(() -> new ContextualProcessor<String, Long, String, Long>() {
            @Override
            public void process(Record<String, Long> record) { }
        }).to("processed");
    }

    static void intermediateTopics(StreamsBuilder builder) {
        stream(builder, "later").filter((key, value) -> true).to("last");
        KStream<String, Long> one = stream(builder, "in");
        one.to("middle");
        one.filter((key, value) -> value > 5).to("middle");
        byKey(stream(builder, "other").selectKey((key, value) -> key)).count(Materialized.with(STRING, LONG)).toStream().to("middle");
        KStream<String, Long> middle = stream(builder, "middle");
        middle.to("later");
        byKey(one).count(Materialized.with(STRING, LONG)).toStream().to("table");
        middle.join(builder.table("table", Consumed.with(STRING, LONG)), (left, right) -> left).to("joined");
    }

    static ProcessorSupplier<String, Long, String, Long> forwarding() {
        return () -> new ContextualProcessor<String, Long, String, Long>() {
            @Override
            public void process(Record<String, Long> record) {
                context().forward(record);
            }
        };
    }

    static StoreBuilder<KeyValueStore<String, Long>> keyValues(String name) {
        return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), STRING, LONG);
    }

    static ProcessorSupplier<String, Long, Void, Void> keeping() {
        return () -> new ContextualProcessor<String, Long, Void, Void>() {
            @Override
            public void process(Record<String, Long> record) { }
        };
    }

    static void globalStores(StreamsBuilder builder) {
        KStream<String, Long> stream = stream(builder, "in");
        builder.addGlobalStore(keyValues("kept"), "g", Consumed.with(STRING, LONG), keeping());
        builder.addGlobalStore(keyValues("named"), "h", Consumed.with(STRING, LONG).withName("names"), keeping());
        stream.process(forwarding()).to("out");
    }

    static void globalStore(Topology topology) {
        topology.addGlobalStore(
                keyValues("kept"), "every", STRING.deserializer(), LONG.deserializer(), "g", "keep", keeping())
            .addSource("read", "in")
            .addProcessor("look", forwarding(), "read")
            .addSink("write", "out", "look");
    }

    static void patterns(Topology topology) {
        topology.addSource("shops", Pattern.compile("shop-[a-z]+"))
            .addSource("others", "a", "b")
            .addProcessor("look", forwarding(), "shops", "others")
            .addSink("write", "out", "look");
    }

    static void processorApi(Topology topology) {
        topology.addSource("read", "in")
            .addProcessor("zebra", forwarding(), "read")
            .addProcessor("ant", forwarding(), "read")
            .addProcessor("both", forwarding(), "zebra", "ant")
            .addSink("write", "out", "both", "ant")
            .addSource("aside", "other")
            .addProcessor("alone", forwarding(), "aside")
            .addStateStore(keyValues("kept"), "both")
            .addStateStore(keyValues("seen"))
            .addStateStore(keyValues("first"))
            .connectProcessorAndStateStores("alone", "seen", "first")
            .addSink("copies", "copies", "aside");
    }

    public static void main(String[] arguments) {
        Map<String, Consumer<StreamsBuilder>> topologies = new LinkedHashMap<>();
        topologies.put("topics", Describe::topics);
        topologies.put("stateless", Describe::stateless);
        topologies.put("final_results", Describe::finalResults);
        topologies.put("repartitioned", Describe::repartitioned);
        topologies.put("named", Describe::named);
        topologies.put("three_levels", Describe::threeLevels);
        topologies.put("side_by_side", Describe::sideBySide);
        topologies.put("wide", Describe::wide);
        topologies.put("tables", Describe::tables);
        topologies.put("grouped_tables", Describe::groupedTables);
        topologies.put("stream_joins", Describe::streamJoins);
        topologies.put("rekeyed_joins", Describe::rekeyedJoins);
        topologies.put("table_lookups", Describe::tableLookups);
        topologies.put("table_joins", Describe::tableJoins);
        topologies.put("foreign_keys", Describe::foreignKeys);
        topologies.put("cogrouped", Describe::cogrouped);
        topologies.put("branches", Describe::branches);
        topologies.put("steps", Describe::steps);
        topologies.put("intermediate_topics", Describe::intermediateTopics);
        topologies.put("global_stores", Describe::globalStores);
        topologies.forEach((name, build) -> {
            StreamsBuilder builder = new StreamsBuilder();
            build.accept(builder);
            System.out.println("=== " + name);
            System.out.print(builder.build().describe());
        });
        Map<String, Consumer<Topology>> byName = new LinkedHashMap<>();
        byName.put("processor_api", Describe::processorApi);
        byName.put("global_store", Describe::globalStore);
        byName.put("patterns", Describe::patterns);
        byName.forEach((name, build) -> {
            Topology topology = new Topology();
            build.accept(topology);
            System.out.println("=== " + name);
            System.out.print(topology.describe());
        });
    }
}
