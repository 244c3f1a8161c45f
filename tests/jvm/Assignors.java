import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Scanner;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.apache.kafka.streams.processor.internals.InternalTopicManager;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.DefaultKafkaStreamsState;
import org.apache.kafka.streams.processor.internals.assignment.DefaultTaskTopicPartition;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;

/**
 * Who runs what, by Kafka's own assignors. A line a case:
 * strategy;standbys;warm-ups;acceptable lag;tags;rack-aware strategy;racks;tasks;stateful tasks;member;member;…
 * where racks is how many there are, of members and of partitions, and
 * a member is number:capacity:key=value,…:active before:standby before:task=lag,…
 * The answer: probing;number:active:standby;…
 */
public class Assignors {
    record Member(ProcessId id, int capacity, Map<String, String> tags, SortedSet<TaskId> active,
                  SortedSet<TaskId> standby, Map<TaskId, Long> lags) {
        static Member of(String text) {
            String[] parts = text.split(":", -1);
            Map<String, String> tags = new TreeMap<>();
            for (String tag : words(parts[2])) {
                tags.put(tag.split("=")[0], tag.split("=")[1]);
            }
            Map<TaskId, Long> lags = new TreeMap<>();
            for (String lag : words(parts[5])) {
                lags.put(TaskId.parse(lag.split("=")[0]), Long.parseLong(lag.split("=")[1]));
            }
            ProcessId id = new ProcessId(new UUID(0, Long.parseLong(parts[0])));
            return new Member(id, Integer.parseInt(parts[1]), tags, tasks(parts[3]), tasks(parts[4]), lags);
        }
    }

    static final Set<String> RACK = Set.of("rack-0");

    /** A task of which nothing but its changelog counts, in the one rack; sets of them iterate by number. */
    record Task(int number, TaskId id, boolean isStateful) implements TaskInfo {
        public int hashCode() {
            return number;
        }

        public Set<String> stateStoreNames() {
            return Set.of();
        }

        public Set<TaskTopicPartition> topicPartitions() {
            TopicPartition changelog = new TopicPartition("changelog", id.partition());
            DefaultTaskTopicPartition partition = new DefaultTaskTopicPartition(changelog, false, true, () -> { });
            partition.annotateWithRackIds(RACK);
            return isStateful ? Set.of(partition) : Set.of();
        }
    }

    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(";", -1);
            boolean isSticky = parts[0].equals("sticky");
            OptionalInt traffic = OptionalInt.of(isSticky ? 1 : 10);
            OptionalInt nonOverlap = OptionalInt.of(isSticky ? 10 : 1);
            AssignmentConfigs settings = new AssignmentConfigs(
                Long.parseLong(parts[3]), Integer.parseInt(parts[2]), Integer.parseInt(parts[1]), 60_000L, words(parts[4]),
                traffic, nonOverlap, parts[5]);
            List<Member> members = Arrays.stream(parts).skip(9).map(Member::of).toList();
            SortedSet<TaskId> all = tasks(parts[7]);
            SortedSet<TaskId> stateful = tasks(parts[8]);
            System.out.println(isSticky
                ? sticky(members, all, stateful, settings)
                : highAvailability(members, all, stateful, settings, Integer.parseInt(parts[6])));
        }
    }

    static String highAvailability(
            List<Member> members, SortedSet<TaskId> all, SortedSet<TaskId> stateful, AssignmentConfigs settings, int racks) {
        Map<ProcessId, ClientState> clients = new TreeMap<>();
        for (Member member : members) {
            clients.put(member.id(), new ClientState(
                member.active(), member.standby(), member.lags(), member.tags(), member.capacity(), member.id()));
        }
        RackAwareTaskAssignor rackAware = rackAware(members, all, stateful, settings, racks);
        boolean isProbing = new HighAvailabilityTaskAssignor().assign(clients, all, stateful, rackAware, settings);
        List<String> said = new ArrayList<>(List.of(String.valueOf(isProbing)));
        clients.forEach((id, client) -> said.add(line(id, client.activeTasks(), client.standbyTasks())));
        return String.join(";", said);
    }

    /** Every member has a rack; a partition of a task stands on one broker, which has one, too. */
    static RackAwareTaskAssignor rackAware(
            List<Member> members, SortedSet<TaskId> all, SortedSet<TaskId> stateful, AssignmentConfigs settings, int racks) {
        Map<ProcessId, Map<String, Optional<String>>> consumers = new TreeMap<>();
        for (Member member : members) {
            String rack = "rack-" + member.id().id().getLeastSignificantBits() % racks;
            consumers.put(member.id(), Map.of("consumer", Optional.of(rack)));
        }
        List<Node> brokers = new ArrayList<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        Map<TaskId, Set<TopicPartition>> sources = new TreeMap<>();
        Map<TaskId, Set<TopicPartition>> changelogs = new TreeMap<>();
        Map<Subtopology, Set<TaskId>> subtopologies = new HashMap<>();
        for (TaskId task : all) {
            int number = brokers.size();
            Node broker = new Node(number, "broker", 9092, "rack-" + number % racks);
            brokers.add(broker);
            Node[] replicas = {broker};
            for (String topic : List.of("source-", "changelog-")) {
                partitions.add(
                    new PartitionInfo(topic + task.subtopology(), task.partition(), broker, replicas, replicas));
            }
            sources.put(task, Set.of(new TopicPartition("source-" + task.subtopology(), task.partition())));
            changelogs.put(task, stateful.contains(task)
                ? Set.of(new TopicPartition("changelog-" + task.subtopology(), task.partition())) : Set.of());
            subtopologies.computeIfAbsent(new Subtopology(task.subtopology(), null), each -> new TreeSet<>()).add(task);
        }
        Cluster cluster = new Cluster("cluster", brokers, partitions, Set.of(), Set.of());
        return new RackAwareTaskAssignor(
            cluster, sources, changelogs, subtopologies, consumers, topicManager(partitions), settings, Time.SYSTEM);
    }

    /** Knows where the partitions of changelogs are, of which Kafka asks it. */
    static InternalTopicManager topicManager(List<PartitionInfo> partitions) {
        Map<String, String> config = Map.of("application.id", "assignors", "bootstrap.servers", "localhost:9092");
        return new InternalTopicManager(Time.SYSTEM, null, new StreamsConfig(config)) {
            public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(Set<String> topics) {
                Map<String, List<TopicPartitionInfo>> found = new HashMap<>();
                for (PartitionInfo one : partitions.stream().filter(each -> topics.contains(each.topic())).toList()) {
                    List<Node> replicas = List.of(one.replicas());
                    found.computeIfAbsent(one.topic(), each -> new ArrayList<>())
                        .add(new TopicPartitionInfo(one.partition(), one.leader(), replicas, replicas));
                }
                return found;
            }
        };
    }

    static String sticky(
            List<Member> members, SortedSet<TaskId> all, SortedSet<TaskId> stateful, AssignmentConfigs settings) {
        Map<ProcessId, KafkaStreamsState> states = new LinkedHashMap<>();
        for (Member member : members) {
            states.put(member.id(), new DefaultKafkaStreamsState(
                member.id(), member.capacity(), member.tags(), member.active(), member.standby(), new TreeMap<>(),
                Optional.empty(), Optional.of(member.lags()), Optional.of("rack-0")));
        }
        Map<TaskId, TaskInfo> infos = new LinkedHashMap<>();
        for (TaskId task : all) {
            infos.put(task, new Task(infos.size(), task, stateful.contains(task)));
        }
        ApplicationState application = new ApplicationState() {
            public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
                return states;
            }

            public AssignmentConfigs assignmentConfigs() {
                return settings;
            }

            public Map<TaskId, TaskInfo> allTasks() {
                return infos;
            }
        };
        Map<ProcessId, String> said = new TreeMap<>();
        for (KafkaStreamsAssignment found : new StickyTaskAssignor().assign(application).assignment()) {
            Set<TaskId> active = new TreeSet<>();
            Set<TaskId> standby = new TreeSet<>();
            found.tasks().forEach((task, kind) ->
                (kind.type() == KafkaStreamsAssignment.AssignedTask.Type.ACTIVE ? active : standby).add(task));
            said.put(found.processId(), line(found.processId(), active, standby));
        }
        return "false;" + String.join(";", said.values());
    }

    static String line(ProcessId id, Set<TaskId> active, Set<TaskId> standby) {
        return id.id().getLeastSignificantBits() + ":" + text(active) + ":" + text(standby);
    }

    static String text(Set<TaskId> tasks) {
        return String.join(",", new TreeSet<>(tasks).stream().map(TaskId::toString).toList());
    }

    static List<String> words(String text) {
        return text.isEmpty() ? List.of() : List.of(text.split(","));
    }

    static SortedSet<TaskId> tasks(String text) {
        return new TreeSet<>(words(text).stream().map(TaskId::parse).toList());
    }
}
