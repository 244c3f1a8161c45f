import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.ProcessorContext;

/** The scenario language's values and named functions, written once more in Java, from its description alone. */
@SuppressWarnings("rawtypes")
class Functions {
    /** Values as bytes: a long as eight of them, the first 0x00 or 0xff; a string as UTF-8. */
    public static class Variant extends Serdes.WrapperSerde<Object> {
        public Variant() {
            super(Functions::toBytes, Functions::fromBytes);
        }
    }

    // --- values ----------------------------------------------------------------------------------------------

    static byte[] toBytes(String topic, Object value) {
        if (value == null) return null;
        if (value instanceof Long) return ByteBuffer.allocate(8).putLong((Long) value).array();
        return ((String) value).getBytes(StandardCharsets.UTF_8);
    }

    static Object fromBytes(String topic, byte[] bytes) {
        if (bytes == null) return null;
        boolean isLong = bytes.length == 8 && (bytes[0] == 0 || bytes[0] == -1);
        return isLong ? (Object) ByteBuffer.wrap(bytes).getLong() : new String(bytes, StandardCharsets.UTF_8);
    }

    static int codePoints(String text) {
        return text.codePointCount(0, text.length());
    }

    static long num(Object value) {
        return value == null ? 0 : value instanceof Long ? (Long) value : codePoints((String) value);
    }

    static String str(Object value) {
        return value == null ? "null" : value.toString();
    }

    static String plain(Object key) {
        return key instanceof Windowed ? (String) ((Windowed) key).key() : (String) key;
    }

    // --- named functions -------------------------------------------------------------------------------------

    static String name(String function) {
        return function.split(":", 2)[0];
    }

    static String argument(String function) {
        return function.contains(":") ? function.split(":", 2)[1] : "";
    }

    static String field(Object value, String number) {
        String[] parts = str(value).split("\\|", -1);
        int n = Integer.parseInt(number);
        return n < parts.length && !parts[n].isEmpty() ? parts[n] : null;
    }

    static String prefix(Object value, String length) {
        String text = str(value);
        int n = Math.min(Integer.parseInt(length), codePoints(text));
        return n == 0 ? null : text.substring(0, text.offsetByCodePoints(0, n));
    }

    static String select(String function, Object key, Object value) {
        switch (name(function)) {
            case "key": return plain(key);
            case "key_window":
                if (!(key instanceof Windowed)) return (String) key;
                Window window = ((Windowed) key).window();
                return plain(key) + "@" + window.start() + "/" + window.end();
            case "const": return argument(function);
        }
        if (value == null) return null;
        switch (name(function)) {
            case "value": return str(value);
            case "field": return field(value, argument(function));
            case "prefix": return prefix(value, argument(function));
            case "mod": return Long.toString(Math.floorMod(num(value), Long.parseLong(argument(function))));
        }
        throw new IllegalStateException("selector " + function);
    }

    static boolean test(String function, Object key, Object value) {
        String argument = argument(function);
        if (function.startsWith("value_") && value == null) return false;
        switch (name(function)) {
            case "true": return true;
            case "false": return false;
            case "value_not_null": return true;
            case "value_even": return Math.floorMod(num(value), 2L) == 0;
            case "value_odd": return Math.floorMod(num(value), 2L) == 1;
            case "value_gt": return num(value) > Long.parseLong(argument);
            case "value_lt": return num(value) < Long.parseLong(argument);
            case "value_contains": return str(value).contains(argument);
            case "fail_on": return fails(num(value) == Long.parseLong(argument)) == null;
            case "key_eq": return argument.equals(plain(key));
            case "key_ne": return !argument.equals(plain(key));
        }
        throw new IllegalStateException("predicate " + function);
    }

    static Object map(String function, Object value) {
        String argument = argument(function);
        if (value == null) return null;
        switch (name(function)) {
            case "identity": return value;
            case "fail_on": return fails(num(value) == Long.parseLong(argument)) == null ? value : null;
            case "add": return num(value) + Long.parseLong(argument);
            case "mul": return num(value) * Long.parseLong(argument);
            case "mod": return Math.floorMod(num(value), Long.parseLong(argument));
            case "length": return (long) codePoints(str(value));
            case "to_string": return str(value);
            case "append": return str(value) + argument;
            case "prepend": return argument + str(value);
            case "field": return field(value, argument);
            case "null_if_even": return Math.floorMod(num(value), 2L) == 0 ? null : value;
            case "null_if_odd": return Math.floorMod(num(value), 2L) == 1 ? null : value;
        }
        throw new IllegalStateException("mapper " + function);
    }

    /** Null, or an exception. */
    static Object fails(boolean fails) {
        if (fails) throw new IllegalStateException("asked to fail");
        return null;
    }

    /** Gives strings; of a value that is looked up it knows neither topic nor offset. */
    static class Transformer implements ValueTransformerWithKey<Object, Object, Object> {
        final String function;
        ProcessorContext context;

        Transformer(String function) {
            this.function = function;
        }

        @Override
        public void init(ProcessorContext context) {
            this.context = context;
        }

        @Override
        public Object transform(Object key, Object value) {
            switch (name(function)) {
                case "tell": return plain(key) + "=" + str(value) + "@" + context.timestamp();
                case "from": return str(value) + " of " + context.topic() + ":" + context.offset();
                case "or": return value == null ? argument(function) : str(value);
                case "after": return context.timestamp() > Long.parseLong(argument(function)) ? str(value) : null;
            }
            throw new IllegalStateException("transformer " + function);
        }

        @Override
        public void close() {
        }
    }

    static Object reduce(String function, Object one, Object other) {
        switch (argument(function)) {
            case "first": return one;
            case "last": return other;
            case "concat": return str(one) + str(other);
            case "sum": return num(one) + num(other);
        }
        throw new IllegalStateException("reducer " + function);
    }

    static Object initial(String function) {
        if (name(function).equals("sum_but")) return 0L;
        return function.equals("concat") ? "" : function.equals("count") || function.equals("sum") ? (Object) 0L : null;
    }

    static Object add(String function, Object aggregate, Object value) {
        if (name(function).equals("sum_but")) {
            fails(num(value) == Long.parseLong(argument(function)));
            return (Long) aggregate + num(value);
        }
        switch (function) {
            case "count": return (Long) aggregate + 1;
            case "sum": return (Long) aggregate + num(value);
            case "min": return aggregate == null ? num(value) : Math.min((Long) aggregate, num(value));
            case "max": return aggregate == null ? num(value) : Math.max((Long) aggregate, num(value));
            case "concat": return aggregate + str(value) + ";";
        }
        throw new IllegalStateException("aggregate " + function);
    }

    static Object merge(String function, Object one, Object other) {
        if (one == null || other == null) return one == null ? other : one;
        switch (function) {
            case "min": return Math.min((Long) one, (Long) other);
            case "max": return Math.max((Long) one, (Long) other);
            case "concat": return (String) one + other;
        }
        return (Long) one + (Long) other;
    }

    // --- of grouped tables; sign is '+' for the adder, '-' for the subtractor ---------------------------------

    static Object change(String function, char sign, Object aggregate, Object value) {
        int one = sign == '+' ? 1 : -1;
        if (name(function).equals("sum_but")) {
            fails(num(value) == Long.parseLong(argument(function)));
            return (Long) aggregate + one * num(value);
        }
        switch (function) {
            case "count": return (Long) aggregate + one;
            case "sum": return (Long) aggregate + one * num(value);
            case "concat": return (String) aggregate + sign + str(value) + ";";
            case "reduce:first": return aggregate;
            case "reduce:last": return sign == '+' ? value : aggregate;
            case "reduce:concat": return str(aggregate) + sign + str(value);
            case "reduce:sum": return num(aggregate) + one * num(value);
        }
        throw new IllegalStateException("aggregate of a table " + function);
    }

    static Object join(String function, Object left, Object right) {
        if (name(function).equals("pair_but")) {
            fails(num(right) == Long.parseLong(argument(function)));
            return join("pair", left, right);
        }
        switch (function) {
            case "pair": return "(" + str(left) + "," + str(right) + ")";
            case "sum": return num(left) + num(right);
            case "left": return left;
            case "right": return right;
        }
        throw new IllegalStateException("joiner " + function);
    }
}
