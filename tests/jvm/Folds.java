import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The scenario language's folds of grouped tables, as an aggregate that a Kafka Streams developer would keep: the values
 * that are there, one behind the other as text, or two numbers. What a reader sees of it is read afterwards.
 */
class Folds {
    static final String END = "\u0001";

    static Object initial(String function) {
        switch (Functions.argument(function)) {
            case "count":
            case "sum": return 0L;
            case "mean": return "0/0";
        }
        return "";
    }

    static Object change(String function, char sign, Object aggregate, Object value) {
        int one = sign == '+' ? 1 : -1;
        switch (Functions.argument(function)) {
            case "count": return (Long) aggregate + one;
            case "sum": return (Long) aggregate + one * Functions.num(value);
            case "mean":
                String[] parts = ((String) aggregate).split("/");
                return (Long.parseLong(parts[0]) + one * Functions.num(value)) + "/" + (Long.parseLong(parts[1]) + one);
        }
        List<Object> values = values((String) aggregate);
        if (sign == '+') values.add(value);
        else values.stream().filter(kept -> taken(function, kept).equals(taken(function, value))).findFirst()
            .ifPresent(values::remove);
        return values.stream().map(v -> (v instanceof Long ? "L" : "S") + v + END).collect(Collectors.joining());
    }

    /** What the fold takes of a value: values that agree in it cannot be told apart. */
    static Object taken(String function, Object value) {
        switch (Functions.argument(function)) {
            case "min":
            case "max": return Functions.num(value);
            case "any_even": return Functions.test("value_even", null, value);
            case "least":
            case "top2": return List.of(Functions.num(value), Functions.str(value));
        }
        return Functions.str(value);
    }

    static List<Object> values(String bag) {
        List<Object> values = new ArrayList<>();
        int end;
        for (int at = 0; at < bag.length(); at = end + 1) {
            end = bag.indexOf(END, at);
            String text = bag.substring(at + 1, end);
            values.add(bag.charAt(at) == 'L' ? (Object) Long.parseLong(text) : text);
        }
        return values;
    }

    static Object read(String function, Object aggregate) {
        String name = Functions.argument(function);
        if (aggregate == null || name.equals("count") || name.equals("sum")) return aggregate;
        if (name.equals("mean")) {
            String[] parts = ((String) aggregate).split("/");
            double sum = Long.parseLong(parts[0]), count = Long.parseLong(parts[1]);
            return count > 0 ? (Object) (long) Math.floor(sum / count) : null;
        }
        List<Object> values = values((String) aggregate);
        Comparator<Object> byNumber = Comparator.comparingLong(Functions::num);
        Function<Object, String> text = value -> Functions.str(value) + ";";
        switch (name) {
            case "min": return values.stream().map(Functions::num).min(Comparator.naturalOrder()).orElse(null);
            case "max": return values.stream().map(Functions::num).max(Comparator.naturalOrder()).orElse(null);
            case "collect": return values.stream().map(text).collect(Collectors.joining());
            case "distinct": return (long) values.stream().map(Functions::str).collect(Collectors.toCollection(HashSet::new)).size();
            case "any_even": return Boolean.toString(values.stream().anyMatch(v -> Functions.test("value_even", null, v)));
            case "least": return values.stream().sorted(byNumber).map(Functions::str).findFirst().orElse(null);
            case "top2": return values.stream().sorted(byNumber.reversed()).limit(2).map(text).collect(Collectors.joining());
        }
        throw new IllegalStateException("fold " + function);
    }
}
