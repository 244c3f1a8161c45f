import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;

/** Kafka's own description of scenarios' topologies: JSON lines in, a JSON string each out, null for a refused one. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class DescribeScenarios {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Oracle oracle = new Oracle((ObjectNode) Oracle.JSON.readTree(line));
            System.out.println(Oracle.JSON.writeValueAsString(described(oracle)));
        }
    }

    static String described(Oracle oracle) throws Exception {
        ProcessorSupplier output = () -> (Processor) record -> oracle.forwarded.clear();
        try {
            return new Topologies(oracle, new StreamsConfig(oracle.settings())).build(output).describe().toString();
        } catch (Topologies.SpecException error) {
            throw error;
        } catch (RuntimeException error) {
            return null;
        }
    }
}
