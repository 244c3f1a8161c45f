package org.apache.kafka.streams;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.internals.AutoOffsetResetStrategy;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.internals.StreamsConfigUtils;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder.TopicsInfo;
import org.apache.kafka.streams.processor.internals.ProcessorContextImpl;
import org.apache.kafka.streams.processor.internals.ProcessorStateManager;
import org.apache.kafka.streams.processor.internals.ProcessorTopology;
import org.apache.kafka.streams.processor.internals.RecordCollectorImpl;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.processor.internals.StreamTask;
import org.apache.kafka.streams.processor.internals.StreamsProducer;
import org.apache.kafka.streams.processor.internals.Task;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.state.internals.ThreadCache;

/**
 * Kafka Streams' own tasks over recorded topics, without a broker and without threads.
 *
 * <p>Arguments: a folder, the class and method that give the topology ({@code com.acme.Orders#topology}), a file of
 * settings. The folder has {@code topics.tsv}, a line a topic (name, partitions), and a file
 * {@code in/<line>-<partition>} of records for each partition. Answers: {@code topology.txt}, what describe() says;
 * {@code out/<number>}, what was written to the topic that {@code out/<number>.name} names, changelogs too;
 * {@code done.tsv}, how many records tasks took and in how many seconds. It is in Kafka's package, since the topology's
 * builder is not public.
 *
 * <p>The order: a landed record with all that it causes, through all tasks, before the next one. Within a task, records
 * of several topics come as from full queues in PartitionGroup: the earliest head first. Between tasks the one whose
 * record has the smallest (largest record time of the task up to it, sub-topology, partition) comes first. So does the
 * replay that is judged, and so every run has one result.
 */
public final class Judge {
    /** A record on disk: offset, time, key, value, headers; of an output the partition instead of the offset. */
    record Taken(long offset, long timeMs, byte[] key, byte[] value, Headers headers) {}

    /** A record that a task has sent to a topic that some task reads. */
    record Sent(TopicPartition to, Taken record) {}

    /** A landed partition: its records in order, the head of which is known. */
    static final class Queue {
        final TopicPartition partition;
        final int number;
        final DataInputStream in;
        Taken head;

        Queue(TopicPartition partition, int number, Path file) throws IOException {
            this.partition = partition;
            this.number = number;
            in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 16));
            head = read(in);
        }

        long headTimeMs() {
            return head.timeMs();
        }

        Taken take() throws IOException {
            Taken taken = head;
            head = read(in);
            if (head == null) in.close();
            return taken;
        }
    }

    /** One task of Kafka Streams, and its landed queues. */
    final class Running {
        final int subTopology, partition;
        final StreamTask task;
        final PriorityQueue<Queue> landed;
        final Map<TopicPartition, Long> nextOffsets = new HashMap<>();
        long tapeTimeMs = -1;

        /** Where internal topics are read, too, equal times are in the order of the topics; else as Java's heap has them. */
        Running(int subTopology, int partition, StreamTask task) {
            this.subTopology = subTopology;
            this.partition = partition;
            this.task = task;
            Comparator<Queue> order = Comparator.comparingLong(Queue::headTimeMs);
            boolean isMixed = task.inputPartitions().stream().anyMatch(input -> !lines.containsKey(input.topic()));
            landed = new PriorityQueue<>(isMixed ? order.thenComparingInt(queue -> queue.number) : order);
        }

        /** Largest record time up to the next landed record, which orders it among those of all tasks. */
        long placeMs() {
            return Math.max(tapeTimeMs, landed.peek().headTimeMs());
        }

        void takeLanded() throws IOException {
            Queue queue = landed.poll();
            tapeTimeMs = Math.max(tapeTimeMs, queue.headTimeMs());
            Taken record = queue.take();
            if (queue.head != null) landed.add(queue);
            process(queue.partition, record.offset(), record);
        }

        void takeSent(Sent sent) {
            long offset = nextOffsets.merge(sent.to(), 1L, Long::sum) - 1;
            process(sent.to(), offset, sent.record());
        }

        private void process(TopicPartition from, long offset, Taken record) {
            running = this;
            byte[] key = record.key(), value = record.value();
            task.addRecords(from, List.of(new ConsumerRecord<>(
                from.topic(), from.partition(), offset, record.timeMs(), TimestampType.CREATE_TIME,
                key == null ? ConsumerRecord.NULL_SIZE : key.length,
                value == null ? ConsumerRecord.NULL_SIZE : value.length,
                key, value, record.headers(), Optional.empty())));
            while (task.hasRecordsQueued() && task.isProcessable(clock.milliseconds())) {
                task.process(clock.milliseconds());
                task.maybePunctuateStreamTime();
            }
            processed++;
        }
    }

    final Path folder;
    final StreamsConfig config;
    final InternalTopologyBuilder builder;
    final Map<String, Integer> partitions = new TreeMap<>();
    final Map<String, Integer> lines = new HashMap<>();
    final Map<TopicPartition, Running> readers = new HashMap<>();
    final Deque<Sent> pending = new ArrayDeque<>();
    final Map<String, DataOutputStream> written = new TreeMap<>();
    final Set<String> changelogs = new HashSet<>();
    final StillTime clock = new StillTime();
    final List<Running> tasks = new ArrayList<>();
    Running running;
    long processed;

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Properties settings = new Properties();
        if (arguments.length > 2) {
            try (var reader = Files.newBufferedReader(Path.of(arguments[2]))) {
                settings.load(reader);
            }
        }
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "kstreams-replay-judge");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:0");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder.resolve("state").toString());
        settings.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, StreamsConfig.MAX_TASK_IDLE_MS_DISABLED);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        try {
            Topology topology = topologyOf(arguments[1], settings);
            Files.writeString(folder.resolve("topology.txt"), topology.describe().toString());
            new Judge(folder, settings, topology).run();
        } catch (Refused refused) {
            Files.writeString(folder.resolve("refused.txt"), refused.getMessage());
            System.exit(3);
        }
    }

    /** What a static method gives: without arguments, of the settings, or by a StreamsBuilder that it fills. */
    static Topology topologyOf(String name, Properties settings) throws Exception {
        String[] parts = name.split("#", 2);
        String wanted = parts.length == 2 ? parts[1] : "topology";
        for (Method method : Class.forName(parts[0]).getDeclaredMethods()) {
            if (!method.getName().equals(wanted) || !java.lang.reflect.Modifier.isStatic(method.getModifiers())) continue;
            method.setAccessible(true);
            Class<?>[] types = method.getParameterTypes();
            if (types.length == 0 || (types.length == 1 && types[0].isAssignableFrom(Properties.class))) {
                Object given = types.length == 0 ? method.invoke(null) : method.invoke(null, settings);
                if (given instanceof Topology topology) return topology;
                if (given instanceof StreamsBuilder streams) return streams.build(settings);
            }
            if (types.length == 1 && types[0] == StreamsBuilder.class) {
                StreamsBuilder streams = new StreamsBuilder(new TopologyConfig(new StreamsConfig(settings)));
                method.invoke(null, streams);
                return streams.build(settings);
            }
        }
        throw new Refused(
            "a static method " + wanted + "() of " + parts[0] + " that returns a Topology or a StreamsBuilder, perhaps of"
                + " Properties, or that takes a StreamsBuilder");
    }

    /** Ends the program with one line that says what was expected. */
    @SuppressWarnings("serial")
    static final class Refused extends RuntimeException {
        Refused(String expected) {
            super(expected);
        }
    }

    Judge(Path folder, Properties settings, Topology topology) throws IOException {
        this.folder = folder;
        config = new StreamsConfig(settings);
        builder = topology.internalTopologyBuilder;
        builder.rewriteTopology(config);
        if (builder.buildGlobalStateTopology() != null) {
            throw new Refused("no global table: Kafka gives its updates no place among the records of other topics");
        }
        for (String line : Files.readAllLines(folder.resolve("topics.tsv"))) {
            String[] cells = line.split("\t");
            lines.put(cells[0], lines.size());
            partitions.put(cells[0], Integer.parseInt(cells[1]));
        }
    }

    void run() throws IOException {
        Files.createDirectories(folder.resolve("out"));
        Map<Integer, TopicsInfo> parts = new TreeMap<>();
        for (TopicsInfo topics : new TreeMap<>(builder.subtopologyToTopicsInfo()).values()) parts.put(parts.size(), topics);
        for (TopicsInfo topics : parts.values()) {
            for (String topic : topics.sourceTopics) {
                if (!partitions.containsKey(topic) && !topics.repartitionSourceTopics.containsKey(topic)) {
                    throw new Refused("a landed topic " + topic + ", which the class reads");
                }
            }
        }
        countPartitions(parts);
        long started = System.nanoTime();
        for (Map.Entry<Integer, TopicsInfo> part : parts.entrySet()) start(part.getKey(), part.getValue());
        for (Running each : tasks) openQueues(each);
        PriorityQueue<Running> next = new PriorityQueue<>(
            Comparator.comparingLong(Running::placeMs).thenComparingInt(each -> each.subTopology)
                .thenComparingInt(each -> each.partition));
        for (Running each : tasks) if (!each.landed.isEmpty()) next.add(each);
        while (!next.isEmpty()) {
            Running task = next.poll();
            task.takeLanded();
            for (Sent sent = pending.poll(); sent != null; sent = pending.poll()) readers.get(sent.to()).takeSent(sent);
            if (!task.landed.isEmpty()) next.add(task);
        }
        for (Running each : tasks) {
            running = each;
            each.task.prepareCommit(true);
            each.task.postCommit(true);
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        finish(seconds);
    }

    /**
     * Of internal topics: as many as the topology says, else as many as the largest topic that a writer reads, and not
     * fewer than what is read beside it (Kafka's RepartitionTopics and CopartitionedTopicsEnforcer).
     */
    void countPartitions(Map<Integer, TopicsInfo> parts) {
        Set<String> fixed = new HashSet<>(partitions.keySet());
        for (TopicsInfo topics : parts.values()) {
            topics.repartitionSourceTopics.forEach((topic, settings) -> settings.numberOfPartitions().ifPresent(count -> {
                partitions.put(topic, count);
                fixed.add(topic);
            }));
        }
        for (boolean changes = true; changes;) {
            changes = false;
            for (TopicsInfo topics : parts.values()) {
                int largest = largest(topics.sourceTopics);
                if (largest == 0) continue;
                Set<String> reached = new HashSet<>(topics.sinkTopics);
                reached.addAll(topics.sourceTopics);
                reached.removeAll(fixed);
                for (String topic : reached) {
                    if (!isInternal(topic, parts) || partitions.getOrDefault(topic, 0) >= largest) continue;
                    partitions.put(topic, largest);
                    changes = true;
                }
            }
        }
    }

    static boolean isInternal(String topic, Map<Integer, TopicsInfo> parts) {
        return parts.values().stream().anyMatch(topics -> topics.repartitionSourceTopics.containsKey(topic));
    }

    int largest(Set<String> topics) {
        return topics.stream().mapToInt(topic -> partitions.getOrDefault(topic, 0)).max().orElse(0);
    }

    void start(int subTopology, TopicsInfo topics) {
        topics.stateChangelogTopics.keySet().forEach(changelogs::add);
        for (int partition = 0; partition < largest(topics.sourceTopics); partition++) {
            Set<TopicPartition> inputs = new LinkedHashSet<>();
            for (String topic : new TreeSet<>(topics.sourceTopics)) {
                if (partition < partitions.get(topic)) inputs.add(new TopicPartition(topic, partition));
            }
            Running each = new Running(subTopology, partition, task(new TaskId(subTopology, partition), inputs));
            tasks.add(each);
            inputs.forEach(input -> readers.put(input, each));
        }
    }

    StreamTask task(TaskId id, Set<TopicPartition> inputs) {
        ProcessorTopology topology = builder.buildSubtopology(id.subtopology());
        LogContext log = new LogContext("judge " + id + " ");
        StreamsMetricsImpl metrics = new StreamsMetricsImpl(new Metrics(), "judge", clock);
        TaskMetrics.droppedRecordsSensor(Thread.currentThread().getName(), id.toString(), metrics);
        ThreadCache cache = new ThreadCache(log, 0, metrics);
        StateDirectory directory = new StateDirectory(config, clock, builder.hasPersistentStores(), false);
        MockConsumer<byte[], byte[]> consumer = new MockConsumer<>(AutoOffsetResetStrategy.EARLIEST.name());
        consumer.assign(inputs);
        Map<TopicPartition, Long> beginnings = new HashMap<>();
        inputs.forEach(input -> beginnings.put(input, 0L));
        consumer.updateBeginningOffsets(beginnings);
        ProcessorStateManager state = new ProcessorStateManager(
            id, Task.TaskType.ACTIVE, false, log, directory, topology.storeToChangelogTopic(), inputs);
        StreamsProducer producer = new StreamsProducer(
            new Producing(), StreamsConfigUtils.processingMode(config), clock, log);
        RecordCollectorImpl collector = new RecordCollectorImpl(
            log, id, producer, config.productionExceptionHandler(), metrics, topology);
        StreamTask task = new StreamTask(
            id, inputs, topology, consumer, builder.topologyConfigs().getTaskConfig(), metrics, directory, cache, clock,
            state, collector, new ProcessorContextImpl(id, config, state, metrics, cache), log, false);
        task.initializeIfNeeded();
        task.completeRestoration(ignored -> { });
        inputs.forEach(input -> task.updateNextOffsets(input, new OffsetAndMetadata(0, Optional.empty(), "")));
        return task;
    }

    void openQueues(Running task) throws IOException {
        Map<Integer, TopicPartition> inputs = new TreeMap<>();
        for (TopicPartition input : task.task.inputPartitions()) {
            if (lines.containsKey(input.topic())) inputs.put(lines.get(input.topic()), input);
        }
        for (Map.Entry<Integer, TopicPartition> input : inputs.entrySet()) {
            String name = input.getKey() + "-" + input.getValue().partition();
            Queue queue = new Queue(input.getValue(), input.getKey(), folder.resolve("in").resolve(name));
            if (queue.head != null) task.landed.add(queue);
        }
    }

    /** Hands on what tasks send: to the task that reads it, and to the file of its topic. */
    final class Producing extends MockProducer<byte[], byte[]> {
        Producing() {
            super(Cluster.empty(), true, null, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public List<PartitionInfo> partitionsFor(String topic) {
            List<PartitionInfo> found = new ArrayList<>();
            for (int n = 0; n < countOf(topic); n++) found.add(new PartitionInfo(topic, n, null, null, null));
            return found;
        }

        @Override
        public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
            Judge.this.sent(record);
            int partition = record.partition() == null ? 0 : record.partition();
            RecordMetadata where = new RecordMetadata(new TopicPartition(record.topic(), partition), 0, 0, 0, 0, 0);
            callback.onCompletion(where, null);
            return CompletableFuture.completedFuture(where);
        }
    }

    int countOf(String topic) {
        return partitions.getOrDefault(topic, tasks.stream().mapToInt(task -> task.partition + 1).max().orElse(1));
    }

    void sent(ProducerRecord<byte[], byte[]> record) {
        String topic = record.topic();
        boolean isChangelog = changelogs.contains(topic);
        long timeMs = record.timestamp() == null ? -1 : record.timestamp(); // a buffer's changelog has none
        Taken taken = new Taken(0, timeMs, record.key(), record.value(), record.headers());
        if (!isChangelog && partitions.containsKey(topic) && readers.containsKey(new TopicPartition(topic, 0))) {
            int count = partitions.get(topic);
            int target = record.partition() != null ? record.partition()
                : record.key() == null ? running.partition % count
                : Utils.toPositive(Utils.murmur2(record.key())) % count;
            TopicPartition to = new TopicPartition(topic, target);
            RecordHeaders headers = new RecordHeaders(taken.headers());
            pending.add(new Sent(to, new Taken(0, taken.timeMs(), taken.key(), taken.value(), headers)));
        }
        int place = record.partition() != null ? record.partition() : running.partition;
        try {
            write(topic, place, taken);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    // --- files -----------------------------------------------------------------------------------------------

    static Taken read(DataInputStream in) throws IOException {
        long offset;
        try {
            offset = in.readLong();
        } catch (EOFException end) {
            return null;
        }
        long timeMs = in.readLong();
        byte[] key = bytes(in), value = bytes(in);
        RecordHeaders headers = new RecordHeaders();
        int count = in.readInt();
        for (int n = 0; n < count; n++) headers.add(new String(bytes(in), StandardCharsets.UTF_8), bytes(in));
        return new Taken(offset, timeMs, key, value, headers);
    }

    static byte[] bytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }

    void write(String topic, int partition, Taken record) throws IOException {
        DataOutputStream out = written.get(topic);
        if (out == null) {
            Path file = folder.resolve("out").resolve(Integer.toString(written.size()));
            out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file), 1 << 16));
            written.put(topic, out);
            Files.writeString(folder.resolve("out").resolve(written.size() - 1 + ".name"), topic);
        }
        out.writeLong(partition);
        out.writeLong(record.timeMs());
        write(out, record.key());
        write(out, record.value());
        Header[] headers = record.headers().toArray();
        out.writeInt(headers.length);
        for (Header header : headers) {
            write(out, header.key().getBytes(StandardCharsets.UTF_8));
            write(out, header.value());
        }
    }

    static void write(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) out.write(bytes);
    }

    void finish(double seconds) throws IOException {
        for (DataOutputStream out : written.values()) out.close();
        StringBuilder said = new StringBuilder("processed\t" + processed + "\nseconds\t" + seconds + "\n");
        Files.writeString(folder.resolve("done.tsv"), said);
    }

    /** Wall-clock time does not pass: no wall-clock punctuation fires. */
    static final class StillTime implements Time {
        @Override
        public long milliseconds() {
            return 0;
        }

        @Override
        public long hiResClockMs() {
            return 0;
        }

        @Override
        public long nanoseconds() {
            return 0;
        }

        @Override
        public void sleep(long ms) {}

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
