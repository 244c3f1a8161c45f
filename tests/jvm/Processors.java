import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** The scenario language's processors, by name; each uses the first of its stores. */
@SuppressWarnings({"unchecked", "rawtypes"})
class Processors implements Processor<Object, Object, Object, Object> {
    final String function;
    final String[] names;
    ProcessorContext<Object, Object> context;
    KeyValueStore store;

    Processors(String function, String[] names) {
        this.function = function;
        this.names = names;
    }

    @Override
    public void init(ProcessorContext<Object, Object> context) {
        this.context = context;
        if (names.length > 0) store = context.getStateStore(names[0]);
        if (Functions.name(function).equals("tick")) {
            Duration every = Duration.ofMillis(Long.parseLong(Functions.argument(function)));
            context.schedule(every, PunctuationType.STREAM_TIME, this::tick);
        }
    }

    void tick(long time) {
        context.forward(new Record("tick", all() + "@" + time, time));
        store.put("tick", Long.toString(time));
    }

    @Override
    public void process(Record<Object, Object> record) {
        String value = Functions.str(record.value()), key = (String) record.key();
        if (key == null) {
            context.forward(record.withValue("no key"));
            return;
        }
        switch (Functions.name(function)) {
            case "around":
                context.forward(record.withValue("before " + text(store.get(key))));
                store.put(key, value);
                context.forward(record.withValue("after " + text(store.get(key))));
                return;
            case "append":
                store.put(key, (store.get(key) == null ? "" : text(store.get(key))) + value);
                context.forward(record.withValue(text(store.get(key))));
                return;
            case "read":
                context.forward(record.withValue(value + " sees " + text(store.get(key))));
                return;
            case "list":
                context.forward(record.withValue(value + " sees " + all()));
                return;
            case "range":
                String[] bounds = Functions.argument(function).split("-");
                String found = told(store.range(bounds[0], bounds[1])) + " " + told(store.reverseRange(bounds[0], bounds[1]));
                context.forward(record.withValue(found));
                return;
            case "remove":
                context.forward(record.withValue("removed " + text(store.delete(key))));
                return;
            case "absent":
                context.forward(record.withValue("had " + text(store.putIfAbsent(key, value))));
                return;
            case "twice":
                context.forward(record.withValue(value + "1"));
                context.forward(record.withKey(key + "'").withValue(value + "2").withTimestamp(record.timestamp() + 1));
                return;
            case "bump":
                store.put(key, record.value() == null ? null : ValueAndTimestamp.make(value + "!", record.timestamp() + 1));
                context.forward(record.withValue(text(store.get(key))));
                return;
            case "tick":
                context.forward(record.withValue(value));
                return;
        }
        throw new IllegalStateException("processor " + function);
    }

    String all() {
        return told(store.all());
    }

    static String told(KeyValueIterator<Object, Object> rows) {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.hasNext()) {
                KeyValue<Object, Object> row = rows.next();
                found.add(row.key + "=" + text(row.value));
            }
        }
        return "[" + String.join(" ", found) + "]";
    }

    static String text(Object found) {
        if (!(found instanceof ValueAndTimestamp)) return Functions.str(found);
        return Functions.str(((ValueAndTimestamp) found).value()) + "@" + ((ValueAndTimestamp) found).timestamp();
    }
}
