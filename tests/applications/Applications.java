import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.test.TestRecord;

/**
 * The applications of this folder that have loops, or processors that write stores of aggregates, on Kafka Streams itself. The first
 * argument is the application. A line in: a JSON object of topic, key, value and time, or of a tick, to which the
 * wall clock goes. A line out: topic, key, value and time of what was written, topic by topic.
 */
public class Applications {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    static final Serde<JsonNode> NODE = Serdes.serdeFrom(
            (topic, node) -> node == null || node.isNull() ? null : bytes(node),
            (topic, data) -> data == null ? null : parsed(data));
    static final Consumed<JsonNode, JsonNode> CONSUMED = Consumed.with(NODE, NODE);
    static final Produced<JsonNode, JsonNode> PRODUCED = Produced.with(NODE, NODE);
    static final Grouped<JsonNode, JsonNode> GROUPED = Grouped.with(NODE, NODE);

    public static void main(String[] arguments) throws Exception {
        Topology topology = switch (arguments[0]) {
            case "orders" -> orders();
            case "ttl" -> timeToLive();
            case "workflows" -> workflows();
            case "sales" -> sales();
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "applications");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Nodes.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Nodes.class);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings, Instant.ofEpochMilli(0))) {
            long now = 0;
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                JsonNode piped = MAPPER.readTree(line);
                if (piped.has("tick")) {
                    driver.advanceWallClockTime(Duration.ofMillis(piped.get("tick").asLong() - now));
                    now = piped.get("tick").asLong();
                    continue;
                }
                TestInputTopic<JsonNode, JsonNode> topic = driver.createInputTopic(
                        piped.get("topic").asText(), NODE.serializer(), NODE.serializer());
                topic.pipeInput(piped.get("key"), piped.get("value"), piped.get("time").asLong());
            }
            for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                if (topic.startsWith("applications-")) {
                    continue;
                }
                var output = driver.createOutputTopic(topic, NODE.deserializer(), NODE.deserializer());
                for (TestRecord<JsonNode, JsonNode> record : output.readRecordsToList()) {
                    ObjectNode written = JSON.objectNode().put("topic", topic).put("time", record.timestamp());
                    written.set("key", record.key());
                    written.set("value", record.value());
                    System.out.println("written " + written);
                }
            }
        }
    }

    public static class Nodes implements Serde<JsonNode> {
        @Override
        public org.apache.kafka.common.serialization.Serializer<JsonNode> serializer() {
            return NODE.serializer();
        }

        @Override
        public org.apache.kafka.common.serialization.Deserializer<JsonNode> deserializer() {
            return NODE.deserializer();
        }
    }

    static byte[] bytes(JsonNode node) {
        try {
            return MAPPER.writeValueAsBytes(node);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static JsonNode parsed(byte[] data) {
        try {
            return MAPPER.readTree(data);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static ObjectNode with(JsonNode node, String field, JsonNode value) {
        ObjectNode copy = node.deepCopy();
        copy.set(field, value);
        return copy;
    }

    // --- orders ------------------------------------------------------------------------------------------------

    static ObjectNode verdict(JsonNode order, String check, boolean passes) {
        return JSON.objectNode().put("order_id", order.get("id").asText()).put("check", check)
                .put("result", passes ? "PASS" : "FAIL");
    }

    static boolean isCreated(JsonNode key, JsonNode order) {
        return order.get("state").asText().equals("CREATED");
    }

    static Topology orders() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<JsonNode, JsonNode> orders = builder.stream("orders", CONSUMED);
        details(orders);
        fraud(orders);
        inventory(builder, orders);
        aggregator(builder, orders);
        email(builder, orders);
        return builder.build();
    }

    static void details(KStream<JsonNode, JsonNode> orders) {
        orders.filter(Applications::isCreated).mapValues(order -> (JsonNode) verdict(order, "ORDER_DETAILS_CHECK",
                order.get("quantity").asInt() >= 0 && order.get("price").asDouble() >= 0
                        && !order.get("product").isNull())).to("order-validations", PRODUCED);
    }

    static void fraud(KStream<JsonNode, JsonNode> orders) {
        KTable<org.apache.kafka.streams.kstream.Windowed<JsonNode>, JsonNode> totals = orders
                .filter(Applications::isCreated)
                .groupBy((key, order) -> order.get("customer_id"), GROUPED)
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofHours(1)))
                .aggregate(() -> JSON.objectNode().put("total", 0.0), (customer, order, total) -> {
                    double sum = total.get("total").asDouble()
                            + order.get("quantity").asInt() * order.get("price").asDouble();
                    return with(JSON.objectNode().put("total", sum), "order", order);
                }, (customer, one, other) -> {
                    double sum = one.get("total").asDouble() + other.get("total").asDouble();
                    return with(JSON.objectNode().put("total", sum), "order", other.get("order"));
                }, Materialized.with(NODE, NODE));
        KStream<JsonNode, JsonNode> byOrder = totals.toStream((window, total) -> window.key())
                .filter((key, total) -> total != null)
                .selectKey((key, total) -> total.get("order").get("id"));
        byOrder.filter((key, total) -> total.get("total").asDouble() >= 2000)
                .mapValues(total -> (JsonNode) verdict(total.get("order"), "FRAUD_CHECK", false))
                .to("order-validations", PRODUCED);
        byOrder.filter((key, total) -> total.get("total").asDouble() < 2000)
                .mapValues(total -> (JsonNode) verdict(total.get("order"), "FRAUD_CHECK", true))
                .to("order-validations", PRODUCED);
    }

    static void inventory(StreamsBuilder builder, KStream<JsonNode, JsonNode> orders) {
        KTable<JsonNode, JsonNode> stock = builder.table("warehouse-inventory", CONSUMED);
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("store-of-reserved-stock"), NODE, Serdes.Long()));
        orders.selectKey((key, order) -> order.get("product")).filter(Applications::isCreated)
                .join(stock, (order, found) -> (JsonNode) with(with(JSON.objectNode(), "order", order), "stock", found),
                        Joined.with(NODE, NODE, NODE))
                .process(Inventory::new, "store-of-reserved-stock").to("order-validations", PRODUCED);
    }

    static class Inventory extends ContextualProcessor<JsonNode, JsonNode, JsonNode, JsonNode> {
        @Override
        public void process(Record<JsonNode, JsonNode> record) {
            KeyValueStore<JsonNode, Long> store = context().getStateStore("store-of-reserved-stock");
            JsonNode order = record.value().get("order");
            Long known = store.get(order.get("product"));
            long reserved = (known == null ? 0 : known) + order.get("quantity").asLong();
            boolean passes = record.value().get("stock").asLong() >= reserved;
            if (passes) {
                store.put(order.get("product"), reserved);
            }
            context().forward(record.withKey(order.get("id")).withValue(verdict(order, "INVENTORY_CHECK", passes)));
        }
    }

    static void aggregator(StreamsBuilder builder, KStream<JsonNode, JsonNode> orders) {
        KStream<JsonNode, JsonNode> validations = builder.stream("order-validations", CONSUMED);
        KStream<JsonNode, JsonNode> created = orders.filter(Applications::isCreated);
        JoinWindows fiveMinutes = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(5));
        validations.groupByKey(GROUPED)
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(5)))
                .aggregate(() -> (JsonNode) LongNode.valueOf(0), (key, found, total) ->
                        found.get("result").asText().equals("PASS") ? LongNode.valueOf(total.asLong() + 1) : total,
                        (key, one, other) -> other == null ? one : other, Materialized.with(NODE, NODE))
                .toStream((window, total) -> window.key())
                .filter((key, total) -> total != null).filter((key, total) -> total.asLong() >= 3)
                .join(created, (total, order) -> (JsonNode) with(order, "state", TextNode.valueOf("VALIDATED")),
                        fiveMinutes, StreamJoined.with(NODE, NODE, NODE)).to("orders", PRODUCED);
        validations.filter((key, found) -> found.get("result").asText().equals("FAIL"))
                .join(created, (found, order) -> (JsonNode) with(order, "state", TextNode.valueOf("FAILED")),
                        fiveMinutes, StreamJoined.with(NODE, NODE, NODE))
                .groupByKey(GROUPED).reduce((order, again) -> order).toStream().to("orders", PRODUCED);
    }

    static void email(StreamsBuilder builder, KStream<JsonNode, JsonNode> orders) {
        KStream<JsonNode, JsonNode> payments = builder.stream("payments", CONSUMED)
                .selectKey((key, payment) -> payment.get("order_id"));
        GlobalKTable<JsonNode, JsonNode> customers = builder.globalTable("customers", CONSUMED);
        orders.join(payments, (order, payment) ->
                        (JsonNode) with(with(JSON.objectNode(), "order", order), "payment", payment),
                        JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1)),
                        StreamJoined.with(NODE, NODE, NODE))
                .join(customers, (key, paid) -> paid.get("order").get("customer_id"),
                        (paid, customer) -> (JsonNode) with(paid, "customer", customer)).to("emails", PRODUCED);
        orders.join(customers, (key, order) -> order.get("customer_id"), (order, customer) -> (JsonNode) JSON
                        .objectNode().put("id", order.get("id").asText()).put("level", customer.get("level").asText()))
                .to((key, order, context) -> order.get("level").asText(), PRODUCED);
    }

    // --- a table with a time to live -----------------------------------------------------------------------------

    static Topology timeToLive() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<JsonNode, JsonNode> stream = builder.stream("input-topic-for-stream", CONSUMED);
        KTable<JsonNode, JsonNode> table = builder.table("input-topic-for-table", CONSUMED);
        stream.leftJoin(table, (left, right) -> right == null ? left
                : (JsonNode) TextNode.valueOf(left.asText() + " " + right.asText())).to("output-topic", PRODUCED);
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("purge"), NODE, Serdes.Long()));
        table.toStream().process(Tombstones::new, "purge").to("input-topic-for-table", PRODUCED);
        return builder.build();
    }

    static class Tombstones extends ContextualProcessor<JsonNode, JsonNode, JsonNode, JsonNode> {
        KeyValueStore<JsonNode, Long> updated;

        @Override
        public void init(ProcessorContext<JsonNode, JsonNode> context) {
            super.init(context);
            updated = context.getStateStore("purge");
            context.schedule(Duration.ofSeconds(5), PunctuationType.STREAM_TIME, now -> {
                try (KeyValueIterator<JsonNode, Long> all = updated.all()) {
                    while (all.hasNext()) {
                        KeyValue<JsonNode, Long> entry = all.next();
                        if (entry.value < now - 10_000) {
                            context.forward(new Record<>(entry.key, null, 0));
                        }
                    }
                }
            });
        }

        @Override
        public void process(Record<JsonNode, JsonNode> record) {
            if (record.value() == null) {
                updated.delete(record.key());
            } else {
                updated.put(record.key(), context().currentStreamTimeMs());
            }
        }
    }

    // --- workflows -----------------------------------------------------------------------------------------------

    static Topology workflows() {
        Topology topology = new Topology();
        topology.addGlobalStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("specs"), NODE, NODE)
                        .withLoggingDisabled(), "metadata-source", NODE.deserializer(), NODE.deserializer(), "metadata",
                "metadata-processor", () -> new ContextualProcessor<JsonNode, JsonNode, Void, Void>() {
                    @Override
                    public void process(Record<JsonNode, JsonNode> record) {
                        KeyValueStore<JsonNode, JsonNode> specs = context().getStateStore("specs");
                        specs.put(record.key(), record.value());
                    }
                });
        topology.addSource("core-source", NODE.deserializer(), NODE.deserializer(), "core-cmd");
        topology.addProcessor("core-processor", Commands::new, "core-source");
        topology.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("core-store"), NODE, NODE),
                "core-processor");
        topology.addSink("core-sink", (key, output, context) -> ((JsonNode) output).get("topic").asText(),
                NODE.serializer(), (topic, output) -> bytes(((JsonNode) output).get("payload")), "core-processor");
        topology.addSource("timer-source", NODE.deserializer(), NODE.deserializer(), "timers");
        topology.addProcessor("timer-processor", Timers::new, "timer-source");
        topology.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("timer-store"),
                Serdes.String(), NODE), "timer-processor");
        topology.addSink("matured-timer-sink", "core-cmd", NODE.serializer(), NODE.serializer(), "timer-processor");
        return topology;
    }

    static class Commands extends ContextualProcessor<JsonNode, JsonNode, JsonNode, JsonNode> {
        KeyValueStore<JsonNode, JsonNode> runs;

        @Override
        public void process(Record<JsonNode, JsonNode> record) {
            runs = context().getStateStore("core-store");
            JsonNode command = record.value();
            String kind = command.get("kind").asText();
            if (kind.equals("run")) {
                enter(record, command.get("spec").asText(), 0, 0);
                return;
            }
            JsonNode run = runs.get(record.key());
            if (run == null || !run.get("status").asText().equals("RUNNING")
                    || run.get("node").asInt() != command.get("node").asInt()
                    || run.get("attempt").asInt() != command.get("attempt").asInt()) {
                return;
            }
            String spec = run.get("spec").asText();
            int node = run.get("node").asInt(), attempt = run.get("attempt").asInt();
            if (kind.endsWith("done")) {
                enter(record, spec, node + 1, 0);
            } else if (attempt < nodes(spec).get(node).get("retries").asInt()) {
                enter(record, spec, node, attempt + 1);
            } else {
                save(record, spec, node, attempt, "ERROR");
            }
        }

        JsonNode nodes(String spec) {
            KeyValueStore<JsonNode, JsonNode> store = context().getStateStore("specs");
            JsonNode found = store.get(TextNode.valueOf(spec));
            return found == null ? JSON.arrayNode() : found;
        }

        void enter(Record<JsonNode, JsonNode> record, String spec, int node, int attempt) {
            if (node == nodes(spec).size()) {
                save(record, spec, node, attempt, "COMPLETED");
                return;
            }
            save(record, spec, node, attempt, "RUNNING");
            JsonNode entered = nodes(spec).get(node);
            boolean isTask = entered.get("kind").asText().equals("task");
            if (isTask) {
                ObjectNode task = JSON.objectNode().put("run", record.key().asText());
                send(record, "tasks-" + entered.get("task").asText(), task.put("node", node).put("attempt", attempt));
            }
            ObjectNode command = JSON.objectNode().put("kind", isTask ? "task-timed-out" : "sleep-done")
                    .put("spec", spec).put("node", node).put("attempt", attempt);
            ObjectNode timer = JSON.objectNode()
                    .put("matures_ms", record.timestamp() + 1000L * entered.get("seconds").asInt())
                    .put("run", record.key().asText());
            send(record, "timers", with(timer, "command", command));
        }

        void save(Record<JsonNode, JsonNode> record, String spec, int node, int attempt, String status) {
            ObjectNode run = JSON.objectNode().put("spec", spec).put("node", node).put("attempt", attempt)
                    .put("status", status);
            runs.put(record.key(), run);
            send(record, "runs", run);
        }

        void send(Record<JsonNode, JsonNode> record, String topic, JsonNode payload) {
            context().forward(record.withValue(with(JSON.objectNode().put("topic", topic), "payload", payload)));
        }
    }

    static class Timers extends ContextualProcessor<JsonNode, JsonNode, JsonNode, JsonNode> {
        KeyValueStore<String, JsonNode> timers;

        @Override
        public void init(ProcessorContext<JsonNode, JsonNode> context) {
            super.init(context);
            timers = context.getStateStore("timer-store");
            context.schedule(Duration.ofSeconds(1), PunctuationType.WALL_CLOCK_TIME, now -> {
                try (KeyValueIterator<String, JsonNode> due = timers.range("", String.format("%020d/~", now))) {
                    while (due.hasNext()) {
                        KeyValue<String, JsonNode> entry = due.next();
                        send(entry.value);
                        timers.delete(entry.key);
                    }
                }
            });
        }

        @Override
        public void process(Record<JsonNode, JsonNode> record) {
            JsonNode timer = record.value();
            long matures = timer.get("matures_ms").asLong();
            if (matures <= context().currentSystemTimeMs()) {
                send(timer);
            } else {
                timers.put(String.format("%020d/%s", matures, timer.get("run").asText()), timer);
            }
        }

        void send(JsonNode timer) {
            context().forward(new Record<>(timer.get("run"), timer.get("command"), timer.get("matures_ms").asLong()));
        }
    }

    // --- sales that are forgotten --------------------------------------------------------------------------------

    static Topology sales() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("line-items", CONSUMED).groupByKey(GROUPED)
                .aggregate(() -> (JsonNode) with(JSON.objectNode().put("quantity", 0L), "order_ids", JSON.arrayNode()),
                        (sku, order, sales) -> {
                            long sold = 0;
                            for (JsonNode item : order.get("items")) {
                                if (item.get("sku").equals(sku)) {
                                    sold = item.get("quantity").asLong();
                                    break;
                                }
                            }
                            ArrayNode ids = sales.get("order_ids").deepCopy();
                            ids.add(order.get("order_id"));
                            ObjectNode next = JSON.objectNode().put("quantity", sales.get("quantity").asLong() + sold);
                            return with(with(next, "order_ids", ids), "timestamp", order.get("timestamp"));
                        }, Materialized.<JsonNode, JsonNode, KeyValueStore<Bytes, byte[]>>as("sales")
                                .withKeySerde(NODE).withValueSerde(NODE))
                .toStream().process(ForgetOld::new, "sales").to("analytics-NONE", PRODUCED);
        return builder.build();
    }

    static class ForgetOld extends ContextualProcessor<JsonNode, JsonNode, JsonNode, JsonNode> {
        @Override
        public void init(ProcessorContext<JsonNode, JsonNode> context) {
            super.init(context);
            context.schedule(Duration.ofSeconds(5), PunctuationType.WALL_CLOCK_TIME, now -> {
                TimestampedKeyValueStore<JsonNode, JsonNode> sales = context.getStateStore("sales");
                try (KeyValueIterator<JsonNode, ValueAndTimestamp<JsonNode>> all = sales.all()) {
                    while (all.hasNext()) {
                        KeyValue<JsonNode, ValueAndTimestamp<JsonNode>> entry = all.next();
                        if (entry.value.timestamp() < now - 10_000) {
                            sales.delete(entry.key);
                            context.forward(new Record<>(entry.key, entry.value.value(), entry.value.timestamp()));
                        }
                    }
                }
            });
        }

        @Override
        public void process(Record<JsonNode, JsonNode> record) {
            context().forward(record);
        }
    }
}
