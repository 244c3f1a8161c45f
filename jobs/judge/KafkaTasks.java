package org.apache.kafka.streams;

import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.Callable;
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
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*; // LogContext, from 4.4 on
import org.apache.kafka.streams.internals.StreamsConfigUtils;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.GlobalProcessorContextImpl;
import org.apache.kafka.streams.processor.internals.GlobalStateManagerImpl;
import org.apache.kafka.streams.processor.internals.GlobalStateUpdateTask;
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
 * Kafka Streams' own tasks, without a broker and without threads. A record goes through all tasks with all that it
 * causes, before the next one. Who asks chooses the order of records; wall-clock time stands still until it is moved.
 *
 * <p>Each task has its own copy of the global tables that it looks into, so that their updates have a place among its
 * records. In Kafka one thread keeps them for all tasks, and they have none. The topology is therefore built once a task.
 *
 * <p>Where all is one task, as in Kafka's test driver, sub-topologies have one stream time together, and records between
 * them are taken by their times. It is in Kafka's package, since the topology's builder is not public.
 */
public final class KafkaTasks {
    /** A record: offset (of one that is sent: none), time, key, value, headers. */
    public record Taken(long offset, long timeMs, byte[] key, byte[] value, Headers headers) {}

    /** Told of everything that tasks send, changelogs too. The partition is the task's where the record names none. */
    public interface Written {
        void write(String topic, int partition, Taken record);
    }

    /** A record that a task has sent to a topic that some task reads. */
    record Sent(TopicPartition to, Taken record) {}

    /** One task of Kafka Streams, and the global tables that it looks into. */
    public final class Running {
        final InternalTopologyBuilder own;
        final int subTopology, partition;
        final Set<String> looksInto = new TreeSet<>();
        final Set<TopicPartition> inputs;
        final Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        /** Of stores in memory alone, by the topic from which they are restored. */
        final Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> logged = new HashMap<>();
        /** Whether it may restart, so that what stores in memory need is kept. */
        boolean restarts;
        StreamTask task;
        GlobalStateUpdateTask globals;

        Running(InternalTopologyBuilder own, int subTopology, int partition, Set<TopicPartition> inputs) {
            this.own = own;
            this.subTopology = subTopology;
            this.partition = partition;
            this.inputs = inputs;
        }

        /** A record, with all that it causes in all tasks. Offset -1: the next one of its partition. */
        public void take(TopicPartition from, Taken record) {
            process(from, record);
            while (!pending.isEmpty()) {
                Sent sent = pending.poll();
                readers.get(sent.to()).process(sent.to(), sent.record());
            }
        }

        /** An update of a global table, which this task alone sees. */
        public void update(TopicPartition from, Taken record) {
            running = this;
            globals.update(consumed(from, record));
        }

        /**
         * Ends the task as a clean shutdown does and begins it again: stores on the disk have what they had, those in
         * memory what their changelogs have.
         */
        public void restart() throws Exception {
            running = this;
            commit();
            task.suspend();
            task.closeClean();
            begin(this);
        }

        private void commit() {
            committed.putAll(task.prepareCommit(true));
            task.postCommit(true);
        }

        private void process(TopicPartition from, Taken record) {
            running = this;
            add(from, record);
            while (task.hasRecordsQueued() && task.isProcessable(clock.milliseconds())) {
                task.process(clock.milliseconds());
                task.maybePunctuateStreamTime();
                if (isOneTask) addSent();
            }
        }

        private void add(TopicPartition from, Taken record) {
            ConsumerRecord<byte[], byte[]> one = consumed(from, record);
            task.addRecords(from, List.of(one));
            processed++;
            if (restarts && logged.containsKey(from)) logged.get(from).add(one); // a source table's own topic
        }

        void log(TopicPartition changelog, Taken record) {
            if (restarts && logged.containsKey(changelog)) logged.get(changelog).add(consumed(changelog, record));
        }

        void addSent() {
            for (Sent sent = pending.poll(); sent != null; sent = pending.poll()) add(sent.to(), sent.record());
        }

        private ConsumerRecord<byte[], byte[]> consumed(TopicPartition from, Taken record) {
            long next = nextOffsets.getOrDefault(from, 0L);
            long offset = record.offset() < 0 ? next : record.offset();
            nextOffsets.put(from, Math.max(next, offset + 1));
            byte[] key = record.key(), value = record.value();
            return new ConsumerRecord<>(
                from.topic(), from.partition(), offset, record.timeMs(), TimestampType.CREATE_TIME,
                key == null ? ConsumerRecord.NULL_SIZE : key.length,
                value == null ? ConsumerRecord.NULL_SIZE : value.length,
                key, value, record.headers(), Optional.empty());
        }
    }

    final Callable<Topology> topology;
    final Properties settings;
    final StreamsConfig config;
    final InternalTopologyBuilder builder;
    final boolean isOneTask;
    final Written written;
    final Map<String, Integer> partitions;
    final Map<TopicPartition, Running> readers = new HashMap<>();
    final Map<TopicPartition, Long> nextOffsets = new HashMap<>();
    final Deque<Sent> pending = new ArrayDeque<>();
    final Clock clock = new Clock();
    final List<Running> tasks = new ArrayList<>();
    final StreamsMetricsImpl metrics;
    Running running;
    long processed;

    /**
     * Tasks that have begun. {@code topology}: builds the application's, the same each time; {@code settings}: its own,
     * with those that {@code still} adds; {@code landed}: topics with the number of their partitions, null for one of each.
     */
    public KafkaTasks(
        Callable<Topology> topology, Properties settings, Map<String, Integer> landed, boolean isOneTask, Written written)
        throws Exception {
        this.topology = topology;
        this.settings = settings;
        this.isOneTask = isOneTask;
        this.written = written;
        config = new StreamsConfig(settings);
        metrics = new StreamsMetricsImpl(
            new Metrics(new MetricConfig().recordLevel(
                Sensor.RecordingLevel.forName(config.getString(StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG))), clock),
            "judge", clock);
        builder = built();
        partitions = new TreeMap<>(landed == null ? Map.of() : landed);
        if (landed == null) sourceTopics().forEach(topic -> partitions.put(topic, 1));
        Map<Integer, TopicsInfo> parts = new TreeMap<>();
        Iterator<Integer> numbers = numbers().iterator();
        for (TopicsInfo topics : new TreeMap<>(builder.subtopologyToTopicsInfo()).values()) parts.put(numbers.next(), topics);
        refuseMissing(parts);
        countPartitions(parts);
        if (isOneTask) {
            Set<String> topics = new HashSet<>();
            parts.values().forEach(part -> topics.addAll(part.sourceTopics));
            start(0, topics, 1);
        } else {
            for (Map.Entry<Integer, TopicsInfo> part : parts.entrySet()) {
                start(part.getKey(), part.getValue().sourceTopics, largest(part.getValue().sourceTopics));
            }
        }
    }

    /** Adds to an application's settings what its tasks need here: no cache, no broker, and nothing that waits. */
    public static void still(Properties settings, String id, Path state) {
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:0");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, StreamsConfig.MAX_TASK_IDLE_MS_DISABLED);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
    }

    InternalTopologyBuilder built() throws Exception {
        InternalTopologyBuilder made = topology.call().internalTopologyBuilder;
        made.rewriteTopology(config);
        return made;
    }

    /** Of sub-topologies, as Kafka numbers them: global tables have numbers too, and are none. */
    SortedSet<Integer> numbers() throws Exception {
        SortedSet<Integer> found = new TreeSet<>();
        topology.call().describe().subtopologies().forEach(part -> found.add(part.id()));
        return found;
    }

    /** Those that the application reads and does not make itself, of global tables too. */
    Set<String> sourceTopics() {
        Set<String> found = new TreeSet<>(builder.buildTopology().sourceTopics());
        ProcessorTopology global = builder.buildGlobalStateTopology();
        if (global != null) found.addAll(global.sourceTopics());
        return found;
    }

    /** A record of a topic, by the task that reads it; of a global table by all. */
    public void take(String topic, int partition, Taken record) {
        TopicPartition from = new TopicPartition(topic, partition);
        if (readers.containsKey(from)) readers.get(from).take(from, record);
        else tasks.forEach(task -> task.update(from, record));
    }

    /** Lets wall-clock time pass, and its punctuations fire. */
    public void passTime(long ms) {
        clock.nowMs += ms;
        for (Running each : tasks) {
            running = each;
            each.task.maybePunctuateSystemTime();
            if (isOneTask) each.addSent();
            while (each.task.hasRecordsQueued() && each.task.isProcessable(clock.milliseconds())) {
                each.task.process(clock.milliseconds());
                each.task.maybePunctuateStreamTime();
                if (isOneTask) each.addSent();
            }
            while (!pending.isEmpty()) {
                Sent sent = pending.poll();
                readers.get(sent.to()).process(sent.to(), sent.record());
            }
        }
    }

    /** Ends what tasks have begun; nothing is taken after it. */
    public void commit() {
        for (Running each : tasks) {
            running = each;
            each.commit();
        }
    }

    /** Closes stores without a commit, and whatever became of the last record. */
    public void close() {
        for (Running each : tasks) {
            each.task.suspend();
            each.task.closeDirty();
        }
    }

    public Map<MetricName, ? extends Metric> metrics() {
        return metrics.metrics();
    }

    /** A store of the first task that has it. */
    public StateStore store(String name) {
        for (Running each : tasks) {
            StateStore found = each.task.store(name);
            if (found != null) return found;
        }
        throw new IllegalStateException("no store " + name);
    }

    /** Ends the program with one line that says what was expected. */
    @SuppressWarnings("serial")
    public static final class Refused extends RuntimeException {
        Refused(String expected) {
            super(expected);
        }
    }

    void refuseMissing(Map<Integer, TopicsInfo> parts) {
        Set<String> read = new TreeSet<>();
        for (TopicsInfo topics : parts.values()) {
            read.addAll(topics.sourceTopics);
            read.removeAll(topics.repartitionSourceTopics.keySet());
        }
        ProcessorTopology global = builder.buildGlobalStateTopology();
        if (global != null) read.addAll(global.sourceTopics());
        for (String topic : read) {
            if (!partitions.containsKey(topic)) throw new Refused("a landed topic " + topic + ", which the class reads");
        }
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

    void start(int subTopology, Set<String> topics, int count) throws Exception {
        for (int partition = 0; partition < count; partition++) {
            Set<TopicPartition> inputs = new LinkedHashSet<>();
            for (String topic : new TreeSet<>(topics)) {
                if (partition < partitions.get(topic)) inputs.add(new TopicPartition(topic, partition));
            }
            InternalTopologyBuilder own = tasks.isEmpty() || !builder.hasGlobalStores() ? builder : built();
            Running each = new Running(own, subTopology, partition, inputs);
            begin(each);
            tasks.add(each);
            inputs.forEach(input -> readers.put(input, each));
        }
    }

    void begin(Running each) throws ReflectiveOperationException {
        InternalTopologyBuilder own = each.own;
        TaskId id = new TaskId(each.subTopology, each.partition);
        ProcessorTopology whole = isOneTask ? own.buildTopology() : own.buildSubtopology(id.subtopology());
        ProcessorTopology global = own.buildGlobalStateTopology();
        if (global != null && each.globals == null) each.globals = globals(id, global);
        LogContext log = new LogContext("judge " + id + " ");
        TaskMetrics.droppedRecordsSensor(Thread.currentThread().getName(), id.toString(), metrics);
        ThreadCache cache = new ThreadCache(log, 0, metrics);
        StateDirectory directory = new StateDirectory(config, clock, own.hasPersistentStores(), false);
        MockConsumer<byte[], byte[]> consumer = new MockConsumer<>(AutoOffsetResetStrategy.EARLIEST.name());
        consumer.assign(each.inputs);
        Map<TopicPartition, Long> beginnings = new HashMap<>();
        each.inputs.forEach(input -> beginnings.put(input, 0L));
        consumer.updateBeginningOffsets(beginnings);
        consumer.commitSync(each.committed);
        ProcessorStateManager state = new WatchedState(id, log, directory, clock, whole, each.inputs,
            name -> each.looksInto.add(global.storeToChangelogTopic().get(name)));
        StreamsProducer producer = new StreamsProducer(
            new Producing(), StreamsConfigUtils.processingMode(config), clock, log);
        RecordCollectorImpl collector = new RecordCollectorImpl(
            log, id, producer, config.productionExceptionHandler(), metrics, whole);
        each.task = new StreamTask(
            id, each.inputs, whole, consumer, own.topologyConfigs().getTaskConfig(), metrics, directory, cache, clock,
            state, collector, new ProcessorContextImpl(id, config, state, metrics, cache), log, false);
        running = each;
        each.task.initializeIfNeeded();
        for (Map.Entry<String, String> store : whole.storeToChangelogTopic().entrySet()) {
            TopicPartition changelog = new TopicPartition(store.getValue(), each.partition);
            StateStore kept = each.task.store(store.getKey()); // null: of another sub-topology, or global
            if (kept == null || kept.persistent()) continue;
            restore(state, changelog, each.logged.computeIfAbsent(changelog, none -> new ArrayList<>()));
        }
        each.task.completeRestoration(ignored -> { });
        OffsetAndMetadata none = new OffsetAndMetadata(0, Optional.empty(), "");
        each.inputs.forEach(input -> each.task.updateNextOffsets(input, each.committed.getOrDefault(input, none)));
    }

    /** Gives a store the records of its changelog, as the changelog reader does; neither method is public. */
    static void restore(
        ProcessorStateManager state, TopicPartition changelog, List<ConsumerRecord<byte[], byte[]>> records)
        throws ReflectiveOperationException {
        Method metadata = ProcessorStateManager.class.getDeclaredMethod("storeMetadata", TopicPartition.class);
        Method restore = ProcessorStateManager.class.getDeclaredMethod(
            "restore", ProcessorStateManager.StateStoreMetadata.class, List.class, OptionalLong.class);
        metadata.setAccessible(true);
        restore.setAccessible(true);
        restore.invoke(state, metadata.invoke(state, changelog), records, OptionalLong.empty());
    }

    /** The global tables of one task, in a folder of their own. */
    GlobalStateUpdateTask globals(TaskId id, ProcessorTopology global) {
        Properties own = new Properties();
        own.putAll(settings);
        own.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(config.getString(StreamsConfig.STATE_DIR_CONFIG), "of-" + id).toString());
        StreamsConfig ownConfig = new StreamsConfig(own);
        MockConsumer<byte[], byte[]> consumer = new MockConsumer<>(AutoOffsetResetStrategy.NONE.name());
        for (String topic : global.sourceTopics()) {
            List<PartitionInfo> found = new ArrayList<>();
            Map<TopicPartition, Long> offsets = new HashMap<>();
            for (int n = 0; n < partitions.get(topic); n++) {
                found.add(new PartitionInfo(topic, n, null, null, null));
                offsets.put(new TopicPartition(topic, n), 0L);
            }
            consumer.updatePartitions(topic, found);
            consumer.updateBeginningOffsets(offsets);
            consumer.updateEndOffsets(offsets);
        }
        LogContext log = new LogContext("judge " + id + " global ");
        StateRestoreListener silent = new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition from, String store, long begin, long end) {}

            @Override
            public void onBatchRestored(TopicPartition from, String store, long end, long count) {}

            @Override
            public void onRestoreEnd(TopicPartition from, String store, long count) {}
        };
        GlobalStateManagerImpl state = new GlobalStateManagerImpl(
            log, clock, global, consumer, new StateDirectory(ownConfig, clock, true, false), silent, ownConfig);
        StreamsMetricsImpl ownMetrics = new StreamsMetricsImpl(new Metrics(), "judge", clock); // all of one task id
        GlobalProcessorContextImpl context = new GlobalProcessorContextImpl(
            ownConfig, state, ownMetrics, new ThreadCache(log, 0, ownMetrics), clock);
        state.setGlobalProcessorContext(context);
        boolean handles = config.getBoolean("processing.exception.handler.global.enabled");
        GlobalStateUpdateTask task = new GlobalStateUpdateTask(
            log, global, context, state, config.deserializationExceptionHandler(),
            handles ? config.processingExceptionHandler() : null, clock, -1);
        task.initialize();
        context.setRecordContext(null);
        return task;
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
            KafkaTasks.this.sent(record);
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
        long timeMs = record.timestamp() == null ? -1 : record.timestamp(); // a buffer's changelog has none
        Taken taken = new Taken(-1, timeMs, record.key(), record.value(), record.headers());
        running.log(new TopicPartition(topic, running.partition), taken);
        if (partitions.containsKey(topic)) {
            int count = partitions.get(topic);
            int target = record.partition() != null ? record.partition()
                : record.key() == null ? running.partition % count
                : Utils.toPositive(Utils.murmur2(record.key())) % count;
            TopicPartition to = new TopicPartition(topic, target);
            RecordHeaders headers = new RecordHeaders(taken.headers());
            Taken copy = new Taken(-1, taken.timeMs(), taken.key(), taken.value(), headers);
            if (readers.containsKey(to)) pending.add(new Sent(to, copy));
        }
        written.write(topic, record.partition() != null ? record.partition() : running.partition, taken);
    }

    /** Wall-clock time, which stands still between calls of passTime. */
    static final class Clock implements Time {
        long nowMs;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long hiResClockMs() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {}

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
