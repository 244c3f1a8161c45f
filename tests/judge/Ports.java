import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Applications whose twins are in test_judge.py. */
public class Ports {
    static final Serde<String> S = Serdes.String();
    static final Serde<Long> L = Serdes.Long();

    static KStream<String, Long> clicks(StreamsBuilder builder) {
        return builder.stream("clicks", Consumed.with(S, L));
    }

    /** Final sessions: gap 10 s, grace 20 s. */
    public static Topology sessions() {
        return sessions(20);
    }

    /** As sessions, with a grace that its twin does not have. */
    public static Topology otherGrace() {
        return sessions(5);
    }

    static Topology sessions(long graceSeconds) {
        StreamsBuilder builder = new StreamsBuilder();
        clicks(builder).groupByKey()
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(graceSeconds)))
            .count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), L));
        return builder.build();
    }

    /** Sliding windows of 10 s, grace 5 s: the end of one is not in a key's bytes. */
    public static Topology slides() {
        StreamsBuilder builder = new StreamsBuilder();
        clicks(builder).groupByKey()
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
            .count()
            .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000L), L));
        return builder.build();
    }

    /** Counts by the last digit of the value, below a repartition, and every click as it is. */
    public static Topology digits(Properties settings) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> clicks = clicks(builder);
        clicks.to("copy", Produced.with(S, L));
        clicks.groupBy((key, value) -> Long.toString(value % 10), Grouped.with("digits", S, L))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
            .count()
            .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000L), L));
        return builder.build();
    }

    /** Clicks with users under another key, users with groups by a foreign key. */
    public static void joins(StreamsBuilder builder) {
        KTable<String, String> users = builder.table("users", Consumed.with(S, S));
        KTable<String, String> groups = builder.table("groups", Consumed.with(S, S));
        clicks(builder).selectKey((key, value) -> "u" + value % 7)
            .leftJoin(users, (click, user) -> click + " by " + user, Joined.with(S, L, S).withName("by-user"))
            .to("out", Produced.with(S, S));
        users.join(groups, user -> "g" + user.length(), (user, group) -> user + " in " + group)
            .toStream().to("members", Produced.with(S, S));
    }

    /** A processor with a store: sums by key, which a punctuation each 30 s of stream time writes and takes away. */
    public static Topology sums() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("sums"), S, L));
        clicks(builder).process(() -> new ContextualProcessor<String, Long, String, Long>() {
            KeyValueStore<String, Long> sums;

            @Override
            public void init(org.apache.kafka.streams.processor.api.ProcessorContext<String, Long> context) {
                super.init(context);
                sums = context.getStateStore("sums");
                context.schedule(Duration.ofSeconds(30), PunctuationType.STREAM_TIME, this::write);
            }

            void write(long timeMs) {
                try (var all = sums.all()) {
                    while (all.hasNext()) {
                        var one = all.next();
                        context().forward(new Record<>(one.key, one.value, timeMs));
                        sums.delete(one.key);
                    }
                }
            }

            @Override
            public void process(Record<String, Long> record) {
                Long sum = sums.get(record.key());
                sums.put(record.key(), record.value() + (sum == null ? 0 : sum));
            }
        }, "sums").to("out", Produced.with(S, L));
        return builder.build();
    }

    /** Clicks as they are, in two topics. */
    public static Topology oneMore() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> clicks = clicks(builder);
        clicks.to("clicks-topic", Produced.with(S, L));
        clicks.to("out", Produced.with(S, L));
        return builder.build();
    }

    /** Fails at a value. */
    public static Topology failing() {
        StreamsBuilder builder = new StreamsBuilder();
        clicks(builder).mapValues(value -> {
            if (value == 17) throw new IllegalStateException("seventeen");
            return value;
        }).to("out", Produced.with(S, L));
        return builder.build();
    }

    /** Clicks with global tables: of their own topic, and below a repartition. */
    public static Topology globals() {
        StreamsBuilder builder = new StreamsBuilder();
        GlobalKTable<String, String> users = builder.globalTable("users", Consumed.with(S, S));
        GlobalKTable<String, String> groups = builder.globalTable("groups", Consumed.with(S, S));
        KStream<String, Long> clicks = clicks(builder);
        clicks.leftJoin(users, (key, value) -> "u" + value % 7, (click, user) -> click + " by " + user)
            .to("out", Produced.with(S, S));
        clicks.selectKey((key, value) -> "g" + value % 7)
            .repartition(Repartitioned.with(S, L).withName("by-group"))
            .join(groups, (key, value) -> key, (click, group) -> click + " in " + group)
            .to("members", Produced.with(S, S));
        return builder.build();
    }

    /** Reads a topic that is not landed. */
    public static Topology others() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("others", Consumed.with(S, L)).to("out", Produced.with(S, L));
        return builder.build();
    }
}
