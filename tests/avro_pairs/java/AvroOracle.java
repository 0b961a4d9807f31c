import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/**
 * Answers each line of JSON with one: {"writer", "reader", "value"} with what Apache Avro reads of the bytes (hex), and
 * {"schema"} with whether it takes the schema. A value that a column of Moldau does not have is a text with "!".
 */
public class AvroOracle {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
  private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay();
  private static final long LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();

  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      ObjectNode answer = JSON.objectNode();
      try {
        answer.set("value", answer(mapper.readTree(line)));
      } catch (Exception | StackOverflowError error) {
        answer.put("error", String.valueOf(error.getMessage()));
      }
      out.println(mapper.writeValueAsString(answer));
    }
  }

  private static JsonNode answer(JsonNode asked) throws Exception {
    if (asked.has("schema")) {
      new Schema.Parser().parse(asked.get("schema").asText());
      return JSON.booleanNode(true);
    }
    Schema writer = new Schema.Parser().parse(asked.get("writer").asText());
    Schema reader = new Schema.Parser().parse(asked.get("reader").asText());
    BinaryDecoder decoder =
        DecoderFactory.get().binaryDecoder(HexFormat.of().parseHex(asked.get("value").asText()), null);
    Object found = new GenericDatumReader<>(writer, reader, conversions()).read(null, decoder);
    if (!decoder.isEnd()) {
      throw new IllegalArgumentException("bytes stand behind the value");
    }
    return told(reader, found);
  }

  private static GenericData conversions() {
    GenericData data = new GenericData();
    data.setFastReaderEnabled(false); // it converts a value twice where the writer alone has a union (1.12.1)
    data.addLogicalTypeConversion(new Conversions.DecimalConversion());
    data.addLogicalTypeConversion(new Conversions.UUIDConversion());
    data.addLogicalTypeConversion(new TimeConversions.DateConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
    return data;
  }

  private static JsonNode told(Schema schema, Object value) {
    if (value == null) {
      return JSON.nullNode();
    }
    if (schema.getType() == Schema.Type.UNION) {
      return told(schema.getTypes().get(conversions().resolveUnion(schema, value)), value);
    }
    if (value instanceof IndexedRecord record) {
      ObjectNode found = JSON.objectNode();
      for (Schema.Field field : record.getSchema().getFields()) {
        found.set(field.name(), told(field.schema(), record.get(field.pos())));
      }
      return found;
    }
    if (value instanceof Collection<?> values) {
      ArrayNode found = JSON.arrayNode();
      values.forEach(one -> found.add(told(schema.getElementType(), one)));
      return found;
    }
    if (value instanceof Map<?, ?> values) {
      ObjectNode found = JSON.objectNode();
      values.forEach((key, one) -> found.set(key.toString(), told(schema.getValueType(), one)));
      return found;
    }
    return JSON.textNode(text(schema, value));
  }

  private static String text(Schema schema, Object value) {
    if (value instanceof Float number) {
      return "float " + Integer.toHexString(Float.floatToIntBits(number));
    }
    if (value instanceof Double number) {
      return "double " + Long.toHexString(Double.doubleToLongBits(number));
    }
    if (value instanceof ByteBuffer bytes) {
      byte[] copy = new byte[bytes.remaining()];
      bytes.duplicate().get(copy);
      return "bytes " + HexFormat.of().formatHex(copy);
    }
    if (value instanceof GenericFixed fixed) {
      return "bytes " + HexFormat.of().formatHex(fixed.bytes());
    }
    if (value instanceof BigDecimal number) {
      int precision = ((LogicalTypes.Decimal) schema.getLogicalType()).getPrecision();
      return number.precision() > precision ? "! decimal" : "decimal " + number.toPlainString();
    }
    if (value instanceof LocalDate day) {
      return within(day.toEpochDay()) + "date " + day.toEpochDay();
    }
    if (value instanceof LocalTime time) {
      return "time " + time.toNanoOfDay() / 1000;
    }
    if (value instanceof Instant moment) {
      return moment(moment, "timestamp ");
    }
    if (value instanceof LocalDateTime moment) {
      return moment(moment.toInstant(ZoneOffset.UTC), "local ");
    }
    if (value instanceof UUID id) {
      return "text " + id;
    }
    if (value instanceof Number || value instanceof Boolean) {
      return value.toString();
    }
    return (value.toString().indexOf('\uFFFD') < 0 ? "text " : "! no UTF-8 ") + value;
  }

  private static String moment(Instant moment, String name) {
    String far = within(Math.floorDiv(moment.getEpochSecond(), 86_400L));
    if (!far.isEmpty()) {
      return far + name;
    }
    return name + (moment.getEpochSecond() * 1_000_000L + moment.getNano() / 1000);
  }

  private static String within(long day) {
    return day < FIRST_DAY || day > LAST_DAY ? "! " : "";
  }
}
