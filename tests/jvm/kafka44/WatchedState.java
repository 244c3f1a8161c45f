package org.apache.kafka.streams;

import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*; // LogContext, from 4.4 on
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.ProcessorStateManager;
import org.apache.kafka.streams.processor.internals.ProcessorTopology;
import org.apache.kafka.streams.processor.internals.StateDirectory;
import org.apache.kafka.streams.processor.internals.Task;

/** As jobs/judge/WatchedState.java, by the constructor of Kafka Streams 4.4. */
final class WatchedState extends ProcessorStateManager {
    final Consumer<String> asked;

    WatchedState(
        TaskId id, LogContext log, StateDirectory directory, Time clock, ProcessorTopology topology,
        Set<TopicPartition> inputs, Consumer<String> asked) {
        super(id, Task.TaskType.ACTIVE, false, false, log, directory, clock, topology.storeToChangelogTopic(), inputs);
        this.asked = asked;
    }

    @Override
    public StateStore globalStore(String name) {
        StateStore found = super.globalStore(name);
        if (found != null) asked.accept(name);
        return found;
    }
}
