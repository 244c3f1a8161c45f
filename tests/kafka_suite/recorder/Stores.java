import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.SessionStore;

/** Stores of a test driver: what they are, and what is in them. */
final class Stores {
    private Stores() { }

    static Map<String, Object> kinds(final TopologyTestDriver driver) {
        final Map<String, Object> kinds = new TreeMap<>();
        try {
            driver.getAllStateStores().forEach(
                (name, store) -> kinds.put(name, store == null ? "none" : store.getClass().getSimpleName()));
        } catch (final RuntimeException e) {
            kinds.put("unreadable", e.getClass().getName());
        }
        return kinds;
    }

    /** (key, value) of every row; null for a store that cannot be gone through. */
    static Object rows(final StateStore store) {
        try {
            if (store instanceof ReadOnlyKeyValueStore) {
                return read(((ReadOnlyKeyValueStore<?, ?>) store).all());
            }
            if (store instanceof ReadOnlyWindowStore) {
                return read(((ReadOnlyWindowStore<?, ?>) store).all());
            }
            if (store instanceof SessionStore) {
                return read(((SessionStore<?, ?>) store).fetch(null, null));
            }
        } catch (final RuntimeException e) {
            return Map.of("unreadable", e.getClass().getName());
        }
        return null;
    }

    private static List<Object> read(final KeyValueIterator<?, ?> all) {
        final List<Object> rows = new ArrayList<>();
        try (all) {
            while (all.hasNext()) {
                final KeyValue<?, ?> row = all.next();
                rows.add(Arrays.asList(Json.of(row.key), Json.of(row.value)));
            }
        }
        return rows;
    }
}
