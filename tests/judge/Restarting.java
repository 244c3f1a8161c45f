import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** Applications that keep stream times, whose twins are in test_restarts.py. */
public class Restarting {
    static final Serde<String> S = Serdes.String();
    static final Serde<Long> L = Serdes.Long();
    static final Duration TEN = Duration.ofSeconds(10);

    static KGroupedStream<String, String> clicks(StreamsBuilder builder) {
        return builder.stream("clicks", Consumed.with(S, S)).groupByKey();
    }

    static void write(KTable<Windowed<String>, Long> table, Serde<Windowed<String>> windowed) {
        table.toStream().to("out", Produced.with(windowed, L));
    }

    static Serde<Windowed<String>> windowed() {
        return WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000L);
    }

    /** Windows of 10 s every 5 s, grace 2 s. */
    static TimeWindows hopping() {
        return TimeWindows.ofSizeAndGrace(TEN, Duration.ofSeconds(2)).advanceBy(Duration.ofSeconds(5));
    }

    public static void windows(StreamsBuilder builder) {
        write(clicks(builder).windowedBy(hopping()).count(), windowed());
    }

    public static void windowsInMemory(StreamsBuilder builder) {
        write(clicks(builder).windowedBy(hopping()).count(
            Materialized.<String, Long, WindowStore<Bytes, byte[]>>as(BuiltInDslStoreSuppliers.IN_MEMORY)), windowed());
    }

    public static void finals(StreamsBuilder builder) {
        write(clicks(builder).windowedBy(hopping()).count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())), windowed());
    }

    public static void sliding(StreamsBuilder builder) {
        write(clicks(builder)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(TEN, Duration.ofSeconds(5))).count(), windowed());
    }

    public static void cogrouped(StreamsBuilder builder) {
        Aggregator<String, String, String> add = (key, value, soFar) -> soFar + "," + value;
        clicks(builder).cogroup(add).cogroup(views(builder).groupByKey(Grouped.with(S, S)), add)
            .windowedBy(hopping())
            .aggregate(() -> "", Materialized.with(S, S))
            .toStream().to("out", Produced.with(windowed(), S));
    }

    /** Results when windows close, and none before. */
    public static void emitted(StreamsBuilder builder) {
        write(clicks(builder).windowedBy(hopping()).emitStrategy(EmitStrategy.onWindowClose()).count(), windowed());
    }

    public static void emittedSliding(StreamsBuilder builder) {
        write(clicks(builder)
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(TEN, Duration.ofSeconds(5)))
            .emitStrategy(EmitStrategy.onWindowClose()).count(), windowed());
    }

    public static void emittedSessions(StreamsBuilder builder) {
        write(clicks(builder)
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(TEN, Duration.ofSeconds(5)))
            .emitStrategy(EmitStrategy.onWindowClose()).count(),
            WindowedSerdes.sessionWindowedSerdeFrom(String.class));
    }

    public static void sessions(StreamsBuilder builder) {
        write(clicks(builder)
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(TEN, Duration.ofSeconds(5))).count()
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())),
            WindowedSerdes.sessionWindowedSerdeFrom(String.class));
    }

    static StreamJoined<String, String, String> stores() {
        return StreamJoined.with(S, S, S);
    }

    static KStream<String, String> views(StreamsBuilder builder) {
        return builder.stream("views", Consumed.with(S, S));
    }

    static String both(String click, String view) {
        return click + "/" + view;
    }

    /** 10 s apart, no grace. */
    public static void pairs(StreamsBuilder builder) {
        builder.stream("clicks", Consumed.with(S, S))
            .join(views(builder), Restarting::both, JoinWindows.ofTimeDifferenceWithNoGrace(TEN), stores())
            .to("out", Produced.with(S, S));
    }

    /** Views from 5 s before a click to 15 s behind it, grace 3 s. */
    public static void left(StreamsBuilder builder) {
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(TEN, Duration.ofSeconds(3))
            .before(Duration.ofSeconds(5)).after(Duration.ofSeconds(15));
        builder.stream("clicks", Consumed.with(S, S))
            .leftJoin(views(builder), Restarting::both, windows, stores())
            .to("out", Produced.with(S, S));
    }

    static JoinWindows wide() {
        return JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(8), Duration.ofSeconds(20));
    }

    public static void outer(StreamsBuilder builder) {
        builder.stream("clicks", Consumed.with(S, S))
            .outerJoin(views(builder), Restarting::both, wide(), stores())
            .to("out", Produced.with(S, S));
    }

    public static void outerInMemory(StreamsBuilder builder) {
        builder.stream("clicks", Consumed.with(S, S))
            .outerJoin(views(builder), Restarting::both, wide(),
                stores().withDslStoreSuppliers(BuiltInDslStoreSuppliers.IN_MEMORY))
            .to("out", Produced.with(S, S));
    }

    /** Clicks with the views as a table in memory, which has its own topic as changelog where the topology is optimized. */
    public static void table(StreamsBuilder builder) {
        KTable<String, String> views = builder.table("views", Consumed.with(S, S),
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as(BuiltInDslStoreSuppliers.IN_MEMORY));
        builder.stream("clicks", Consumed.with(S, S)).join(views, Restarting::both).to("out", Produced.with(S, S));
    }

    /** Windows of pairs. */
    public static void counted(StreamsBuilder builder) {
        KStream<String, String> pairs = builder.stream("clicks", Consumed.with(S, S))
            .join(views(builder), Restarting::both, JoinWindows.ofTimeDifferenceAndGrace(TEN, TEN), stores());
        write(pairs.groupByKey(Grouped.with(S, S)).windowedBy(TimeWindows.ofSizeWithNoGrace(TEN)).count(), windowed());
    }
}
