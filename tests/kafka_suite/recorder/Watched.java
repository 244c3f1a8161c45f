import java.time.Duration;
import java.time.Instant;
import java.util.Properties;

import net.bytebuddy.asm.Advice;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.ProcessorNode;
import org.apache.kafka.streams.test.TestRecord;

/** What is woven into Kafka's classes: each place tells the tape of its test driver what happens there. */
public final class Watched {
    private Watched() { }

    public static final class Made {
        @Advice.OnMethodEnter
        public static void enter(@Advice.Argument(1) final Properties config) {
            if (Boolean.getBoolean("recorder.without.caches")) {
                config.put("statestore.cache.max.bytes", 0L);
            }
        }

        @Advice.OnMethodExit
        public static void exit(@Advice.This final TopologyTestDriver driver,
                                @Advice.Argument(0) final InternalTopologyBuilder builder,
                                @Advice.Argument(1) final Properties config,
                                @Advice.Argument(2) final long wallClockMs) {
            Tape.make(driver, builder, config, wallClockMs);
        }
    }

    public static final class Piped {
        @Advice.OnMethodEnter
        public static void enter(@Advice.This final TopologyTestDriver driver,
                                 @Advice.Argument(0) final String topic,
                                 @Advice.Argument(1) final TestRecord<?, ?> record,
                                 @Advice.Argument(2) final Serializer<?> key,
                                 @Advice.Argument(3) final Serializer<?> value,
                                 @Advice.Argument(4) final Instant time) {
            Tape.of(driver).piped(topic, record, key, value, time);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        public static void exit(@Advice.This final TopologyTestDriver driver, @Advice.Thrown final Throwable thrown) {
            Tape.of(driver).ended(thrown);
        }
    }

    public static final class Advanced {
        @Advice.OnMethodEnter
        public static void enter(@Advice.This final TopologyTestDriver driver, @Advice.Argument(0) final Duration by) {
            Tape.of(driver).advanced(by);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        public static void exit(@Advice.This final TopologyTestDriver driver, @Advice.Thrown final Throwable thrown) {
            Tape.of(driver).ended(thrown);
        }
    }

    public static final class Captured {
        @Advice.OnMethodEnter
        public static void enter(@Advice.This final TopologyTestDriver driver,
                                 @Advice.FieldValue("producer") final MockProducer<byte[], byte[]> producer) {
            Tape.of(driver).sent(producer.history());
        }
    }

    public static final class Output {
        @Advice.OnMethodEnter
        public static void enter(@Advice.This final TopologyTestDriver driver,
                                 @Advice.Argument(0) final String topic,
                                 @Advice.Argument(1) final Deserializer<?> key,
                                 @Advice.Argument(2) final Deserializer<?> value) {
            Tape.of(driver).reads(topic, key, value);
        }
    }

    public static final class Closed {
        @Advice.OnMethodEnter
        public static void enter(@Advice.This final TopologyTestDriver driver) {
            Tape.of(driver).close(driver);
        }
    }

    public static final class Received {
        @Advice.OnMethodEnter
        public static void enter(@Advice.This final ProcessorNode<?, ?, ?, ?> node,
                                 @Advice.Argument(0) final Record<?, ?> record) {
            Tape.received(node, record);
        }
    }
}
