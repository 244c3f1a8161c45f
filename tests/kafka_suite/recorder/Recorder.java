import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.ProcessorNode;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs test classes and writes a tape for each test driver that they make: one line of JSON.
 *
 * Arguments: the file to write, then the classes' names.
 */
public final class Recorder implements TestExecutionListener {
    private final PrintStream out;
    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, Integer> counts = new LinkedHashMap<>();

    private Recorder(final PrintStream out) {
        this.out = out;
    }

    public static void main(final String[] arguments) throws Exception {
        watch();
        final List<org.junit.platform.engine.DiscoverySelector> classes = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            classes.add(DiscoverySelectors.selectClass(arguments[i]));
        }
        try (PrintStream out = new PrintStream(Files.newOutputStream(Path.of(arguments[0])), false, StandardCharsets.UTF_8)) {
            final Recorder recorder = new Recorder(out);
            LauncherFactory.create().execute(
                LauncherDiscoveryRequestBuilder.request().selectors(classes).build(), recorder);
            System.out.println(recorder.counts);
        }
        System.exit(0);
    }

    /** Weave the calls of {@link Tape} into the test driver and the nodes of a topology. */
    private static void watch() {
        new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .type(ElementMatchers.is(TopologyTestDriver.class))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(Watched.Made.class).on(ElementMatchers.isConstructor().and(ElementMatchers.isPrivate())))
                .visit(Advice.to(Watched.Piped.class).on(ElementMatchers.named("pipeRecord").and(
                    ElementMatchers.takesArgument(1, org.apache.kafka.streams.test.TestRecord.class))))
                .visit(Advice.to(Watched.Advanced.class).on(ElementMatchers.named("advanceWallClockTime")))
                .visit(Advice.to(Watched.Captured.class).on(ElementMatchers.named("captureOutputsAndReEnqueueInternalResults")))
                .visit(Advice.to(Watched.Output.class).on(ElementMatchers.named("createOutputTopic")))
                .visit(Advice.to(Watched.Closed.class).on(ElementMatchers.named("close"))))
            .type(ElementMatchers.is(ProcessorNode.class))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(Watched.Received.class).on(ElementMatchers.named("process"))))
            .installOn(ByteBuddyAgent.install());
    }

    @Override
    public void executionStarted(final TestIdentifier test) {
        if (test.isTest()) {
            Tape.begin();
        }
    }

    @Override
    public void executionSkipped(final TestIdentifier test, final String reason) {
        counts.merge("skipped", 1, Integer::sum);
    }

    @Override
    public void executionFinished(final TestIdentifier test, final TestExecutionResult result) {
        if (!test.isTest()) {
            return;
        }
        counts.merge(result.getStatus().toString(), 1, Integer::sum);
        final MethodSource source = (MethodSource) test.getSource().orElseThrow();
        final List<Tape> tapes = Tape.made();
        final String method = source.getMethodName();
        final String shown = test.getDisplayName();
        final Map<String, Object> header = new LinkedHashMap<>();
        header.put("class", source.getClassName().replace("org.apache.kafka.streams.", ""));
        header.put("method", method);
        header.put("parameters", shown.startsWith(method) ? "" : shown);
        header.put("result", result.getStatus().toString());
        result.getThrowable().ifPresent(failure -> header.put("failure", String.valueOf(failure)));
        if (tapes.isEmpty()) {
            write(header);
        }
        for (int number = 0; number < tapes.size(); number++) {
            final Map<String, Object> line = new LinkedHashMap<>(header);
            line.put("driver", number);
            line.putAll(tapes.get(number).content());
            write(line);
        }
    }

    private void write(final Map<String, Object> line) {
        try {
            out.println(json.writeValueAsString(line));
        } catch (final Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
