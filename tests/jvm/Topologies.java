import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** A scenario's topology, built with Kafka's own DSL, one method an operator. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Topologies {
    static final Serde STRING = Serdes.String(), VALUE = new Functions.Variant();

    final Oracle oracle;
    final StreamsBuilder builder;
    final Map<String, Object> made = new HashMap<>();
    final Map<String, Serde> windowed = new HashMap<>();

    Topologies(Oracle oracle, StreamsConfig settings) {
        this.oracle = oracle;
        this.builder = new StreamsBuilder(new TopologyConfig(settings));
    }

    Topology build(ProcessorSupplier collector) {
        JsonNode topology = oracle.scenario.get("topology");
        String last = null;
        for (JsonNode node : topology.get("nodes")) {
            List<Object> inputs = new ArrayList<>();
            for (JsonNode input : node.path("inputs")) inputs.add(made.get(input.asText()));
            last = text(node, "id");
            noteKeys(node);
            made.put(last, node(node, inputs.isEmpty() ? null : inputs.get(0), inputs.size() < 2 ? null : inputs.get(1)));
        }
        Object output = made.get(topology.has("output") ? text(topology, "output") : last);
        KStream stream = output instanceof KTable ? ((KTable) output).toStream() : (KStream) output;
        stream.process(collector);
        return builder.build();
    }

    Object node(JsonNode node, Object input, Object other) {
        switch (text(node, "op")) {
            case "stream": return builder.stream(List.of(text(node, "topic").split("\\+")), consumed(node));
            case "table": return table(node);
            case "global_store":  return globalStore(node);
            case "global_table":  return globalTable(node);
            case "filter": return filter(node, input);
            case "map_values": return mapValues(node, input);
            case "transform_values": return transformValues(node, (KTable) input);
            case "select_key": return ((KStream) input).selectKey((k, v) -> select(node, "key", k, v));
            case "merge": return ((KStream) input).merge((KStream) other);
            case "to": return to(node, input instanceof KTable ? ((KTable) input).toStream() : (KStream) input);
            case "to_stream": return ((KTable) input).toStream();
            case "to_table": return toTable(node, (KStream) input);
            case "group_by_key": return ((KStream) input).groupByKey(grouped());
            case "group_by": return groupBy(node, input);
            case "window": return window(node, (KGroupedStream) input);
            case "aggregate": return aggregate(node, input);
            case "suppress": return suppress(node, (KTable) input);
            case "to_one_of": {
                String[] topics = text(node, "topics").split("\\+");
                ((KStream) input).to((key, value, context) ->
                    topics[Functions.codePoints(Functions.str(value)) % topics.length]);
                return null;
            }
            case "state_store": return stateStore(node);
            case "process":
            case "process_values": return process(node, (KStream) input);
            case "stream_table_join": return streamTableJoin(node, (KStream) input, (KTable) other);
            case "table_table_join": return tableTableJoin(node, (KTable) input, (KTable) other);
            case "fk_join": return foreignKeyJoin(node, (KTable) input, (KTable) other);
            case "stream_stream_join": return streamStreamJoin(node, (KStream) input, (KStream) other);
            case "deduplicate_by_key":
            case "deduplicate_by_key_value":
            case "deduplicate": return deduplicate(node, (KStream) input);
        }
        throw new SpecException("operator " + node);
    }

    /** The scenario itself is wrong. */
    static class SpecException extends RuntimeException {
        SpecException(String message) {
            super(message);
        }
    }

    // --- parameters ------------------------------------------------------------------------------------------

    static String text(JsonNode node, String field) {
        return node.get(field).asText();
    }

    static Duration duration(JsonNode node, String field) {
        return Duration.ofMillis(node.get(field).asLong());
    }

    static String select(JsonNode node, String field, Object key, Object value) {
        return Functions.select(text(node, field), key, value);
    }

    static Consumed consumed() {
        return Consumed.with(STRING, VALUE);
    }

    /** At the times of the node's extractor, if it has one. */
    static Consumed consumed(JsonNode node) {
        TimestampExtractor extractor = Extractors.of(node);
        return extractor == null ? consumed() : consumed().withTimestampExtractor(extractor);
    }

    static Grouped grouped() {
        return Grouped.with(STRING, VALUE);
    }

    /** The store that the node asks for, or null. */
    static Materialized named(JsonNode node) {
        String name = text(node, "id");
        Materialized store = null;
        if (node.has("versioned")) {
            Duration history = duration(node.get("versioned"), "history_retention");
            VersionedBytesStoreSupplier supplier = node.get("versioned").has("segment_interval")
                ? Stores.persistentVersionedKeyValueStore(name, history, duration(node.get("versioned"), "segment_interval"))
                : Stores.persistentVersionedKeyValueStore(name, history);
            store = Materialized.as(supplier);
        } else if (node.path("materialized").asBoolean()) {
            store = Materialized.<Object, Object, KeyValueStore<Bytes, byte[]>>as(name);
        }
        return store == null ? null : store.withKeySerde(STRING).withValueSerde(VALUE);
    }

    /** The serde of windowed keys, which Kafka Streams has to be told for a store of theirs. */
    void noteKeys(JsonNode node) {
        Serde known = windowed.get(node.path("inputs").path(0).asText());
        boolean isSession = node.path("type").asText().equals("session");
        if (text(node, "op").equals("window")) {
            long size = node.has("size") ? node.get("size").asLong() : node.path("difference").asLong();
            known = isSession ? new WindowedSerdes.SessionWindowedSerde(STRING) : new WindowedSerdes.TimeWindowedSerde(STRING, size);
        }
        boolean keepsKeys = !text(node, "op").equals("select_key") && !text(node, "op").equals("group_by");
        if (known != null && keepsKeys) windowed.put(text(node, "id"), known);
    }

    /** Of a step of a table. */
    Materialized ofStep(JsonNode node) {
        Materialized store = named(node);
        return store == null ? null : store.withKeySerde(windowed.getOrDefault(text(node, "id"), STRING));
    }

    static Materialized named(JsonNode node, Materialized otherwise) {
        Materialized store = named(node);
        return store == null ? otherwise : store;
    }

    // --- steps -----------------------------------------------------------------------------------------------

    Object table(JsonNode node) {
        return builder.table(text(node, "topic"), consumed(node), named(node, Materialized.with(STRING, VALUE)));
    }

    Object globalTable(JsonNode node) {
        Materialized store = named(node);
        String topic = text(node, "topic");
        globals.add(text(node, "id"));
        return store == null ? builder.globalTable(topic, consumed()) : builder.globalTable(topic, consumed(), store);
    }

    Object filter(JsonNode node, Object input) {
        Predicate predicate = (key, value) -> Functions.test(text(node, "predicate"), key, value);
        if (input instanceof KStream) return ((KStream) input).filter(predicate);
        Materialized store = ofStep(node);
        return store == null ? ((KTable) input).filter(predicate) : ((KTable) input).filter(predicate, store);
    }

    Object mapValues(JsonNode node, Object input) {
        ValueMapper mapper = value -> Functions.map(text(node, "mapper"), value);
        if (input instanceof KStream) return ((KStream) input).mapValues(mapper);
        Materialized store = ofStep(node);
        return store == null ? ((KTable) input).mapValues(mapper) : ((KTable) input).mapValues(mapper, store);
    }

    Object transformValues(JsonNode node, KTable table) {
        ValueTransformerWithKeySupplier supplier = () -> new Functions.Transformer(text(node, "transformer"));
        Materialized store = ofStep(node);
        return store == null ? table.transformValues(supplier) : table.transformValues(supplier, store);
    }

    /** The stream, for who writes it and goes on with it. */
    static Object to(JsonNode node, KStream stream) {
        stream.to(text(node, "topic"), Produced.with(STRING, VALUE));
        return stream;
    }

    static Object toTable(JsonNode node, KStream stream) {
        return stream.toTable(named(node, Materialized.with(STRING, VALUE)));
    }

    // --- groups, windows, aggregates -------------------------------------------------------------------------

    static Object groupBy(JsonNode node, Object input) {
        if (input instanceof KStream) {
            return ((KStream) input).groupBy((k, v) -> select(node, "key", k, v), grouped());
        }
        String mapper = node.path("value").asText("identity");
        KeyValueMapper both = (k, v) -> KeyValue.pair(select(node, "key", k, v), Functions.map(mapper, v));
        return ((KTable) input).groupBy(both, grouped());
    }

    static Object window(JsonNode node, KGroupedStream grouped) {
        Duration grace = duration(node, "grace");
        switch (text(node, "type")) {
            case "session":
                return grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(duration(node, "gap"), grace));
            case "sliding":
                return grouped.windowedBy(
                    SlidingWindows.ofTimeDifferenceAndGrace(duration(node, "difference"), grace));
        }
        TimeWindows windows = TimeWindows.ofSizeAndGrace(duration(node, "size"), grace);
        return grouped.windowedBy(node.has("advance") ? windows.advanceBy(duration(node, "advance")) : windows);
    }

    static Object aggregate(JsonNode node, Object input) {
        String function = text(node, "function");
        boolean isReduce = function.startsWith("reduce:");
        Reducer reducer = (one, other) -> Functions.reduce(function, one, other);
        Initializer initial = () -> Functions.initial(function);
        Aggregator add = (key, value, aggregate) -> Functions.add(function, aggregate, value);
        Materialized store = named(node, Materialized.with(STRING, VALUE));
        if (node.has("retention")) store = store.withRetention(duration(node, "retention"));
        if (input instanceof KGroupedTable) return aggregateTable(function, (KGroupedTable) input, store);
        boolean isOnClose = node.path("emit").asText().equals("on_close");
        if (input instanceof SessionWindowedKStream) {
            SessionWindowedKStream sessions = (SessionWindowedKStream) input;
            if (isOnClose) sessions = sessions.emitStrategy(EmitStrategy.onWindowClose());
            Merger merger = (key, one, other) -> Functions.merge(function, one, other);
            return isReduce ? sessions.reduce(reducer, store) : sessions.aggregate(initial, add, merger, store);
        }
        if (input instanceof TimeWindowedKStream) {
            TimeWindowedKStream windows = (TimeWindowedKStream) input;
            if (isOnClose) windows = windows.emitStrategy(EmitStrategy.onWindowClose());
            return isReduce ? windows.reduce(reducer, store) : windows.aggregate(initial, add, store);
        }
        KGroupedStream grouped = (KGroupedStream) input;
        return isReduce ? grouped.reduce(reducer, store) : grouped.aggregate(initial, add, store);
    }

    static Object aggregateTable(String function, KGroupedTable grouped, Materialized store) {
        if (function.startsWith("fold:")) {
            Aggregator add = (key, value, aggregate) -> Folds.change(function, '+', aggregate, value);
            Aggregator take = (key, value, aggregate) -> Folds.change(function, '-', aggregate, value);
            KTable kept = grouped.aggregate(() -> Folds.initial(function), add, take, store);
            return kept.mapValues(aggregate -> Folds.read(function, aggregate));
        }
        if (function.startsWith("reduce:")) {
            Reducer adder = (aggregate, value) -> Functions.change(function, '+', aggregate, value);
            Reducer subtractor = (aggregate, value) -> Functions.change(function, '-', aggregate, value);
            return grouped.reduce(adder, subtractor, store);
        }
        Aggregator adder = (key, value, aggregate) -> Functions.change(function, '+', aggregate, value);
        Aggregator subtractor = (key, value, aggregate) -> Functions.change(function, '-', aggregate, value);
        return grouped.aggregate(() -> Functions.initial(function), adder, subtractor, store);
    }

    // --- suppress, deduplicate --------------------------------------------------------------------------------

    Object suppress(JsonNode node, KTable table) {
        oracle.suppressed.add(text(node, "id"));
        boolean isStrict = text(node, "until").equals("window_closes");
        boolean isLimited = node.has("max_records") || node.has("max_bytes");
        long records = node.path("max_records").asLong(Long.MAX_VALUE);
        long bytes = node.path("max_bytes").asLong(Long.MAX_VALUE);
        Suppressed.EagerBufferConfig eager = Suppressed.BufferConfig.maxRecords(records).withMaxBytes(bytes);
        Suppressed.StrictBufferConfig strict =
            isLimited ? eager.shutDownWhenFull() : Suppressed.BufferConfig.unbounded();
        boolean isEager = isLimited && !node.path("full").asText().equals("shut_down");
        Suppressed suppressed = isStrict
            ? Suppressed.untilWindowCloses(strict).withName(text(node, "id"))
            : Suppressed.untilTimeLimit(duration(node, "wait"), isEager ? eager : strict).withName(text(node, "id"));
        return table.suppress(suppressed);
    }

    /** Keys stay, so what is grouped below needs no repartition. */
    Object deduplicate(JsonNode node, KStream stream) {
        FixedKeyProcessorSupplier supplier = () -> new Deduplicate(node, oracle);
        return stream.processValues(supplier);
    }

    // --- processors ------------------------------------------------------------------------------------------

    final Set<String> globals = new HashSet<>();

    Object stateStore(JsonNode node) {
        String name = text(node, "id"), kind = text(node, "kind");
        if (kind.equals("key_value")) {
            builder.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), STRING, VALUE));
        } else if (kind.equals("session")) {
            Duration kept = duration(node, "retention");
            builder.addStateStore(Stores.sessionStoreBuilder(
                text(node, "store").equals("in_memory")
                    ? Stores.inMemorySessionStore(name, kept)
                    : Stores.persistentSessionStore(name, kept), STRING, VALUE));
        } else if (kind.equals("versioned")) {
            Duration kept = duration(node, "retention");
            builder.addStateStore(Stores.versionedKeyValueStoreBuilder(
                node.has("segment")
                    ? Stores.persistentVersionedKeyValueStore(name, kept, duration(node, "segment"))
                    : Stores.persistentVersionedKeyValueStore(name, kept), STRING, VALUE));
        } else if (kind.equals("timestamped")) {
            builder.addStateStore(Stores.timestampedKeyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), STRING, VALUE));
        } else if (kind.endsWith("_headers")) {
            builder.addStateStore(storeWithHeaders(node, name, kind));
        } else {
            Duration retention = duration(node, "retention"), size = duration(node, "size");
            boolean keeps = node.path("duplicates").asInt() > 0;
            WindowBytesStoreSupplier supplier = text(node, "store").equals("in_memory")
                ? Stores.inMemoryWindowStore(name, retention, size, keeps)
                : kind.equals("window")
                ? Stores.persistentWindowStore(name, retention, size, keeps)
                : Stores.persistentTimestampedWindowStore(name, retention, size, keeps);
            if (kind.equals("window")) builder.addStateStore(Stores.windowStoreBuilder(supplier, STRING, VALUE));
            else builder.addStateStore(Stores.timestampedWindowStoreBuilder(supplier, STRING, VALUE));
        }
        return null;
    }

    /** In memory or in RocksDB (KIP-1271). */
    StoreBuilder storeWithHeaders(JsonNode node, String name, String kind) {
        boolean inMemory = text(node, "store").equals("in_memory");
        if (kind.equals("timestamped_headers")) {
            return Stores.timestampedKeyValueStoreWithHeadersBuilder(
                inMemory
                    ? Stores.inMemoryKeyValueStore(name)
                    : Stores.persistentTimestampedKeyValueStoreWithHeaders(name), STRING, VALUE);
        }
        Duration kept = duration(node, "retention");
        if (kind.equals("session_headers")) {
            return Stores.sessionStoreWithHeadersBuilder(
                inMemory
                    ? Stores.inMemorySessionStore(name, kept)
                    : Stores.persistentSessionStoreWithHeaders(name, kept), STRING, VALUE);
        }
        Duration size = duration(node, "size");
        return Stores.timestampedWindowStoreWithHeadersBuilder(
            inMemory
                ? Stores.inMemoryWindowStore(name, kept, size, false)
                : Stores.persistentTimestampedWindowStoreWithHeaders(name, kept, size, false), STRING, VALUE);
    }

    Object globalStore(JsonNode node) {
        String name = text(node, "id");
        globals.add(name);
        ProcessorSupplier keeps = () -> new Processors(text(node, "processor"), new String[] {name});
        StoreBuilder store = text(node, "kind").equals("timestamped")
            ? Stores.timestampedKeyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), STRING, VALUE)
            : Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), STRING, VALUE);
        builder.addGlobalStore(store, text(node, "topic"), consumed(), keeps);
        return null;
    }

    /** A store of a global table is not named: every processor may ask for it. */
    Object process(JsonNode node, KStream stream) {
        String[] named = node.has("stores") ? text(node, "stores").split("\\+") : new String[0];
        String[] connected = Arrays.stream(named).filter(name -> !globals.contains(name)).toArray(String[]::new);
        String function = text(node, "processor");
        Named name = node.has("name") ? Named.as(text(node, "name")) : null;
        if (text(node, "op").equals("process_values")) {
            FixedKeyProcessorSupplier keeping = () -> new Processors.KeepingKeys(function, named);
            return name == null ? stream.processValues(keeping, connected) : stream.processValues(keeping, name, connected);
        }
        ProcessorSupplier supplier = () -> new Processors(function, named);
        return name == null ? stream.process(supplier, connected) : stream.process(supplier, name, connected);
    }

    // --- joins -----------------------------------------------------------------------------------------------

    static ValueJoiner joiner(JsonNode node) {
        String function = node.path("joiner").asText("pair");
        return (left, right) -> Functions.join(function, left, right);
    }

    static boolean isKeyed(JsonNode node) {
        return node.path("joiner").asText().equals("keyed");
    }

    static ValueJoinerWithKey keyedJoiner() {
        return (key, left, right) -> Functions.str(key) + "=" + Functions.join("pair", left, right);
    }

    static Object streamTableJoin(JsonNode node, KStream stream, KTable table) {
        Joined joined = Joined.with(STRING, VALUE, VALUE);
        if (node.has("grace")) joined = joined.withGracePeriod(duration(node, "grace"));
        boolean isLeft = text(node, "type").equals("left");
        if (isKeyed(node)) {
            ValueJoinerWithKey keyed = keyedJoiner();
            return isLeft ? stream.leftJoin(table, keyed, joined) : stream.join(table, keyed, joined);
        }
        return isLeft ? stream.leftJoin(table, joiner(node), joined) : stream.join(table, joiner(node), joined);
    }

    Object tableTableJoin(JsonNode node, KTable left, KTable right) {
        ValueJoiner joiner = joiner(node);
        Materialized store = ofStep(node);
        switch (text(node, "type")) {
            case "inner": return store == null ? left.join(right, joiner) : left.join(right, joiner, store);
            case "left": return store == null ? left.leftJoin(right, joiner) : left.leftJoin(right, joiner, store);
            case "outer": return store == null ? left.outerJoin(right, joiner) : left.outerJoin(right, joiner, store);
        }
        throw new SpecException("join " + node);
    }

    static Object foreignKeyJoin(JsonNode node, KTable left, KTable right) {
        java.util.function.BiFunction foreignKey = (key, value) -> select(node, "foreign_key", key, value);
        Materialized store = named(node, Materialized.with(STRING, VALUE));
        return text(node, "type").equals("left")
            ? left.leftJoin(right, foreignKey, joiner(node), store)
            : left.join(right, foreignKey, joiner(node), store);
    }

    static Object streamStreamJoin(JsonNode node, KStream left, KStream right) {
        long before = node.get("before").asLong(), after = node.get("after").asLong();
        Duration most = Duration.ofMillis(Math.max(before, after)), grace = duration(node, "grace");
        JoinWindows windows = node.path("at_once").asBoolean()
            ? JoinWindows.of(most).grace(grace) : JoinWindows.ofTimeDifferenceAndGrace(most, grace);
        windows = windows.before(Duration.ofMillis(before)).after(Duration.ofMillis(after));
        ValueJoiner joiner = joiner(node);
        StreamJoined stores = StreamJoined.with(STRING, VALUE, VALUE);
        ValueJoinerWithKey keyed = keyedJoiner();
        boolean isKeyed = isKeyed(node);
        switch (text(node, "type")) {
            case "inner":
                return isKeyed ? left.join(right, keyed, windows, stores) : left.join(right, joiner, windows, stores);
            case "left":
                return isKeyed
                    ? left.leftJoin(right, keyed, windows, stores) : left.leftJoin(right, joiner, windows, stores);
            case "outer":
                return isKeyed
                    ? left.outerJoin(right, keyed, windows, stores) : left.outerJoin(right, joiner, windows, stores);
        }
        throw new SpecException("join " + node);
    }
}
