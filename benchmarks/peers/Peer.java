import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * The benchmark's workloads as a Kafka Streams application, run once over topics that hold all their records.
 *
 * <p>Arguments, each name=value: workload, bootstrap, application (its id), stores (rocksdb or memory), cache (bytes, or
 * default), broker (its process), and the topic of every input and output (clicks=…, sessions=…). Prints one line of
 * JSON: the seconds from start() until all input is processed and close() has committed, and what CPU and memory the
 * application and the broker took in them. What is not set here is Kafka Streams' default.
 */
public class Peer {
    static final Serde<String> STRING = Serdes.String();
    static final Serde<Long> LONG = Serdes.Long();
    static final long LOOK_MS = 50, QUIET_MS = 1_000;

    final Map<String, String> given = new HashMap<>();
    final StreamsBuilder builder;

    Peer(String[] arguments) {
        for (String argument : arguments) given.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
        builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(settings())));
    }

    public static void main(String[] arguments) throws Exception {
        new Peer(arguments).run();
    }

    boolean isInMemory() {
        return given.get("stores").equals("memory");
    }

    Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given.get("application"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("bootstrap"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        if (!given.get("cache").equals("default")) {
            settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.parseLong(given.get("cache")));
        }
        if (isInMemory()) {
            settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
                BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        }
        return settings;
    }

    // --- workloads -------------------------------------------------------------------------------------------

    void build() {
        switch (given.get("workload")) {
            case "W1": case "W1u": case "W7": sessions(clicks()); return;
            case "W2": minutes(clicks()); return;
            case "W3": deduplicated(clicks()).to(given.get("first_clicks"), Produced.with(STRING, LONG)); return;
            case "W4": joined(clicks()).to(given.get("joined_clicks"), Produced.with(STRING, Pair.SERDE)); return;
            case "W5": tables(); return;
            case "W9": clicks().process(new CountUsers.Supplier(isInMemory())).to(given.get("totals"),
                Produced.with(STRING, Pair.SERDE)); return;
            case "W6": sessions(joined(deduplicated(clicks())).mapValues(Pair::sum)); return;
        }
        throw new IllegalArgumentException("no workload " + given.get("workload"));
    }

    KStream<String, Long> clicks() {
        return builder.stream(given.get("clicks"), Consumed.with(STRING, LONG));
    }

    /** Count and sum of sessions: gap 30 s, grace 60 s, final results only. */
    void sessions(KStream<String, Long> stream) {
        stream.groupByKey(Grouped.with(STRING, LONG))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(30), Duration.ofSeconds(60)))
            .aggregate(Pair::zero, Pair::add, (key, one, other) -> one.plus(other), Materialized.with(STRING, Pair.SERDE))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .to(given.get("sessions"), Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Pair.SERDE));
    }

    /** Count and sum of minutes: grace 60 s, final results only. */
    void minutes(KStream<String, Long> stream) {
        stream.groupByKey(Grouped.with(STRING, LONG))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofSeconds(60)))
            .aggregate(Pair::zero, Pair::add, Materialized.with(STRING, Pair.SERDE))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .to(given.get("windows"), Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 60_000), Pair.SERDE));
    }

    /** Records that are more than 10 s away from the last one of their key that was forwarded. */
    KStream<String, Long> deduplicated(KStream<String, Long> stream) {
        return stream.processValues(new FixedKeyProcessorSupplier<String, Long, Long>() {
            @Override
            public FixedKeyProcessor<String, Long, Long> get() {
                return new Deduplicate(10_000);
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return Set.of(Stores.keyValueStoreBuilder(
                    isInMemory() ? Stores.inMemoryKeyValueStore("last") : Stores.persistentKeyValueStore("last"),
                    STRING, LONG).withCachingEnabled());
            }
        });
    }

    /** Each record with the table's value as of its time, if there is one: a versioned store, history 10 min. */
    KStream<String, Pair> joined(KStream<String, Long> stream) {
        KTable<String, Long> table = builder.table(given.get("users"), Consumed.with(STRING, LONG),
            Materialized.<String, Long>as(Stores.persistentVersionedKeyValueStore("users", Duration.ofMinutes(10)))
                .withKeySerde(STRING).withValueSerde(LONG));
        return stream.leftJoin(table, Pair::new, Joined.with(STRING, LONG, LONG));
    }

    /** The last clicks joined with users by their key, and users with items by a foreign key. */
    void tables() {
        KTable<String, Long> lastClicks = builder.table(given.get("clicks"), Consumed.with(STRING, LONG));
        KTable<String, Long> users = uncachedTable("users"), items = uncachedTable("items");
        Produced<String, Pair> pairs = Produced.with(STRING, Pair.SERDE);
        lastClicks.join(users, Pair::new).toStream().to(given.get("joined_tables"), pairs);
        users.join(items, value -> "item-" + value, Pair::new).toStream().to(given.get("joined_items"), pairs);
    }

    /** A cache would hold back what a foreign-key join sends to its own topics, until after close() reads no more. */
    KTable<String, Long> uncachedTable(String topic) {
        return builder.table(given.get(topic), Consumed.with(STRING, LONG),
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>with(STRING, LONG).withCachingDisabled());
    }

    /** The first record of a key, and any that is further away from the last forwarded one than the interval. */
    static class Deduplicate implements FixedKeyProcessor<String, Long, Long> {
        final long intervalMs;
        long streamTimeMs = -1;
        FixedKeyProcessorContext<String, Long> context;
        KeyValueStore<String, Long> last;

        Deduplicate(long intervalMs) {
            this.intervalMs = intervalMs;
        }

        @Override
        public void init(FixedKeyProcessorContext<String, Long> context) {
            this.context = context;
            this.last = context.getStateStore("last");
        }

        @Override
        public void process(FixedKeyRecord<String, Long> record) {
            long timeMs = record.timestamp();
            streamTimeMs = Math.max(streamTimeMs, timeMs);
            Long lastMs = last.get(record.key());
            boolean isKnown = lastMs != null && lastMs >= streamTimeMs - intervalMs;
            if (isKnown && Math.abs(timeMs - lastMs) <= intervalMs) return;
            if (timeMs >= streamTimeMs - intervalMs) last.put(record.key(), timeMs);
            context.forward(record);
        }
    }

    /** What the store of W9 has of a key, as JSON by Jackson. */
    public static class User {
        static final ObjectMapper JSON = new ObjectMapper();
        public long clicks;
        public long total;
        public List<Long> last = new ArrayList<>();

        static Serde<User> serde() {
            return Serdes.serdeFrom((topic, user) -> user == null ? null : written(user), (topic, bytes) -> read(bytes));
        }

        static byte[] written(User user) {
            try {
                return JSON.writeValueAsBytes(user);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        static User read(byte[] bytes) {
            try {
                return bytes == null ? null : JSON.readValue(bytes, User.class);
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** Counts, sums and last ten values by key, in a store; forwards count and sum. */
    static class CountUsers implements Processor<String, Long, String, Pair> {
        static final int LAST = 10;
        ProcessorContext<String, Pair> context;
        KeyValueStore<String, User> users;

        record Supplier(boolean isInMemory) implements ProcessorSupplier<String, Long, String, Pair> {
            @Override
            public Processor<String, Long, String, Pair> get() {
                return new CountUsers();
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return Set.of(Stores.keyValueStoreBuilder(
                    isInMemory ? Stores.inMemoryKeyValueStore("users") : Stores.persistentKeyValueStore("users"),
                    STRING, User.serde()).withCachingEnabled());
            }
        }

        @Override
        public void init(ProcessorContext<String, Pair> context) {
            this.context = context;
            this.users = context.getStateStore("users");
        }

        @Override
        public void process(Record<String, Long> record) {
            User user = users.get(record.key());
            if (user == null) user = new User();
            user.clicks++;
            user.total += record.value();
            user.last.add(record.value());
            if (user.last.size() > LAST) user.last.remove(0);
            users.put(record.key(), user);
            context.forward(record.withValue(new Pair(user.clicks, user.total)));
        }
    }

    /** Two numbers, of which the second may be absent. */
    static class Pair {
        static final Serde<Pair> SERDE = Serdes.serdeFrom(writer(), reader());
        final long first;
        final Long second;

        Pair(long first, Long second) {
            this.first = first;
            this.second = second;
        }

        static Pair zero() {
            return new Pair(0, 0L);
        }

        static Pair add(String key, Long value, Pair counted) {
            return new Pair(counted.first + 1, counted.second + value);
        }

        long sum() {
            return second == null ? first : first + second;
        }

        Pair plus(Pair other) {
            return new Pair(first + other.first, second + other.second);
        }

        static Serializer<Pair> writer() {
            return (topic, pair) -> {
                if (pair == null) return null;
                ByteBuffer bytes = ByteBuffer.allocate(pair.second == null ? 8 : 16).putLong(pair.first);
                return (pair.second == null ? bytes : bytes.putLong(pair.second)).array();
            };
        }

        static Deserializer<Pair> reader() {
            return (topic, bytes) -> {
                if (bytes == null) return null;
                ByteBuffer read = ByteBuffer.wrap(bytes);
                return new Pair(read.getLong(), read.hasRemaining() ? read.getLong() : null);
            };
        }
    }

    // --- the run ---------------------------------------------------------------------------------------------

    void run() throws Exception {
        build();
        Topology topology = builder.build();
        ProcessHandle broker = ProcessHandle.of(Long.parseLong(given.get("broker"))).orElseThrow();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", given.get("bootstrap")));
             KafkaStreams streams = new KafkaStreams(topology, settings())) {
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            double cpu = cpuSeconds(ProcessHandle.current()), brokerCpu = cpuSeconds(broker);
            long started = System.nanoTime();
            streams.start();
            double processed = (untilAllIsProcessed(streams, admin, sources(topology)) - started) / 1e9;
            long closing = System.nanoTime();
            if (!streams.close(Duration.ofMinutes(10))) throw new IllegalStateException("close() did not end");
            double closed = (System.nanoTime() - closing) / 1e9;
            streams.cleanUp();
            System.out.printf(Locale.ROOT,
                "{\"process\": %.3f, \"close\": %.3f, \"cpu\": %.2f, \"broker_cpu\": %.2f, \"rss\": %d, \"broker_rss\": %d}%n",
                processed, closed, cpuSeconds(ProcessHandle.current()) - cpu, cpuSeconds(broker) - brokerCpu,
                peakBytes(ProcessHandle.current()), peakBytes(broker));
        }
    }

    /** Names of the topics that the topology reads; its own ones without the application's id. */
    static Set<String> sources(Topology topology) {
        Set<String> topics = new TreeSet<>();
        for (TopologyDescription.Subtopology part : topology.describe().subtopologies()) {
            for (TopologyDescription.Node node : part.nodes()) {
                if (node instanceof TopologyDescription.Source) topics.addAll(((TopologyDescription.Source) node).topicSet());
            }
        }
        return topics;
    }

    /**
     * Waits until as many records are processed as all topics that are read hold, and stays so for a second; the
     * System.nanoTime() at which that second began.
     */
    long untilAllIsProcessed(KafkaStreams streams, Admin admin, Set<String> sources) throws Exception {
        Set<String> given = new HashSet<>(this.given.values());
        boolean isFixed = given.containsAll(sources);
        long wanted = isFixed ? held(admin, sources) : -1, since = -1;
        while (true) {
            long now = System.nanoTime();
            long held = isFixed ? wanted : held(admin, sources);
            if (held == 0 || held != processed(streams)) {
                since = -1;
            } else if (since < 0) {
                since = now;
            }
            if (since >= 0 && (isFixed || now - since > QUIET_MS * 1_000_000)) return since;
            Thread.sleep(LOOK_MS);
        }
    }

    /** Records of the topics, from their end offsets. Topics that are not there yet have none. */
    long held(Admin admin, Set<String> sources) throws ExecutionException, InterruptedException {
        Set<String> names = new HashSet<>(sources);
        for (String source : sources) names.add(given.get("application") + "-" + source);
        names.retainAll(admin.listTopics().names().get());
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        admin.describeTopics(names).allTopicNames().get().forEach((name, topic) ->
            topic.partitions().forEach(each -> ends.put(new TopicPartition(name, each.partition()), OffsetSpec.latest())));
        return admin.listOffsets(ends).all().get().values().stream().mapToLong(end -> end.offset()).sum();
    }

    static long processed(KafkaStreams streams) {
        double total = 0;
        for (Metric metric : streams.metrics().values()) {
            boolean isOfThread = metric.metricName().group().equals("stream-thread-metrics");
            if (isOfThread && metric.metricName().name().equals("process-total")) total += (Double) metric.metricValue();
        }
        return (long) total;
    }

    static double cpuSeconds(ProcessHandle process) {
        return process.info().totalCpuDuration().orElseThrow().toNanos() / 1e9;
    }

    /** The most memory that the process ever held. */
    static long peakBytes(ProcessHandle process) throws IOException {
        String status = Files.readString(Path.of("/proc", Long.toString(process.pid()), "status"));
        String line = status.lines().filter(each -> each.startsWith("VmHWM:")).findFirst().orElseThrow();
        return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
    }
}
