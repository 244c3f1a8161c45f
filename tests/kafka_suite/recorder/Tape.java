import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.ProcessorNode;
import org.apache.kafka.streams.test.TestRecord;

/** What one test driver was given and what it gave, in order. */
public final class Tape {
    private static final Map<Object, Tape> TAPES = new IdentityHashMap<>();
    private static final List<Tape> MADE = new ArrayList<>();
    private static Tape busy;

    private final String application;
    private final Map<String, Object> head = new LinkedHashMap<>();
    private final Map<String, Object> inputs = new TreeMap<>();
    private final Map<String, Object> outputs = new TreeMap<>();
    private final Map<String, Deserializer<?>[]> readers = new HashMap<>();
    private final List<Map<String, Object>> events = new ArrayList<>();
    private final Map<String, Object> end = new LinkedHashMap<>();
    private boolean isClosed;

    private Tape(final InternalTopologyBuilder builder, final Properties config, final long wallClockMs) {
        application = String.valueOf(config.get("application.id"));
        head.put("topology", builder.describe().toString());
        final Map<String, Object> settings = new TreeMap<>();
        for (final Map.Entry<Object, Object> entry : config.entrySet()) {
            final String name = String.valueOf(entry.getKey());
            if (!name.equals("bootstrap.servers") && !name.equals("state.dir") && !name.equals("application.id")) {
                final Object value = entry.getValue();
                settings.put(name, value instanceof Class ? ((Class<?>) value).getName() : String.valueOf(value));
            }
        }
        head.put("config", settings);
        head.put("wall_clock_ms", wallClockMs);
    }

    static synchronized void begin() {
        TAPES.clear();
        MADE.clear();
        busy = null;
    }

    static synchronized List<Tape> made() {
        return new ArrayList<>(MADE);
    }

    public static synchronized void make(final TopologyTestDriver driver, final InternalTopologyBuilder builder,
                                         final Properties config, final long wallClockMs) {
        final Tape tape = new Tape(builder, config, wallClockMs);
        tape.head.put("stores", Stores.kinds(driver));
        TAPES.put(driver, tape);
        MADE.add(tape);
    }

    public static synchronized Tape of(final TopologyTestDriver driver) {
        return TAPES.computeIfAbsent(driver, none -> new Tape(new InternalTopologyBuilder(), new Properties(), 0));
    }

    public void piped(final String topic, final TestRecord<?, ?> record, final Serializer<?> key,
                      final Serializer<?> value, final Instant time) {
        inputs.putIfAbsent(topic, List.of(key.getClass().getSimpleName(), value.getClass().getSimpleName()));
        final Map<String, Object> event = new LinkedHashMap<>();
        event.put("in", topic);
        event.put("key", Json.of(record.key(), key, topic));
        event.put("value", Json.of(record.value(), value, topic));
        event.put("ts", time != null ? (Long) time.toEpochMilli() : record.timestamp());
        Json.addHeaders(event, record.headers());
        events.add(event);
        busy = this;
    }

    public void advanced(final Duration by) {
        events.add(new LinkedHashMap<>(Map.of("advance_wall_clock_ms", by.toMillis())));
        busy = this;
    }

    public void ended(final Throwable thrown) {
        busy = null;
        if (thrown != null) {
            Throwable cause = thrown;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            final Map<String, Object> event = new LinkedHashMap<>();
            event.put("throws", thrown.getClass().getName());
            event.put("cause", cause.getClass().getName());
            event.put("message", String.valueOf(cause.getMessage()).split("\n")[0]);
            events.add(event);
        }
    }

    public void sent(final List<ProducerRecord<byte[], byte[]>> records) {
        for (final ProducerRecord<byte[], byte[]> record : records) {
            final String topic = record.topic();
            final boolean isOfApplication =
                topic.startsWith(application + "-") || topic.startsWith("dummy-topology-test-driver-app-id-");
            if (isOfApplication && topic.matches(".*-(changelog|repartition|topic)")) {
                continue;
            }
            final Map<String, Object> event = new LinkedHashMap<>();
            event.put("out", topic);
            event.put("key", record.key());
            event.put("value", record.value());
            event.put("ts", record.timestamp());
            Json.addHeaders(event, record.headers());
            events.add(event);
        }
    }

    public static synchronized void received(final ProcessorNode<?, ?, ?, ?> node, final Record<?, ?> record) {
        if (busy == null || !node.children().isEmpty()) {
            return;
        }
        final Map<String, Object> event = new LinkedHashMap<>();
        event.put("at", node.name());
        event.put("key", Json.of(record.key()));
        event.put("value", Json.of(record.value()));
        event.put("ts", record.timestamp());
        Json.addHeaders(event, record.headers());
        busy.events.add(event);
    }

    public void reads(final String topic, final Deserializer<?> key, final Deserializer<?> value) {
        readers.putIfAbsent(topic, new Deserializer<?>[] {key, value});
        outputs.putIfAbsent(topic, List.of(key.getClass().getSimpleName(), value.getClass().getSimpleName()));
    }

    public void close(final TopologyTestDriver driver) {
        if (isClosed) {
            return;
        }
        isClosed = true;
        double dropped = 0;
        for (final Map.Entry<org.apache.kafka.common.MetricName, ? extends org.apache.kafka.common.Metric> metric
            : driver.metrics().entrySet()) {
            if (metric.getKey().name().equals("dropped-records-total")) {
                dropped += ((Number) metric.getValue().metricValue()).doubleValue();
            }
        }
        end.put("dropped", (long) dropped);
        final Map<String, Object> contents = new TreeMap<>();
        try {
            for (final Map.Entry<String, StateStore> store : driver.getAllStateStores().entrySet()) {
                contents.put(store.getKey(), Stores.rows(store.getValue()));
            }
        } catch (final RuntimeException e) {
            contents.put("unreadable", e.getClass().getName());
        }
        end.put("at_end", contents);
    }

    /** Output bytes are decoded as the test does it; bytes that it does not read stay bytes. */
    Map<String, Object> content() {
        final List<Map<String, Object>> told = new ArrayList<>();
        for (final Map<String, Object> event : events) {
            final Map<String, Object> one = new LinkedHashMap<>(event);
            if (one.containsKey("out")) {
                final String topic = (String) one.get("out");
                final Deserializer<?>[] reader = readers.get(topic);
                for (int i = 0; i < 2; i++) {
                    final String name = i == 0 ? "key" : "value";
                    final byte[] bytes = (byte[]) one.get(name);
                    one.put(name, reader == null || bytes == null ? Json.of(bytes) : decoded(reader[i], topic, bytes));
                }
            }
            told.add(one);
        }
        final Map<String, Object> content = new LinkedHashMap<>(head);
        content.put("inputs", inputs);
        content.put("outputs", outputs);
        content.put("events", told);
        content.putAll(end);
        return content;
    }

    private static Object decoded(final Deserializer<?> reader, final String topic, final byte[] bytes) {
        try {
            final Object value = Json.of(reader.deserialize(topic, bytes));
            return Json.isOfUnknownClass(value) ? Json.of(bytes) : value;
        } catch (final RuntimeException e) {
            return Json.of(bytes);
        }
    }
}
