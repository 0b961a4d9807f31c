import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Converts each line's value or bytes with Kafka Connect's converters; one answer a line. */
public final class ConverterOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter SCHEMAS = new JsonConverter();
    private static final long DAY_MS = 86_400_000L;

    public static void main(String[] arguments) throws Exception {
        SCHEMAS.configure(Map.of("schemas.enable", "true", "converter.type", "value"));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        out.flush();
    }

    private static ObjectNode answer(JsonNode asked) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            boolean isHeader = asked.get("role").asText().equals("header");
            Map<String, Object> settings = new HashMap<>();
            settings.put("converter.type", asked.get("role").asText());
            asked.get("settings").fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
            Object converter = Class.forName(asked.get("converter").asText()).getDeclaredConstructor().newInstance();
            if (isHeader) {
                ((HeaderConverter) converter).configure(settings);
            } else {
                ((Converter) converter).configure(settings, asked.get("role").asText().equals("key"));
            }
            byte[] payload;
            if (asked.has("read")) {
                payload = asked.get("read").isNull() ? null : Base64.getDecoder().decode(asked.get("read").asText());
            } else {
                Schema schema = SCHEMAS.asConnectSchema(asked.get("schema"));
                Object value = built(schema, asked.get("value"));
                payload = isHeader
                    ? ((HeaderConverter) converter).fromConnectHeader("t", "h", schema, value)
                    : ((Converter) converter).fromConnectData("t", schema, value);
                answer.put("payload", payload == null ? null : Base64.getEncoder().encodeToString(payload));
            }
            SchemaAndValue read = isHeader
                ? ((HeaderConverter) converter).toConnectHeader("t", "h", payload)
                : ((Converter) converter).toConnectData("t", payload);
            Schema schema = read == null ? null : read.schema();
            answer.set("schema", described(schema));
            answer.set("value", tagged(schema, read == null ? null : read.value()));
        } catch (Exception | StackOverflowError error) {
            answer.put("error", error.getClass().getSimpleName());
        }
        return answer;
    }

    /** A schema as JSON; an array or map of nulls has no schema of its values, which JsonConverter cannot write. */
    private static JsonNode described(Schema schema) {
        if (schema == null) {
            return JSON.nullNode();
        }
        if (schema.type() == Schema.Type.ARRAY && schema.valueSchema() == null) {
            return JSON.createObjectNode().put("type", "array");
        }
        if (schema.type() == Schema.Type.MAP && schema.valueSchema() == null) {
            ObjectNode map = JSON.createObjectNode().put("type", "map");
            map.set("keys", described(schema.keySchema()));
            return map;
        }
        if (schema.type() == Schema.Type.ARRAY) {
            ObjectNode array = JSON.createObjectNode().put("type", "array");
            array.put("optional", schema.isOptional());
            array.set("items", described(schema.valueSchema()));
            return array;
        }
        return SCHEMAS.asJsonSchema(schema);
    }

    private static Object built(Schema schema, JsonNode tagged) {
        if (tagged.isNull()) {
            return null;
        }
        Map.Entry<String, JsonNode> one = tagged.fields().next();
        JsonNode value = one.getValue();
        switch (one.getKey()) {
            case "boolean": return value.booleanValue();
            case "int8": return (byte) value.intValue();
            case "int16": return (short) value.intValue();
            case "int32": return value.intValue();
            case "int64": return value.longValue();
            case "float": return Float.valueOf(value.asText());
            case "double": return Double.valueOf(value.asText());
            case "string": return value.asText();
            case "bytes": return Base64.getDecoder().decode(value.asText());
            case "decimal": return new BigDecimal(value.asText());
            case "date": return new java.util.Date(value.longValue() * DAY_MS);
            case "time":
            case "timestamp": return new java.util.Date(value.longValue());
            case "array": {
                List<Object> list = new ArrayList<>();
                value.forEach(each -> list.add(built(schema == null ? null : schema.valueSchema(), each)));
                return list;
            }
            case "map": {
                Map<Object, Object> map = new LinkedHashMap<>();
                value.forEach(each -> map.put(
                    built(schema == null ? null : schema.keySchema(), each.get(0)),
                    built(schema == null ? null : schema.valueSchema(), each.get(1))));
                return map;
            }
            case "struct": {
                Struct struct = new Struct(schema);
                value.forEach(each -> {
                    Field field = schema.field(each.get(0).asText());
                    struct.put(each.get(0).asText(), built(field.schema(), each.get(1)));
                });
                return struct;
            }
            default: throw new IllegalArgumentException(one.getKey());
        }
    }

    private static JsonNode tagged(Schema schema, Object value) {
        ObjectNode node = JSON.createObjectNode();
        if (value == null) {
            return JSON.nullNode();
        } else if (value instanceof Boolean) {
            return node.put("boolean", (Boolean) value);
        } else if (value instanceof Byte) {
            return node.put("int8", (Byte) value);
        } else if (value instanceof Short) {
            return node.put("int16", (Short) value);
        } else if (value instanceof Integer) {
            return node.put("int32", (Integer) value);
        } else if (value instanceof Long) {
            return node.put("int64", (Long) value);
        } else if (value instanceof Float) {
            return node.put("float", Float.toString((Float) value));
        } else if (value instanceof Double) {
            return node.put("double", Double.toString((Double) value));
        } else if (value instanceof String) {
            return node.put("string", (String) value);
        } else if (value instanceof byte[]) {
            return node.put("bytes", Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof ByteBuffer) {
            return node.put("bytes", Base64.getEncoder().encodeToString(((ByteBuffer) value).array()));
        } else if (value instanceof BigDecimal) {
            return node.put("decimal", value.toString());
        } else if (value instanceof java.util.Date) {
            long milliseconds = ((java.util.Date) value).getTime();
            String[] parts = schema.name().split("\\.");
            String kind = parts[parts.length - 1].toLowerCase();
            return node.put(kind, kind.equals("date") ? milliseconds / DAY_MS : milliseconds);
        } else if (value instanceof Struct) {
            ArrayNode fields = node.putArray("struct");
            for (Field field : ((Struct) value).schema().fields()) {
                Object one = ((Struct) value).getWithoutDefault(field.name());
                fields.addArray().add(field.name()).add(tagged(field.schema(), one));
            }
        } else if (value instanceof List) {
            ArrayNode list = node.putArray("array");
            ((List<?>) value).forEach(one -> list.add(tagged(schema == null ? null : schema.valueSchema(), one)));
        } else {
            ArrayNode map = node.putArray("map");
            ((Map<?, ?>) value).forEach((key, one) -> map.addArray()
                .add(tagged(schema == null ? null : schema.keySchema(), key))
                .add(tagged(schema == null ? null : schema.valueSchema(), one)));
        }
        return node;
    }
}
