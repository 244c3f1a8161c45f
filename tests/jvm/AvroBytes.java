import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;

/**
 * Bytes that Apache Avro's Java library writes, and what it reads from them with another schema. Of every line of the
 * input, a JSON object with "writer", "reader" and either "datum" (Avro's JSON encoding) or "bytes" (hexadecimal), one
 * line: "bytes" and either "value", again Avro's JSON encoding, or "error".
 */
public class AvroBytes {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            Schema writer = new Schema.Parser().parse(asked.get("writer").toString());
            Schema reader = new Schema.Parser().parse(asked.get("reader").toString());
            byte[] bytes = asked.has("bytes")
                ? HexFormat.of().parseHex(asked.get("bytes").asText())
                : written(writer, asked.get("datum").toString());
            ObjectNode said = JSON.createObjectNode().put("bytes", HexFormat.of().formatHex(bytes));
            try {
                said.set("value", JSON.readTree(read(writer, reader, bytes)));
            } catch (Exception | StackOverflowError error) {
                said.put("error", error.getClass().getSimpleName());
            }
            out.println(JSON.writeValueAsString(said));
        }
    }

    private static byte[] written(Schema schema, String datum) throws Exception {
        GenericDatumReader<Object> reader = new GenericDatumReader<>(schema);
        Object value = reader.read(null, DecoderFactory.get().jsonDecoder(schema, datum));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        new GenericDatumWriter<>(schema).write(value, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    private static String read(Schema writer, Schema reader, byte[] bytes) throws Exception {
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(bytes, null);
        Object value = new GenericDatumReader<>(writer, reader).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalStateException("bytes are left");
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(reader, out);
        new GenericDatumWriter<>(reader).write(value, encoder);
        encoder.flush();
        return out.toString(StandardCharsets.UTF_8);
    }
}
