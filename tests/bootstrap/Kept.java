import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** Applications with stores of every kind, whose twins are in kept.py. */
public class Kept {
    static final Serde<String> S = Serdes.String();
    static final Serde<Long> L = Serdes.Long();

    static KStream<String, String> clicks(StreamsBuilder builder) {
        return builder.stream("clicks", Consumed.with(S, S));
    }

    /** One count a key, and the longest value so far. */
    public static void totals(StreamsBuilder builder) {
        KGroupedStream<String, String> clicks = clicks(builder).groupByKey();
        clicks.count(Materialized.as("counts")).toStream().to("out", Produced.with(S, L));
        clicks.reduce((old, value) -> value.length() > old.length() ? value : old, Materialized.as("longest"))
            .toStream().to("longest-values", Produced.with(S, S));
    }

    /** Counts of hopping windows, final and as they change. */
    public static void windows(StreamsBuilder builder) {
        windows(builder, 20);
    }

    /** The same with the mistake that late clicks are dropped. */
    public static void strict(StreamsBuilder builder) {
        windows(builder, 0);
    }

    static void windows(StreamsBuilder builder, long graceSeconds) {
        KTable<Windowed<String>, Long> counts = clicks(builder).groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(graceSeconds))
                .advanceBy(Duration.ofSeconds(5)))
            .count(Materialized.as("counts"));
        Serde<Windowed<String>> key = WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000L);
        counts.toStream().to("updates", Produced.with(key, L));
        counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("buffer"))
            .toStream().to("out", Produced.with(key, L));
    }

    /** Counts of sessions, final ones, and those of a time limit. */
    public static void sessions(StreamsBuilder builder) {
        KTable<Windowed<String>, Long> counts = clicks(builder).groupByKey()
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(4), Duration.ofSeconds(15)))
            .count(Materialized.as("counts"));
        Serde<Windowed<String>> key = WindowedSerdes.sessionWindowedSerdeFrom(String.class);
        counts.toStream().to("updates", Produced.with(key, L));
        counts.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("buffer"))
            .toStream().to("out", Produced.with(key, L));
    }

    /** Sliding windows, and windows that are emitted when they close. */
    public static void closing(StreamsBuilder builder) {
        KGroupedStream<String, String> clicks = clicks(builder).groupByKey();
        Serde<Windowed<String>> key = WindowedSerdes.timeWindowedSerdeFrom(String.class, 5_000L);
        clicks.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(10)))
            .count(Materialized.as("sliding")).toStream().to("slides", Produced.with(key, L));
        clicks.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(10)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.as("closed")).toStream().to("out", Produced.with(key, L));
    }

    /** Windows that are emitted when they close, of a task that reads nothing but what another sends. */
    public static void regrouped(StreamsBuilder builder) {
        Serde<Windowed<String>> key = WindowedSerdes.timeWindowedSerdeFrom(String.class, 5_000L);
        clicks(builder).selectKey((name, value) -> name).groupByKey(Grouped.with("again", S, S))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(5), Duration.ofSeconds(10)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.as("closed")).toStream().to("out", Produced.with(key, L));
    }

    /** A versioned table that a stream looks into, and what is counted of it by value. */
    public static void versions(StreamsBuilder builder) {
        KTable<String, String> users = builder.table("users", Consumed.with(S, S),
            Materialized.as(Stores.persistentVersionedKeyValueStore("users-kept", Duration.ofSeconds(60))));
        clicks(builder).leftJoin(users, (click, user) -> click + " by " + user, Joined.with(S, S, S))
            .to("out", Produced.with(S, S));
        users.groupBy((key, value) -> KeyValue.pair(value, key), Grouped.with("by-name", S, S))
            .count(Materialized.as("names")).toStream().to("named", Produced.with(S, L));
    }

    /** A left join of two streams. */
    public static void streams(StreamsBuilder builder) {
        KStream<String, String> orders = builder.stream("orders", Consumed.with(S, S));
        clicks(builder).outerJoin(orders, (click, order) -> click + "/" + order,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(8), Duration.ofSeconds(12)),
                StreamJoined.with(S, S, S).withStoreName("pairs"))
            .to("out", Produced.with(S, S));
    }

    /** Tables joined by key and by foreign key. */
    public static void tables(StreamsBuilder builder) {
        KTable<String, String> users = builder.table("users", Consumed.with(S, S), Materialized.as("users-kept"));
        KTable<String, String> groups = builder.table("groups", Consumed.with(S, S), Materialized.as("groups-kept"));
        users.leftJoin(groups, user -> "g" + (4 + user.length() % 4), (user, group) -> user + " in " + group,
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("members").withKeySerde(S).withValueSerde(S))
            .toStream().to("out", Produced.with(S, S));
    }

    /** A task that reads a topic, and what three others write. */
    public static void meeting(StreamsBuilder builder) {
        KTable<String, String> groups = builder.table("groups", Consumed.with(S, S), Materialized.as("groups-kept"));
        KStream<String, String> clicks = clicks(builder);
        KTable<String, String> orders = byLength(builder, "orders"), users = byLength(builder, "users");
        clicks.selectKey((key, click) -> "g" + (4 + click.length() % 4)).repartition(Repartitioned.with(S, S).withName("by-group"))
            .leftJoin(groups, (click, group) -> click + " " + group)
            .leftJoin(orders, (click, order) -> click + " " + order)
            .leftJoin(users, (click, user) -> click + " " + user)
            .to("out", Produced.with(S, S));
    }

    /** A join by foreign key whose result is joined with a topic of its own task. */
    public static void beside(StreamsBuilder builder) {
        KTable<String, String> orders = builder.table("orders", Consumed.with(S, S), Materialized.as("orders-kept"));
        KTable<String, String> users = builder.table("users", Consumed.with(S, S), Materialized.as("users-kept"));
        KTable<String, String> groups = builder.table("groups", Consumed.with(S, S), Materialized.as("groups-kept"));
        users.leftJoin(groups, user -> "g" + (4 + user.length() % 4), (user, group) -> user + " " + group,
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("members").withKeySerde(S).withValueSerde(S))
            .outerJoin(orders, (member, order) -> member + " " + order)
            .toStream().to("out", Produced.with(S, S));
    }

    /** Records that another task wrote, beside a topic and a global table. */
    public static void looking(StreamsBuilder builder) {
        KTable<String, String> users = builder.table("users", Consumed.with(S, S), Materialized.as("users-kept"));
        GlobalKTable<String, String> groups = builder.globalTable("groups", Consumed.with(S, S), Materialized.as("groups-kept"));
        clicks(builder).selectKey((key, click) -> "u" + (4 + click.length() % 4))
            .repartition(Repartitioned.with(S, S).withName("by-user"))
            .leftJoin(users, (click, user) -> click + " " + user)
            .leftJoin(groups, (key, click) -> "g" + key.substring(1), (click, group) -> click + " " + group)
            .to("out", Produced.with(S, S));
    }

    static KTable<String, String> byLength(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(S, S)).filter((key, value) -> value != null)
            .selectKey((key, value) -> "g" + (4 + value.length() % 4))
            .mapValues((key, value) -> value + key)
            .toTable(Named.as(topic + "-kept"), Materialized.with(S, S));
    }

    /** A processor with stores of its own, and a punctuation. */
    public static void processor(StreamsBuilder builder) {
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("sums"), S, L));
        builder.addStateStore(Stores.timestampedKeyValueStoreBuilder(Stores.inMemoryKeyValueStore("last"), S, S));
        builder.addStateStore(Stores.windowStoreBuilder(
            Stores.persistentWindowStore("seen", Duration.ofSeconds(200), Duration.ofSeconds(10), false), S, L));
        builder.addStateStore(Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore("history", Duration.ofSeconds(100)), S, S));
        clicks(builder).process(Sums::new, "sums", "last", "seen", "history").to("out", Produced.with(S, S));
    }

    static final class Sums extends ContextualProcessor<String, String, String, String> {
        KeyValueStore<String, Long> sums;
        TimestampedKeyValueStore<String, String> last;
        WindowStore<String, Long> seen;
        VersionedKeyValueStore<String, String> history;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            sums = context.getStateStore("sums");
            last = context.getStateStore("last");
            seen = context.getStateStore("seen");
            history = context.getStateStore("history");
        }

        @Override
        public void process(Record<String, String> click) {
            long time = click.timestamp(), window = time / 10_000 * 10_000;
            Long sum = sums.get(click.key()), before = seen.fetch(click.key(), window);
            ValueAndTimestamp<String> old = last.get(click.key());
            var then = history.get(click.key(), time - 20_000);
            String said = sum + " " + before + " " + (old == null ? "-" : old.value() + "@" + old.timestamp()) + " "
                + (then == null ? "-" : then.value());
            context().forward(click.withValue(said));
            sums.put(click.key(), (sum == null ? 0 : sum) + click.value().length());
            seen.put(click.key(), (before == null ? 0 : before) + 1, window);
            last.put(click.key(), ValueAndTimestamp.make(click.value(), time));
            history.put(click.key(), click.value(), time);
        }
    }
}
