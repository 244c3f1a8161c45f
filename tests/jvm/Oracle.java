import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.internals.TimeOrderedKeyValueBuffer;

/**
 * What real Kafka Streams makes of scenarios: JSON lines in, the same lines with their result out. The language is that of
 * tests/conformance/goldens/README.md; a scenario that is not of it ends the program. The tasks are those of
 * `replay judge`: one of all sub-topologies, as in Kafka's test driver, or with {@code "tasks": "apart"} one of each.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Oracle {
    static final ObjectMapper JSON = new ObjectMapper();

    /** Answers come in the order of the questions, as soon as they are known. */
    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors());
        BlockingQueue<Future<String>> answers = new LinkedBlockingQueue<>();
        Thread printer = new Thread(() -> print(answers));
        printer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode scenario = (ObjectNode) JSON.readTree(line);
            answers.add(threads.submit(() -> answer(scenario)));
        }
        answers.add(threads.submit(() -> ""));
        printer.join();
        System.exit(0);
    }

    static String answer(ObjectNode scenario) throws Exception {
        scenario.set("result", new Oracle(scenario).play());
        return JSON.writeValueAsString(scenario);
    }

    static void print(BlockingQueue<Future<String>> answers) {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try {
            for (String answer = answers.take().get(); !answer.isEmpty(); answer = answers.take().get()) {
                out.println(answer);
                if (answers.isEmpty() || !answers.peek().isDone()) out.flush();
            }
            out.flush();
        } catch (Exception error) {
            out.flush();
            error.printStackTrace();
            System.exit(1);
        }
    }

    final JsonNode scenario;
    final List<ObjectNode> forwarded = new ArrayList<>();
    final Set<String> suppressed = new LinkedHashSet<>();
    final Map<String, List<JsonNode>> recordsOf = new HashMap<>();
    final Map<String, List<Metric>> metrics = new HashMap<>();

    final boolean isOneTask;

    Oracle(JsonNode scenario) {
        this.scenario = scenario;
        isOneTask = !scenario.path("tasks").asText().equals("apart");
    }

    ObjectNode play() throws Exception {
        ObjectNode result = JSON.createObjectNode();
        Properties settings = settings();
        try {
            build(settings);
        } catch (Topologies.SpecException error) {
            throw error;
        } catch (RuntimeException error) {
            return failed(result, "build", error);
        }
        KafkaTasks tasks;
        try {
            tasks = new KafkaTasks(() -> build(settings), settings, null, isOneTask, (topic, partition, record) -> { });
        } catch (RuntimeException error) {
            return failed(result, "init", error);
        }
        try {
            pipe(tasks, result);
            result.set("metrics", metrics(tasks));
        } finally {
            tasks.close();
        }
        return result;
    }

    Topology build(Properties settings) {
        ProcessorSupplier collector = () -> (Processor) record -> forwarded.add(row((Record) record));
        return new Topologies(this, new StreamsConfig(settings)).build(collector);
    }

    /** Nothing is cached, and nothing waits for wall-clock time. */
    Properties settings() throws Exception {
        boolean isRocksDb = scenario.get("topology").path("store").asText().equals("rocksdb");
        Properties settings = new Properties();
        KafkaTasks.still(settings, "oracle", Files.createTempDirectory("oracle"));
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Topologies.STRING.getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Topologies.VALUE.getClass());
        settings.put(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG, "DEBUG");
        settings.put(
            StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
            isRocksDb
                ? BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class
                : BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        if (scenario.get("topology").path("handler").asText().equals("continue")) {
            settings.put(
                StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueProcessingExceptionHandler.class);
        }
        return settings;
    }

    void pipe(KafkaTasks tasks, ObjectNode result) {
        ArrayNode outputs = result.putArray("outputs"), dropped = result.putArray("dropped");
        long wallClock = 0;
        for (JsonNode record : scenario.get("records")) {
            String topic = record.get("topic").asText();
            if (topic.equals("wall_clock")) {
                forwarded.clear();
                tasks.passTime(record.get("ts").asLong() - wallClock);
                wallClock = record.get("ts").asLong();
                outputs.addArray().addAll(forwarded);
                dropped.add(0);
                continue;
            }
            long before = dropped(tasks);
            recordsOf.computeIfAbsent(topic, name -> new ArrayList<>()).add(record);
            forwarded.clear();
            Exception error = null;
            try {
                tasks.take(topic, 0, taken(topic, record));
            } catch (Exception caught) {
                error = caught;
            }
            outputs.addArray().addAll(forwarded);
            if (error != null) {
                failed(result, "record", error).put("failed_at", outputs.size() - 1);
                return;
            }
            dropped.add(dropped(tasks) - before);
        }
    }

    static KafkaTasks.Taken taken(String topic, JsonNode record) {
        byte[] key = record.get("key").isNull() ? null : record.get("key").asText().getBytes(StandardCharsets.UTF_8);
        byte[] value = Functions.toBytes(topic, valueOf(record.get("value")));
        return new KafkaTasks.Taken(-1, record.get("ts").asLong(), key, value, new RecordHeaders());
    }

    static Object valueOf(JsonNode value) {
        return value.isNull() ? null : value.isNumber() ? (Object) value.asLong() : value.asText();
    }

    /**
     * Offset of the record that a processor is told it processes: for a topic of the scenario what the scenario says, or the
     * record's number; below a repartition the internal topic's own. (A buffer gives back each record with its own.)
     */
    Long offsetOf(RecordMetadata metadata) {
        List<JsonNode> records = recordsOf.get(metadata.topic());
        if (records == null) return metadata.offset();
        JsonNode record = records.get((int) metadata.offset());
        if (!record.has("offset")) return metadata.offset();
        return record.get("offset").isNull() ? null : (Long) record.get("offset").asLong();
    }

    static ObjectNode failed(ObjectNode result, String phase, Throwable error) {
        while (error.getCause() != null) error = error.getCause();
        return result.put("phase", phase).put("error", error.getClass().getName()).put("message", error.getMessage());
    }

    ObjectNode row(Record record) {
        ObjectNode row = JSON.createObjectNode().put("key", Functions.plain(record.key()));
        row.putNull("window");
        if (record.key() instanceof Windowed) {
            Window window = ((Windowed) record.key()).window();
            row.putArray("window").add(window.start()).add(window.end());
        }
        return row.putPOJO("value", record.value()).put("ts", record.timestamp());
    }

    // --- metrics ---------------------------------------------------------------------------------------------

    /** Lateness is of one task: of several there is none. */
    ObjectNode metrics(KafkaTasks tasks) {
        ObjectNode metrics = JSON.createObjectNode();
        metrics.put("dropped-records-total", dropped(tasks));
        List<Metric> averages = found(tasks, "record-lateness-avg", "");
        if (averages.size() > 1) {
            metrics.put("record-lateness-avg", "(not known)").put("record-lateness-max", "(not known)");
        } else if (Double.isNaN(number(averages))) {
            metrics.putNull("record-lateness-avg").putNull("record-lateness-max");
        } else {
            metrics.put("record-lateness-avg", number(averages));
            metrics.put("record-lateness-max", (long) metric(tasks, "record-lateness-max", ""));
        }
        ObjectNode all = metrics.putObject("suppress");
        for (String node : suppressed) {
            TimeOrderedKeyValueBuffer buffer = (TimeOrderedKeyValueBuffer) tasks.store(node + "-store");
            all.putObject(node)
                .put("suppression-emit-total", (long) metric(tasks, "suppression-emit-total", node))
                .put("suppression-buffer-count-current", buffer.numRecords())
                .put("suppression-buffer-count-max", (long) metric(tasks, "suppression-buffer-count-max", node))
                .put("suppression-buffer-size-current", buffer.bufferSize())
                .put("suppression-buffer-size-max", (long) metric(tasks, "suppression-buffer-size-max", node));
        }
        return metrics;
    }

    long dropped(KafkaTasks tasks) {
        return (long) metric(tasks, "dropped-records-total", "");
    }

    /** The sum over all tasks (without what keeps global tables), or of a suppress node or its buffer. */
    double metric(KafkaTasks tasks, String name, String node) {
        return number(metrics.computeIfAbsent(name + " " + node, wanted -> found(tasks, name, node)));
    }

    static double number(List<Metric> found) {
        return found.stream().mapToDouble(metric -> ((Number) metric.metricValue()).doubleValue()).sum();
    }

    static List<Metric> found(KafkaTasks tasks, String name, String node) {
        List<Metric> found = new ArrayList<>();
        for (Map.Entry<MetricName, ? extends Metric> entry : tasks.metrics().entrySet()) {
            Collection<String> tags = entry.getKey().tags().values();
            boolean isOfNode = node.isEmpty() || tags.contains(node) || tags.contains(node + "-store");
            if (entry.getKey().name().equals(name) && isOfNode && !tags.contains("-1_-1")) found.add(entry.getValue());
        }
        if (found.isEmpty()) throw new IllegalStateException("no metric " + name + " of " + node);
        return found;
    }
}
