import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.internals.TimeOrderedKeyValueBuffer;

/**
 * What real Kafka Streams makes of scenarios: JSON lines in, the same lines with their result out. The language is that of
 * tests/conformance/goldens/README.md; operators that are not here end the program.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Oracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Serde<Object> VARIANT = Serdes.serdeFrom(Oracle::toBytes, Oracle::fromBytes);

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode scenario = (ObjectNode) JSON.readTree(line);
            scenario.set("result", new Oracle(scenario).play());
            out.println(JSON.writeValueAsString(scenario));
        }
    }

    // --- values ----------------------------------------------------------------------------------------------

    static byte[] toBytes(String topic, Object value) {
        if (value == null) return null;
        if (value instanceof Long) return ByteBuffer.allocate(8).putLong((Long) value).array();
        return ((String) value).getBytes(StandardCharsets.UTF_8);
    }

    static Object fromBytes(String topic, byte[] bytes) {
        if (bytes == null) return null;
        boolean isLong = bytes.length == 8 && (bytes[0] == 0 || bytes[0] == -1);
        return isLong ? (Object) ByteBuffer.wrap(bytes).getLong() : new String(bytes, StandardCharsets.UTF_8);
    }

    static Object valueOf(JsonNode value) {
        return value.isNull() ? null : value.isNumber() ? (Object) value.asLong() : value.asText();
    }

    static int codePoints(String text) {
        return text.codePointCount(0, text.length());
    }

    static long num(Object value) {
        return value == null ? 0 : value instanceof Long ? (Long) value : codePoints((String) value);
    }

    static String str(Object value) {
        return value == null ? "null" : value.toString();
    }

    static String plain(Object key) {
        return key instanceof Windowed ? (String) ((Windowed) key).key() : (String) key;
    }

    // --- named functions -------------------------------------------------------------------------------------

    static String name(String function) {
        return function.split(":", 2)[0];
    }

    static String argument(String function) {
        return function.contains(":") ? function.split(":", 2)[1] : "";
    }

    static String field(Object value, String number) {
        String[] parts = str(value).split("\\|", -1);
        int n = Integer.parseInt(number);
        return n < parts.length && !parts[n].isEmpty() ? parts[n] : null;
    }

    static String prefix(Object value, String length) {
        String text = str(value);
        int n = Math.min(Integer.parseInt(length), codePoints(text));
        return n == 0 ? null : text.substring(0, text.offsetByCodePoints(0, n));
    }

    static String select(String function, Object key, Object value) {
        switch (name(function)) {
            case "key": return plain(key);
            case "key_window":
                if (!(key instanceof Windowed)) return (String) key;
                Window window = ((Windowed) key).window();
                return plain(key) + "@" + window.start() + "/" + window.end();
            case "const": return argument(function);
        }
        if (value == null) return null;
        switch (name(function)) {
            case "value": return str(value);
            case "field": return field(value, argument(function));
            case "prefix": return prefix(value, argument(function));
            case "mod": return Long.toString(Math.floorMod(num(value), Long.parseLong(argument(function))));
        }
        throw new IllegalStateException("selector " + function);
    }

    static boolean test(String function, Object key, Object value) {
        String argument = argument(function);
        if (function.startsWith("value_") && value == null) return false;
        switch (name(function)) {
            case "true": return true;
            case "false": return false;
            case "value_not_null": return true;
            case "value_even": return Math.floorMod(num(value), 2L) == 0;
            case "value_odd": return Math.floorMod(num(value), 2L) == 1;
            case "value_gt": return num(value) > Long.parseLong(argument);
            case "value_lt": return num(value) < Long.parseLong(argument);
            case "value_contains": return str(value).contains(argument);
            case "key_eq": return argument.equals(plain(key));
            case "key_ne": return !argument.equals(plain(key));
        }
        throw new IllegalStateException("predicate " + function);
    }

    static Object map(String function, Object value) {
        String argument = argument(function);
        if (value == null) return null;
        switch (name(function)) {
            case "identity": return value;
            case "add": return num(value) + Long.parseLong(argument);
            case "mul": return num(value) * Long.parseLong(argument);
            case "mod": return Math.floorMod(num(value), Long.parseLong(argument));
            case "length": return (long) codePoints(str(value));
            case "to_string": return str(value);
            case "append": return str(value) + argument;
            case "prepend": return argument + str(value);
            case "field": return field(value, argument);
            case "null_if_even": return Math.floorMod(num(value), 2L) == 0 ? null : value;
            case "null_if_odd": return Math.floorMod(num(value), 2L) == 1 ? null : value;
        }
        throw new IllegalStateException("mapper " + function);
    }

    static Object reduce(String function, Object one, Object other) {
        switch (argument(function)) {
            case "first": return one;
            case "last": return other;
            case "concat": return str(one) + str(other);
            case "sum": return num(one) + num(other);
        }
        throw new IllegalStateException("reducer " + function);
    }

    static Object initial(String function) {
        return function.equals("concat") ? "" : function.equals("count") || function.equals("sum") ? (Object) 0L : null;
    }

    static Object add(String function, Object aggregate, Object value) {
        switch (function) {
            case "count": return (Long) aggregate + 1;
            case "sum": return (Long) aggregate + num(value);
            case "min": return aggregate == null ? num(value) : Math.min((Long) aggregate, num(value));
            case "max": return aggregate == null ? num(value) : Math.max((Long) aggregate, num(value));
            case "concat": return aggregate + str(value) + ";";
        }
        throw new IllegalStateException("aggregate " + function);
    }

    static Object merge(String function, Object one, Object other) {
        if (one == null || other == null) return one == null ? other : one;
        switch (function) {
            case "min": return Math.min((Long) one, (Long) other);
            case "max": return Math.max((Long) one, (Long) other);
            case "concat": return (String) one + other;
        }
        return (Long) one + (Long) other;
    }

    // --- the topology ----------------------------------------------------------------------------------------

    final JsonNode scenario;
    final List<ObjectNode> forwarded = new ArrayList<>();
    final Set<String> suppressed = new LinkedHashSet<>();
    final Map<String, Object> made = new HashMap<>();
    final StreamsBuilder builder = new StreamsBuilder();

    Oracle(JsonNode scenario) {
        this.scenario = scenario;
    }

    Topology topology() {
        JsonNode topology = scenario.get("topology");
        String output = null;
        for (JsonNode node : topology.get("nodes")) {
            output = node.get("id").asText();
            made.put(output, node(node, node.has("inputs") ? made.get(node.get("inputs").get(0).asText()) : null));
        }
        Object last = made.get(topology.has("output") ? topology.get("output").asText() : output);
        KStream stream = last instanceof KTable ? ((KTable) last).toStream() : (KStream) last;
        stream.process(() -> (Processor) record -> forwarded.add(row((Record) record)));
        return builder.build();
    }

    Object node(JsonNode node, Object input) {
        Grouped grouped = Grouped.with((Serde) Serdes.String(), VARIANT);
        switch (node.get("op").asText()) {
            case "stream": return builder.stream(text(node, "topic"), Consumed.with(Serdes.String(), VARIANT));
            case "filter": return ((KStream) input).filter((k, v) -> test(text(node, "predicate"), k, v));
            case "map_values": return ((KStream) input).mapValues((ValueMapper) v -> map(text(node, "mapper"), v));
            case "select_key": return ((KStream) input).selectKey((k, v) -> select(text(node, "key"), k, v));
            case "group_by_key": return ((KStream) input).groupByKey(grouped);
            case "group_by": return ((KStream) input).groupBy((k, v) -> select(text(node, "key"), k, v), grouped);
            case "window": return window(node, (KGroupedStream) input);
            case "aggregate": return aggregate(node, input);
            case "suppress": return suppress(node, (KTable) input);
            case "to_stream": return ((KTable) input).toStream();
        }
        throw new IllegalStateException("operator " + node);
    }

    static String text(JsonNode node, String field) {
        return node.get(field).asText();
    }

    static Duration duration(JsonNode node, String field) {
        return Duration.ofMillis(node.get(field).asLong());
    }

    static Object window(JsonNode node, KGroupedStream grouped) {
        Duration grace = duration(node, "grace");
        if (text(node, "type").equals("session")) {
            return grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(duration(node, "gap"), grace));
        }
        TimeWindows windows = TimeWindows.ofSizeAndGrace(duration(node, "size"), grace);
        return grouped.windowedBy(node.has("advance") ? windows.advanceBy(duration(node, "advance")) : windows);
    }

    Object aggregate(JsonNode node, Object input) {
        String function = text(node, "function");
        boolean isReduce = function.startsWith("reduce:");
        Reducer reducer = (one, other) -> reduce(function, one, other);
        Initializer initializer = () -> initial(function);
        Aggregator aggregator = (key, value, aggregate) -> add(function, aggregate, value);
        Materialized store = materialized(node);
        if (input instanceof SessionWindowedKStream) {
            SessionWindowedKStream sessions = (SessionWindowedKStream) input;
            Merger merger = (key, one, other) -> merge(function, one, other);
            return isReduce ? sessions.reduce(reducer, store) : sessions.aggregate(initializer, aggregator, merger, store);
        }
        if (input instanceof TimeWindowedKStream) {
            TimeWindowedKStream windows = (TimeWindowedKStream) input;
            return isReduce ? windows.reduce(reducer, store) : windows.aggregate(initializer, aggregator, store);
        }
        KGroupedStream grouped = (KGroupedStream) input;
        return isReduce ? grouped.reduce(reducer, store) : grouped.aggregate(initializer, aggregator, store);
    }

    Materialized materialized(JsonNode node) {
        boolean isRocksDb = scenario.get("topology").path("store").asText().equals("rocksdb");
        Materialized store =
            Materialized.as(isRocksDb ? Materialized.StoreType.ROCKS_DB : Materialized.StoreType.IN_MEMORY);
        store = store.withKeySerde(Serdes.String()).withValueSerde(VARIANT);
        return node.has("retention") ? store.withRetention(duration(node, "retention")) : store;
    }

    Object suppress(JsonNode node, KTable table) {
        Suppressed.StrictBufferConfig buffer = Suppressed.BufferConfig.unbounded();
        if (node.has("max_records") || node.has("max_bytes")) {
            buffer = Suppressed.BufferConfig.maxRecords(node.path("max_records").asLong(Long.MAX_VALUE))
                .withMaxBytes(node.path("max_bytes").asLong(Long.MAX_VALUE))
                .shutDownWhenFull();
        }
        suppressed.add(text(node, "id"));
        return table.suppress(Suppressed.untilWindowCloses(buffer).withName(text(node, "id")));
    }

    // --- the run ---------------------------------------------------------------------------------------------

    ObjectNode play() throws Exception {
        ObjectNode result = JSON.createObjectNode();
        Topology topology;
        try {
            topology = topology();
        } catch (IllegalArgumentException | org.apache.kafka.streams.errors.TopologyException error) {
            return failed(result, "build", error);
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG, "DEBUG");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("oracle").toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings, Instant.ofEpochMilli(0))) {
            pipe(driver, result);
            result.set("metrics", metrics(driver));
        }
        return result;
    }

    void pipe(TopologyTestDriver driver, ObjectNode result) {
        ArrayNode outputs = result.putArray("outputs"), dropped = result.putArray("dropped");
        for (JsonNode record : scenario.get("records")) {
            long before = (long) metric(driver, "dropped-records-total", "");
            TestInputTopic topic =
                driver.createInputTopic(text(record, "topic"), new StringSerializer(), VARIANT.serializer());
            forwarded.clear();
            Exception error = null;
            try {
                String key = record.get("key").isNull() ? null : text(record, "key");
                topic.pipeInput(key, valueOf(record.get("value")), record.get("ts").asLong());
            } catch (Exception caught) {
                error = caught;
            }
            outputs.addArray().addAll(forwarded);
            if (error != null) {
                failed(result, "record", error).put("failed_at", outputs.size() - 1);
                return;
            }
            dropped.add((long) metric(driver, "dropped-records-total", "") - before);
        }
    }

    static ObjectNode failed(ObjectNode result, String phase, Throwable error) {
        while (error.getCause() != null) error = error.getCause();
        return result.put("phase", phase).put("error", error.getClass().getName()).put("message", error.getMessage());
    }

    ObjectNode row(Record record) {
        ObjectNode row = JSON.createObjectNode().put("key", plain(record.key()));
        row.putNull("window");
        if (record.key() instanceof Windowed) {
            Window window = ((Windowed) record.key()).window();
            row.putArray("window").add(window.start()).add(window.end());
        }
        return row.putPOJO("value", record.value()).put("ts", record.timestamp());
    }

    ObjectNode metrics(TopologyTestDriver driver) {
        ObjectNode metrics = JSON.createObjectNode();
        metrics.put("dropped-records-total", (long) metric(driver, "dropped-records-total", ""));
        double average = metric(driver, "record-lateness-avg", "");
        if (Double.isNaN(average)) {
            metrics.putNull("record-lateness-avg").putNull("record-lateness-max");
        } else {
            metrics.put("record-lateness-avg", average);
            metrics.put("record-lateness-max", (long) metric(driver, "record-lateness-max", ""));
        }
        ObjectNode all = metrics.putObject("suppress");
        for (String node : suppressed) {
            TimeOrderedKeyValueBuffer buffer =
                (TimeOrderedKeyValueBuffer) driver.getAllStateStores().get(node + "-store");
            all.putObject(node)
                .put("suppression-emit-total", (long) metric(driver, "suppression-emit-total", node))
                .put("suppression-buffer-count-current", buffer.numRecords())
                .put("suppression-buffer-count-max", (long) metric(driver, "suppression-buffer-count-max", node))
                .put("suppression-buffer-size-current", buffer.bufferSize())
                .put("suppression-buffer-size-max", (long) metric(driver, "suppression-buffer-size-max", node));
        }
        return metrics;
    }

    /** Of the task, or of a suppress node or its buffer. */
    static double metric(TopologyTestDriver driver, String name, String node) {
        for (Map.Entry<MetricName, ? extends Metric> entry : driver.metrics().entrySet()) {
            Collection<String> tags = entry.getKey().tags().values();
            boolean isOfNode = node.isEmpty() || tags.contains(node) || tags.contains(node + "-store");
            if (entry.getKey().name().equals(name) && isOfNode) {
                return ((Number) entry.getValue().metricValue()).doubleValue();
            }
        }
        throw new IllegalStateException("no metric " + name + " of " + node);
    }
}
