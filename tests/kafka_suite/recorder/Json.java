import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/** Keys and values as JSON: plain ones as they are, others as objects that name their parts. */
final class Json {
    private Json() { }

    static Object of(final Object value) {
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof byte[]) {
            return Map.of("bytes", HexFormat.of().formatHex((byte[]) value));
        }
        if (value instanceof Bytes) {
            return of(((Bytes) value).get());
        }
        if (value instanceof Windowed) {
            final Windowed<?> windowed = (Windowed<?>) value;
            return object("key", of(windowed.key()), "window",
                List.of(windowed.window().start(), windowed.window().end()));
        }
        if (value instanceof Change) {
            final Change<?> change = (Change<?>) value;
            return object("new", of(change.newValue), "old", of(change.oldValue));
        }
        if (value instanceof ValueAndTimestamp) {
            final ValueAndTimestamp<?> stamped = (ValueAndTimestamp<?>) value;
            return object("value", of(stamped.value()), "ts", stamped.timestamp());
        }
        if (value instanceof ValueTimestampHeaders) {
            final ValueTimestampHeaders<?> stamped = (ValueTimestampHeaders<?>) value;
            return object("value", of(stamped.value()), "ts", stamped.timestamp());
        }
        if (value instanceof AggregationWithHeaders) {
            return of(((AggregationWithHeaders<?>) value).aggregation());
        }
        if (value instanceof KeyValue) {
            final KeyValue<?, ?> pair = (KeyValue<?, ?>) value;
            return object("key", of(pair.key), "value", of(pair.value));
        }
        if (value instanceof Object[]) {
            return of(Arrays.asList((Object[]) value));
        }
        if (value instanceof Iterable) {
            final List<Object> all = new ArrayList<>();
            ((Iterable<?>) value).forEach(one -> all.add(of(one)));
            return all;
        }
        return object("class", value.getClass().getName(), "text", value.toString());
    }

    /** As {@link #of(Object)}, but a value of a class of the test's own as the bytes that its serializer makes of it. */
    @SuppressWarnings("unchecked")
    static Object of(final Object value, final Serializer<?> serializer, final String topic) {
        final Object plain = of(value);
        return isOfUnknownClass(plain) ? of(((Serializer<Object>) serializer).serialize(topic, value)) : plain;
    }

    static boolean isOfUnknownClass(final Object json) {
        return json instanceof Map && ((Map<?, ?>) json).containsKey("class");
    }

    static void addHeaders(final Map<String, Object> event, final Headers headers) {
        final List<Object> all = new ArrayList<>();
        for (final Header header : headers) {
            all.add(Arrays.asList(header.key(), of(header.value())));
        }
        if (!all.isEmpty()) {
            event.put("headers", all);
        }
    }

    private static Map<String, Object> object(final String one, final Object first, final String other, final Object second) {
        final Map<String, Object> object = new LinkedHashMap<>();
        object.put(one, first);
        object.put(other, second);
        return object;
    }
}
