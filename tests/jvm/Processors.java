import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/** The scenario language's processors, by name; each uses the first of its stores. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Processors implements Processor<Object, Object, Object, Object> {
    final String function;
    final String[] names;
    ProcessorContext<Object, Object> context;
    KeyValueStore store;
    WindowStore windows;
    SessionStore sessions;
    VersionedKeyValueStore versions;

    Processors(String function, String[] names) {
        this.function = function;
        this.names = names;
    }

    @Override
    public void init(ProcessorContext<Object, Object> context) {
        this.context = context;
        if (names.length > 0) open(context.getStateStore(names[0]));
        if (Functions.name(function).equals("tick")) {
            Duration every = Duration.ofMillis(Long.parseLong(Functions.argument(function)));
            context.schedule(every, PunctuationType.STREAM_TIME, this::tick);
        }
        if (Functions.name(function).equals("expire")) {
            Duration every = Duration.ofMillis(Long.parseLong(Functions.argument(function)));
            context.schedule(every, PunctuationType.STREAM_TIME, time -> expire(every.toMillis(), time));
        }
        if (Functions.name(function).startsWith("clock")) {
            Duration every = Duration.ofMillis(Long.parseLong(Functions.argument(function)));
            context.schedule(every, PunctuationType.WALL_CLOCK_TIME, this::tick);
            if (Functions.name(function).equals("clocks")) {
                context.schedule(every, PunctuationType.STREAM_TIME, this::tick);
            }
        }
    }

    void open(Object found) {
        if (found instanceof WindowStore) windows = (WindowStore) found;
        else if (found instanceof SessionStore) sessions = (SessionStore) found;
        else if (found instanceof VersionedKeyValueStore) versions = (VersionedKeyValueStore) found;
        else store = (KeyValueStore) found;
    }

    void tick(long time) {
        context.forward(new Record("tick", all() + "@" + time, time));
        store.put("tick", Long.toString(time));
    }

    /** A tombstone of every key that has not been written for so long. */
    void expire(long after, long time) {
        List<KeyValue> old = new ArrayList<>();
        try (KeyValueIterator entries = store.all()) {
            while (entries.hasNext()) {
                KeyValue entry = (KeyValue) entries.next();
                if (time - Long.parseLong((String) entry.value) >= after) old.add(entry);
            }
        }
        for (KeyValue entry : old) {
            context.forward(new Record(entry.key, null, time));
            store.delete(entry.key);
        }
    }

    @Override
    public void process(Record<Object, Object> record) {
        String value = Functions.str(record.value()), key = (String) record.key();
        if (key != null && Functions.name(function).equals("twice")) {
            context.forward(record.withValue(value + "1"));
            context.forward(record.withKey(key + "'").withValue(value + "2").withTimestamp(record.timestamp() + 1));
            return;
        }
        Say say = (text, child) -> {
            if (child == null) context.forward(record.withValue(text));
            else context.forward(record.withValue(text), child);
        };
        process(key, record.value(), record.timestamp(), say);
    }

    interface Say {
        void to(String text, String child);
    }

    /** What it does with a record whose key stays; it says values. */
    void process(String key, Object given, long timestamp, Say say) {
        String value = Functions.str(given);
        if (key == null) {
            say.to("no key", null);
            return;
        }
        switch (Functions.name(function)) {
            case "wput":
                windows.put(key, timed(key, given == null ? null : value, timestamp + 1), timestamp);
                say.to(text(windows.fetch(key, timestamp)), null);
                return;
            case "wlook":
                long near = Long.parseLong(Functions.argument(function)), from = timestamp - near, to = timestamp + near;
                say.to(String.join(" ",
                    text(windows.fetch(key, timestamp)),
                    told(windows.fetch(key, from, to)), told(windows.backwardFetch(key, from, to)),
                    told(windows.fetch("a", "b", from, to)), told(windows.backwardFetch(null, "b", from, to)),
                    told(windows.fetchAll(from, to)), told(windows.backwardFetchAll(from, to)),
                    told(windows.all()), told(windows.backwardAll())), null);
                return;
            case "sput":
                String[] words = value.split(" ");
                long start = Math.max(timestamp - Long.parseLong(words[0]), 0);
                Windowed<Object> session = new Windowed<>(key, new SessionWindow(start, timestamp));
                String aggregate = words.length > 1 ? words[1] : null;
                if (aggregate != null && aggregate.equals("remove")) sessions.remove(session);
                else if (!Functions.argument(function).equals("headers")) sessions.put(session, aggregate);
                else sessions.put(session, AggregationWithHeaders.makeAllowNullable(aggregate, headers(key, aggregate)));
                say.to(text(sessions.fetchSession(key, start, timestamp)), null);
                return;
            case "slook":
                String[] options = Functions.argument(function).split("\\+");
                long around = Long.parseLong(options[0]), first = timestamp - around, last = timestamp + around;
                say.to(String.join(" ",
                    told(sessions.fetch(key)), told(sessions.backwardFetch(key)), told(sessions.fetch("a", "b")),
                    told(sessions.findSessions(key, first, last)), told(sessions.backwardFindSessions(key, first, last)),
                    told(sessions.findSessions("a", "b", first, last)),
                    told(sessions.backwardFindSessions("a", "b", first, last)))
                    + (options.length > 1 ? " " + told(sessions.findSessions(Math.max(first, 0), last)) : ""), null);
                return;
            case "vput":
                if (value.equals("delete")) {
                    say.to("deleted " + text(versions.delete(key, timestamp)), null);
                    return;
                }
                long answer = versions.put(key, given == null ? null : value, timestamp);
                say.to(answer + " " + text(versions.get(key)), null);
                return;
            case "vlook":
                List<String> found_ = new ArrayList<>(List.of(text(versions.get(key))));
                for (String time : value.split("\\+")) found_.add(text(versions.get(key, Long.parseLong(time))));
                say.to(String.join(" ", found_), null);
                return;
            case "tput":
                say.to("had " + text(store.get(key)), null);
                boolean has = Functions.argument(function).equals("headers");
                Object timed = has ? timed(key, value, timestamp + 1) : ValueAndTimestamp.make(value, timestamp + 1);
                store.put(key, given == null ? null : timed);
                say.to(all(), null);
                return;
            case "echo":
                say.to(Functions.argument(function) + ": " + value, null);
                return;
            case "route":
                String[] children = Functions.argument(function).split("\\+");
                say.to(value + " alone", children[Functions.codePoints(value) % children.length]);
                say.to(value + " for all", null);
                return;
            case "around":
                say.to("before " + text(store.get(key)), null);
                store.put(key, value);
                say.to("after " + text(store.get(key)), null);
                return;
            case "append":
                store.put(key, (store.get(key) == null ? "" : text(store.get(key))) + value);
                say.to(text(store.get(key)), null);
                return;
            case "read":
                say.to(value + " sees " + text(store.get(key)), null);
                return;
            case "list":
                say.to(value + " sees " + all(), null);
                return;
            case "range":
                String[] bounds = Functions.argument(function).split("-");
                String found = told(store.range(bounds[0], bounds[1])) + " " + told(store.reverseRange(bounds[0], bounds[1]));
                say.to(found, null);
                return;
            case "remove":
                say.to("removed " + text(store.delete(key)), null);
                return;
            case "absent":
                say.to("had " + text(store.putIfAbsent(key, value)), null);
                return;
            case "bump":
                store.put(key, given == null ? null : ValueAndTimestamp.make(value + "!", timestamp + 1));
                say.to(text(store.get(key)), null);
                return;
            case "expire":
                store.put(key, given == null ? null : Long.toString(timestamp));
                return;
            case "tick":
            case "clock":
            case "clocks":
                say.to(value, null);
                return;
        }
        throw new IllegalStateException("processor " + function);
    }

    /** The same where keys stay (KIP-820). */
    static class KeepingKeys implements FixedKeyProcessor<Object, Object, Object> {
        final Processors processors;
        FixedKeyProcessorContext<Object, Object> context;

        KeepingKeys(String function, String[] names) {
            processors = new Processors(function, names);
        }

        @Override
        public void init(FixedKeyProcessorContext<Object, Object> context) {
            this.context = context;
            if (processors.names.length > 0) processors.open(context.getStateStore(processors.names[0]));
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            Say say = (text, child) -> {
                if (child == null) context.forward(record.withValue(text));
                else context.forward(record.withValue(text), child);
            };
            processors.process(Functions.plain(record.key()), record.value(), record.timestamp(), say);
        }
    }

    /** As the argument says: with its time, with its headers too, or alone. */
    Object timed(String key, String value, long timestamp) {
        String argument = Functions.argument(function);
        if (value == null) return null;
        if (argument.equals("headers")) return ValueTimestampHeaders.make(value, timestamp, headers(key, value));
        return argument.equals("timed") ? ValueAndTimestamp.make(value, timestamp) : value;
    }

    /** None for "bare", else the key, and one without content. */
    static Headers headers(String key, String value) {
        if ("bare".equals(value)) return new RecordHeaders();
        return new RecordHeaders().add("by", key.getBytes(StandardCharsets.UTF_8)).add("none", null);
    }

    static String text(Headers headers) {
        List<String> found = new ArrayList<>();
        for (Header header : headers) {
            byte[] content = header.value();
            found.add(header.key() + ":" + (content == null ? "null" : new String(content, StandardCharsets.UTF_8)));
        }
        return "{" + String.join(",", found) + "}";
    }

    String all() {
        return told(store.all());
    }

    static String told(KeyValueIterator rows) {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.hasNext()) {
                KeyValue<Object, Object> row = (KeyValue) rows.next();
                found.add(name(row.key) + "=" + text(row.value));
            }
        }
        return "[" + String.join(" ", found) + "]";
    }

    static String name(Object key) {
        if (!(key instanceof Windowed)) return key.toString();
        Windowed<Object> windowed = (Windowed) key;
        return windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end();
    }

    static String text(VersionedRecord found) {
        if (found == null) return "none";
        return found.value() + "@" + found.timestamp() + "/" + (found.validTo().isPresent() ? found.validTo().get() : "");
    }

    static String text(Object found) {
        if (found instanceof ValueTimestampHeaders) {
            ValueTimestampHeaders<Object> timed = (ValueTimestampHeaders) found;
            return Functions.str(timed.value()) + "@" + timed.timestamp() + text(timed.headers());
        }
        if (found instanceof AggregationWithHeaders) {
            AggregationWithHeaders<Object> aggregate = (AggregationWithHeaders) found;
            return Functions.str(aggregate.aggregation()) + text(aggregate.headers());
        }
        if (!(found instanceof ValueAndTimestamp)) return Functions.str(found);
        return Functions.str(((ValueAndTimestamp) found).value()) + "@" + ((ValueAndTimestamp) found).timestamp();
    }
}
