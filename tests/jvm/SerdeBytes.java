import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** What Kafka's serdes write, and what they read: a line a case, "written NAME HEX" or "read NAME HEX VALUE". */
public class SerdeBytes {
    private static final UUID ONE = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");

    public static void main(String[] arguments) {
        written("short", Serdes.Short(), (short) -2);
        written("short-largest", Serdes.Short(), Short.MAX_VALUE);
        written("float", Serdes.Float(), 0.1f);
        written("float-nan", Serdes.Float(), Float.NaN);
        written("float-infinite", Serdes.Float(), Float.NEGATIVE_INFINITY);
        written("uuid", Serdes.UUID(), ONE);
        written("void", Serdes.Void(), null);
        written("byte_buffer", Serdes.ByteBuffer(), ByteBuffer.wrap(new byte[] {0, -1, 16}));
        written("byte_buffer-empty", Serdes.ByteBuffer(), ByteBuffer.wrap(new byte[0]));
        written("list-short", list(Serdes.Short()), Arrays.asList((short) 1, null, (short) -1, null));
        written("list-int", list(Serdes.Integer()), List.of(7));
        written("list-long", list(Serdes.Long()), List.of());
        written("list-float", list(Serdes.Float()), Arrays.asList(0.5f, null));
        written("list-double", list(Serdes.Double()), List.of(1.5, -0.0));
        written("list-uuid", list(Serdes.UUID()), Arrays.asList(null, ONE));
        written("list-string", list(Serdes.String()), Arrays.asList("a", "", null, "ä"));
        written("list-boolean", list(Serdes.Boolean()), List.of(true, false));
        written("list-list-int", list(list(Serdes.Integer())), Arrays.asList(List.of(1, 2), null, List.of()));
        Windowed<String> time = new Windowed<>("ab", new TimeWindow(5, 15));
        written("time_windowed", new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 10), time);
        written("time_windowed-empty", new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 10),
            new Windowed<>("", new TimeWindow(0, 10)));
        byte[] stored = WindowKeySchema.toStoreKeyBinary(new Windowed<>(Bytes.wrap("ab".getBytes()), time.window()), 3).get();
        print("written", "time_windowed-changelog", stored, "");
        Windowed<Long> session = new Windowed<>(7L, new SessionWindow(5, 6));
        written("session_windowed", new WindowedSerdes.SessionWindowedSerde<>(Serdes.Long()), session);

        read("uuid-upper", Serdes.UUID(), "01234567-89AB-CDEF-0123-456789ABCDEF".getBytes());
        read("uuid-short", Serdes.UUID(), "1-2-3-4-5".getBytes());
        read("uuid-wide", Serdes.UUID(), "1234567890-12345-2-3-4".getBytes());
        read("uuid-four-parts", Serdes.UUID(), "1-2-3-4".getBytes());
        read("uuid-six-parts", Serdes.UUID(), "1-2-3-4-5-6".getBytes());
        read("uuid-no-hex", Serdes.UUID(), "g-2-3-4-5".getBytes());
        read("uuid-too-wide", Serdes.UUID(), "8000000000000000-2-3-4-5".getBytes());
        read("uuid-too-long", Serdes.UUID(), "01234567-89ab-cdef-0123-456789abcdef0".getBytes());
        read("uuid-empty", Serdes.UUID(), new byte[0]);
        read("short-cut", Serdes.Short(), new byte[1]);
        read("float-cut", Serdes.Float(), new byte[3]);
        read("void-bytes", Serdes.Void(), new byte[0]);
        read("list-int-cut", list(Serdes.Integer()), new byte[] {0, 0, 0, 0, 0, 0, 0, 0, 1});
        read("list-int-with-sizes", list(Serdes.Integer()), new byte[] {1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9});
        read("list-int-more-behind", list(Serdes.Integer()), new byte[] {0, 0, 0, 0, 0, 0, 0, 0, 0, 5});
        read("list-int-null-twice", list(Serdes.Integer()),
            new byte[] {0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 9});
        read("list-string-without-sizes", list(Serdes.String()), new byte[] {0, 0, 0, 0, 0, 0, 0, 0, 1, 'a'});
        read("list-string-flag", list(Serdes.String()), new byte[] {2, 0, 0, 0, 0});
        read("list-string-negative", list(Serdes.String()), new byte[] {1, -1, -1, -1, -1});
        read("list-string-entry-negative", list(Serdes.String()), new byte[] {1, 0, 0, 0, 1, -1, -1, -1, -2});
        read("list-empty", list(Serdes.String()), new byte[0]);
        read("time_windowed-cut", new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 10), new byte[7]);
        read("session_windowed-cut", new WindowedSerdes.SessionWindowedSerde<>(Serdes.String()), new byte[15]);
        read("time_windowed-last", new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 10),
            ByteBuffer.allocate(9).put((byte) 'a').putLong(Long.MAX_VALUE - 5).array());
        read("time_windowed-changelog", new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 10).forChangelog(true), stored);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static <T> Serde<List<T>> list(Serde<T> inner) {
        return (Serde) Serdes.ListSerde((Class) ArrayList.class, inner);
    }

    private static <T> void written(String name, Serde<T> serde, T value) {
        print("written", name, serde.serializer().serialize("topic", value), "");
    }

    private static <T> void read(String name, Serde<T> serde, byte[] data) {
        String value;
        try {
            value = " " + serde.deserializer().deserialize("topic", data);
        } catch (RuntimeException refusal) {
            value = " refused";
        }
        print("read", name, data, value);
    }

    private static void print(String what, String name, byte[] data, String more) {
        System.out.println(what + " " + name + " " + (data == null ? "null" : "0x" + HexFormat.of().formatHex(data)) + more);
    }
}
