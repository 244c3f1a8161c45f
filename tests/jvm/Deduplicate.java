import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * KIP-655's deduplicate, which Kafka Streams does not have, from the KIP's text: the first record of an identity is
 * forwarded, others at most an interval away from it are dropped. What the text leaves open is answered in
 * tests/conformance/goldens/README.md, section Deduplicate.
 */
class Deduplicate implements FixedKeyProcessor<Object, Object, Object> {
    static class Entry {
        final long timestamp;
        final String topic;
        final Long offset;

        Entry(long timestamp, String topic, Long offset) {
            this.timestamp = timestamp;
            this.topic = topic;
            this.offset = offset;
        }

        boolean isOf(String topic, Long offset) {
            return offset != null && offset.equals(this.offset) && topic.equals(this.topic);
        }
    }

    final JsonNode node;
    final Oracle oracle;
    final long interval;
    final Map<List<Object>, Entry> entries = new HashMap<>();
    long streamTime = -1;
    FixedKeyProcessorContext<Object, Object> context;

    Deduplicate(JsonNode node, Oracle oracle) {
        this.node = node;
        this.oracle = oracle;
        this.interval = node.get("interval").asLong();
    }

    @Override
    public void init(FixedKeyProcessorContext<Object, Object> context) {
        this.context = context;
    }

    @Override
    public void process(FixedKeyRecord<Object, Object> record) {
        streamTime = Math.max(streamTime, record.timestamp());
        entries.values().removeIf(entry -> entry.timestamp < streamTime - interval);
        List<Object> identity = identity(record);
        if (identity.contains(null)) {
            context.forward(record);
            return;
        }
        RecordMetadata metadata = context.recordMetadata().orElse(null);
        String topic = metadata == null ? null : metadata.topic();
        Long offset = topic == null ? null : oracle.offsetOf(metadata);  // a punctuator's record has none
        Entry found = entries.get(identity);
        if (found != null && found.isOf(topic, offset)) {
            context.forward(record);
        } else if (found == null || Math.abs(record.timestamp() - found.timestamp) > interval) {
            if (record.timestamp() >= streamTime - interval) {
                entries.put(identity, new Entry(record.timestamp(), topic, offset));
            }
            context.forward(record);
        }
    }

    List<Object> identity(FixedKeyRecord<Object, Object> record) {
        String operator = node.get("op").asText();
        Object key = record.key();
        if (operator.equals("deduplicate_by_key")) return Collections.singletonList(key);
        String id = Functions.select(node.get("id_selector").asText(), key, record.value());
        return operator.equals("deduplicate") ? Collections.singletonList(id) : Arrays.asList(key, id);
    }
}
