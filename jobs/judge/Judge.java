package org.apache.kafka.streams;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KafkaTasks.Refused;
import org.apache.kafka.streams.KafkaTasks.Taken;

/**
 * Kafka Streams' own tasks over recorded topics.
 *
 * <p>Arguments: a folder, the class and method that give the topology ({@code com.acme.Orders#topology}), a file of
 * settings. The folder has {@code topics.tsv}, a line a topic (name, partitions), and a file
 * {@code in/<line>-<partition>} of records for each partition. {@code restarts.tsv} has a line a restart: topic, partition
 * and offset of the record before which the task that reads it ends and begins again. Answers: {@code topology.txt}, what describe() says;
 * {@code out/<number>}, what was written to the topic that {@code out/<number>.name} names, changelogs too;
 * {@code done.tsv}, how many records tasks took and in how many seconds.
 *
 * <p>The order: within a task, records of several topics come as from full queues in PartitionGroup: the earliest head
 * first. Between tasks the one whose record has the smallest (largest record time of the task up to it, sub-topology,
 * partition) comes first. So does the replay that is judged, and so every run has one result. Updates of global tables
 * are in queues of each task that looks into them, behind its own.
 */
public final class Judge {
    /** A landed partition: its records in order, the head of which is known. */
    static final class Queue {
        final TopicPartition partition;
        final int number;
        final boolean isGlobal;
        final DataInputStream in;
        Taken head;

        Queue(TopicPartition partition, int number, boolean isGlobal, Path file) throws IOException {
            this.partition = partition;
            this.number = number;
            this.isGlobal = isGlobal;
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

    /** A task and its landed queues. */
    final class Reading {
        final KafkaTasks.Running task;
        final PriorityQueue<Queue> landed;
        long tapeTimeMs = -1;

        /** Where internal topics are read, too, equal times are in the order of the topics; else as Java's heap has them. */
        Reading(KafkaTasks.Running task) throws IOException {
            this.task = task;
            Comparator<Queue> order = Comparator.comparingLong(Queue::headTimeMs);
            boolean isMixed = task.inputs.stream().anyMatch(input -> !lines.containsKey(input.topic()));
            landed = new PriorityQueue<>(isMixed ? order.thenComparingInt(queue -> queue.number) : order);
            for (String topic : lines.keySet()) {
                for (int partition = 0; partition < counts.get(topic); partition++) {
                    TopicPartition from = new TopicPartition(topic, partition);
                    if (task.inputs.contains(from)) open(from, false);
                }
            }
            for (String topic : lines.keySet()) {
                for (int partition = 0; task.looksInto.contains(topic) && partition < counts.get(topic); partition++) {
                    open(new TopicPartition(topic, partition), true);
                }
            }
        }

        void open(TopicPartition from, boolean isGlobal) throws IOException {
            String name = lines.get(from.topic()) + "-" + from.partition();
            int number = isGlobal ? lines.size() + lines.get(from.topic()) : lines.get(from.topic());
            Queue queue = new Queue(from, number, isGlobal, folder.resolve("in").resolve(name));
            if (queue.head != null) landed.add(queue);
        }

        /** Largest record time up to the next landed record, which orders it among those of all tasks. */
        long placeMs() {
            return Math.max(tapeTimeMs, landed.peek().headTimeMs());
        }

        void takeLanded() throws Exception {
            Queue queue = landed.poll();
            Set<Long> restarts = restartsBefore.getOrDefault(queue.partition, Set.of());
            if (!queue.isGlobal && restarts.contains(queue.head.offset())) task.restart();
            tapeTimeMs = Math.max(tapeTimeMs, queue.headTimeMs());
            Taken record = queue.take();
            if (queue.head != null) landed.add(queue);
            if (queue.isGlobal) task.update(queue.partition, record);
            else task.take(queue.partition, record);
        }
    }

    final Path folder;
    final Map<String, Integer> lines = new LinkedHashMap<>();
    final Map<String, Integer> counts = new HashMap<>();
    final Map<String, DataOutputStream> written = new TreeMap<>();
    final Map<TopicPartition, Set<Long>> restartsBefore = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Properties settings = new Properties();
        if (arguments.length > 2) {
            try (var reader = Files.newBufferedReader(Path.of(arguments[2]))) {
                settings.load(reader);
            }
        }
        KafkaTasks.still(settings, "kstreams-replay-judge", folder.resolve("state"));
        try {
            Files.writeString(folder.resolve("topology.txt"), topologyOf(arguments[1], settings).describe().toString());
            new Judge(folder).run(arguments[1], settings);
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

    Judge(Path folder) throws IOException {
        this.folder = folder;
        for (String line : Files.readAllLines(folder.resolve("topics.tsv"))) {
            String[] cells = line.split("\t");
            lines.put(cells[0], lines.size());
            counts.put(cells[0], Integer.parseInt(cells[1]));
        }
        for (String line : Files.readAllLines(folder.resolve("restarts.tsv"))) {
            String[] cells = line.split("\t");
            TopicPartition before = new TopicPartition(cells[0], Integer.parseInt(cells[1]));
            restartsBefore.computeIfAbsent(before, none -> new HashSet<>()).add(Long.parseLong(cells[2]));
        }
    }

    void run(String application, Properties settings) throws Exception {
        Files.createDirectories(folder.resolve("out"));
        long started = System.nanoTime();
        KafkaTasks tasks = new KafkaTasks(
            () -> topologyOf(application, settings), settings, counts, false, this::write);
        restartsBefore.keySet().stream().map(tasks.readers::get).filter(Objects::nonNull).forEach(task -> task.restarts = true);
        PriorityQueue<Reading> next = new PriorityQueue<>(
            Comparator.comparingLong(Reading::placeMs).thenComparingInt(each -> each.task.subTopology)
                .thenComparingInt(each -> each.task.partition));
        for (KafkaTasks.Running task : tasks.tasks) {
            Reading reading = new Reading(task);
            if (!reading.landed.isEmpty()) next.add(reading);
        }
        while (!next.isEmpty()) {
            Reading reading = next.poll();
            reading.takeLanded();
            if (!reading.landed.isEmpty()) next.add(reading);
        }
        tasks.commit();
        double seconds = (System.nanoTime() - started) / 1e9;
        for (DataOutputStream out : written.values()) out.close();
        StringBuilder said = new StringBuilder("processed\t" + tasks.processed + "\nseconds\t" + seconds + "\n");
        Files.writeString(folder.resolve("done.tsv"), said);
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

    void write(String topic, int partition, Taken record) {
        try {
            append(topic, partition, record);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    void append(String topic, int partition, Taken record) throws IOException {
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
}
