import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Topologies that read windowed keys: "in TOPIC 0xKEY VALUE TIME" of the tape, then "out TOPIC KEY VALUE TIME".
 * A serde for changelogs cannot read what it wrote itself to a repartition topic, so there is none; and a sink of
 * windowed keys fails on a null one.
 */
public class WindowedKeys {
    static final Serde<String> STRING = Serdes.String();
    static final Serde<Windowed<String>> TIME = new WindowedSerdes.TimeWindowedSerde<>(STRING, 10);
    static final Serde<Windowed<String>> CHANGELOG = new WindowedSerdes.TimeWindowedSerde<>(STRING, 10).forChangelog(true);
    static final Serde<Windowed<String>> SESSION = new WindowedSerdes.SessionWindowedSerde<>(STRING);

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        for (String kind : new String[] {"time", "changelog", "session"}) {
            Serde<Windowed<String>> serde = kind.equals("time") ? TIME : kind.equals("session") ? SESSION : CHANGELOG;
            KStream<Windowed<String>, String> in = builder.stream(kind, Consumed.with(serde, STRING));
            KTable<Windowed<String>, String> table = builder.table(kind + "-table", Consumed.with(serde, STRING));
            in.groupByKey(Grouped.with(serde, STRING)).count().toStream().to(kind + "-counts", Produced.with(serde, Serdes.Long()));
            in.toTable(Materialized.with(serde, STRING)).filter((key, value) -> !value.equals("no")).toStream()
                .to(kind + "-to-table", Produced.with(serde, STRING));
            KStream<Windowed<String>, String> again = kind.equals("changelog") ? in : in.repartition(Repartitioned.with(serde, STRING));
            again.groupByKey(Grouped.with(serde, STRING)).reduce((one, other) -> one + other).toStream()
                .to(kind + "-reduced", Produced.with(serde, STRING));
            in.leftJoin(table, (left, right) -> left + "+" + right, Joined.with(serde, STRING, STRING))
                .to(kind + "-joined", Produced.with(serde, STRING));
            in.selectKey((key, value) -> key.key()).groupByKey(Grouped.with(STRING, STRING)).count().toStream()
                .to(kind + "-plain", Produced.with(STRING, Serdes.Long()));
        }
        Properties properties = new Properties();
        properties.put("application.id", "windowed-keys");
        properties.put("bootstrap.servers", "localhost:1");
        properties.put("state.dir", Files.createTempDirectory("windowed-keys").toString());
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("deserialization.exception.handler", "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler");
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties)) {
            play(driver, "time", new byte[0], new byte[0]);
            play(driver, "changelog", new byte[] {0, 0, 0, 1}, new byte[] {0, 0, 0, 2});
            play(driver, "session", null, null);
        }
    }

    static void play(TopologyTestDriver driver, String kind, byte[] one, byte[] other) {
        TestInputTopic<byte[], String> in = driver.createInputTopic(kind, new ByteArraySerializer(), new StringSerializer());
        TestInputTopic<byte[], String> table =
            driver.createInputTopic(kind + "-table", new ByteArraySerializer(), new StringSerializer());
        pipe(table, kind + "-table", key("a", 0, 5, one), "t", 1);
        pipe(in, kind, key("a", 0, 5, one), "x", 2);
        pipe(in, kind, key("a", 0, 5, other), "y", 3);
        pipe(in, kind, key("a", 10, 15, one), "z", 4);
        pipe(in, kind, key("b", 0, 5, one), "no", 5);
        pipe(in, kind, new byte[] {1, 2, 3}, "cut", 6);
        pipe(in, kind, key("a", -1, 5, one), "before", 7);
        pipe(table, kind + "-table", key("a", 0, 5, other), null, 8);
        pipe(in, kind, key("a", 0, 5, one), "w", 9);
        for (String topic : new String[] {"counts", "to-table", "reduced", "joined", "plain"}) {
            boolean isLong = topic.equals("counts") || topic.equals("plain");
            Deserializer<?> values = isLong ? new LongDeserializer() : new StringDeserializer();
            for (TestRecord<byte[], ?> record : driver.createOutputTopic(kind + "-" + topic, new ByteArrayDeserializer(), values).readRecordsToList()) {
                System.out.println("out " + kind + "-" + topic + " " + hex(record.key()) + " " + record.value() + " " + record.timestamp());
            }
        }
    }

    /** As a window store's changelog has it with a number behind, as a session's with its end before its start. */
    static byte[] key(String key, long start, long end, byte[] number) {
        ByteBuffer bytes = ByteBuffer.allocate(key.length() + (number == null ? 16 : 8 + number.length)).put(key.getBytes());
        return number == null ? bytes.putLong(end).putLong(start).array() : bytes.putLong(start).put(number).array();
    }

    static void pipe(TestInputTopic<byte[], String> topic, String name, byte[] key, String value, long time) {
        System.out.println("in " + name + " " + hex(key) + " " + value + " " + time);
        topic.pipeInput(key, value, time);
    }

    static String hex(byte[] data) {
        return data == null ? "null" : "0x" + java.util.HexFormat.of().formatHex(data);
    }
}
