import com.fasterxml.jackson.databind.JsonNode;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.streams.processor.*;

/** The scenario language's timestamp extractors: its named functions, and Kafka's own on what they give. */
class Extractors {
    /** Of a node's topic, or null where records keep their times. */
    static TimestampExtractor of(JsonNode node) {
        if (!node.has("extractor")) return null;
        String function = node.get("extractor").asText();
        TimestampExtractor step = (record, partitionTime) -> time(function, record, partitionTime);
        switch (node.path("invalid").asText()) {
            case "": return step;
            case "fail": return on(step, new FailOnInvalidTimestamp());
            case "skip": return on(step, new LogAndSkipOnInvalidTimestamp());
            case "partition_time": return on(step, new UsePartitionTimeOnInvalidTimestamp());
        }
        throw new Topologies.SpecException("extractor " + node);
    }

    static long time(String function, ConsumerRecord<Object, Object> record, long partitionTime) {
        Object value = record.value();
        switch (Functions.name(function)) {
            case "value": return Functions.num(value);
            case "value_or_partition": return value == null ? partitionTime : Functions.num(value);
            case "shift": return record.timestamp() + Long.parseLong(Functions.argument(function));
            case "partition_plus": return partitionTime + Long.parseLong(Functions.argument(function));
        }
        throw new IllegalStateException("extractor " + function);
    }

    /** What an extractor of Kafka's says of the record at the time that the step gives it. */
    static TimestampExtractor on(TimestampExtractor step, TimestampExtractor builtIn) {
        return (record, partitionTime) -> builtIn.extract(
            new ConsumerRecord<>(
                record.topic(), record.partition(), record.offset(), step.extract(record, partitionTime),
                TimestampType.CREATE_TIME, -1, -1, record.key(), record.value(), record.headers(), Optional.empty()),
            partitionTime);
    }
}
