import java.time.Duration;
import java.util.HexFormat;
import java.util.Properties;
import java.util.StringJoiner;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.test.TestRecord;

/** Dead letters of a step, of a processor below a repartition, of its punctuation, and of what cannot be read. */
public class DeadLetters {
    static class Careless extends ContextualProcessor<String, Long, String, Long> {
        @Override
        public void init(ProcessorContext<String, Long> context) {
            super.init(context);
            context.schedule(Duration.ofMillis(30), PunctuationType.STREAM_TIME, time -> {
                if (time >= 40) {
                    throw new IllegalStateException("odd");
                }
            });
        }

        @Override
        public void process(Record<String, Long> record) {
            if (record.value() == 7) {
                throw new IllegalStateException("seven");
            }
            context().forward(record);
        }
    }

    static long checked(long value) {
        if (value < 0) {
            throw new IllegalArgumentException("negative");
        }
        return value;
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes);
    }

    public static void main(String[] arguments) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("longs", Consumed.with(Serdes.String(), Serdes.Long()))
            .mapValues(value -> checked(value))
            .selectKey((key, value) -> value.toString())
            .repartition(Repartitioned.with(Serdes.String(), Serdes.Long()).withName("again"))
            .process(Careless::new)
            .to("out", Produced.with(Serdes.String(), Serdes.Long()));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        settings.put("deserialization.exception.handler", LogAndContinueExceptionHandler.class);
        settings.put("processing.exception.handler", LogAndContinueProcessingExceptionHandler.class);
        settings.put("errors.dead.letter.queue.topic.name", "letters");
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            TestInputTopic<String, Long> longs =
                driver.createInputTopic("longs", new StringSerializer(), new LongSerializer());
            TestInputTopic<byte[], byte[]> bytes =
                driver.createInputTopic("longs", new ByteArraySerializer(), new ByteArraySerializer());
            long[] values = {1, -2, 7, 3};
            for (int at = 0; at < values.length; at++) {
                RecordHeaders headers = new RecordHeaders();
                headers.add("h", "1".getBytes());
                longs.pipeInput(new TestRecord<>("k", values[at], headers, 10L * at));
            }
            bytes.pipeInput("k".getBytes(), "xx".getBytes(), 50L);
            longs.pipeInput("k", 5L, 60L);
            TestOutputTopic<byte[], byte[]> letters =
                driver.createOutputTopic("letters", new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (TestRecord<byte[], byte[]> letter : letters.readRecordsToList()) {
                StringJoiner said = new StringJoiner(" ");
                said.add(hex(letter.key())).add(hex(letter.value())).add(letter.timestamp().toString());
                for (Header header : letter.headers()) {
                    said.add(header.key() + "=" + hex(header.value()));
                }
                System.out.println(said);
            }
        }
    }
}
