import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Runs Apache Kafka's own transforms and predicates: one JSON document a line, one answer a line. */
public class TransformsOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer = asked.has("describe") ? described(asked.get("describe").asText()) : run(asked);
            answers.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.write(answers.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    static ObjectNode described(String name) throws Exception {
        Object made = Class.forName(name).getDeclaredConstructor().newInstance();
        ConfigDef definition = made instanceof Predicate
            ? ((Predicate<?>) made).config() : ((Transformation<?>) made).config();
        ArrayNode settings = JSON.createArrayNode();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            ObjectNode one = settings.addObject();
            one.put("name", key.name);
            one.put("kind", key.type.name());
            one.put("required", !key.hasDefault());
            one.put("default", key.hasDefault() && key.defaultValue != null
                ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            one.put("importance", key.importance.name());
            one.put("group", key.group);
            one.put("order", key.orderInGroup);
            one.put("width", key.width.name());
        }
        return JSON.createObjectNode().set("settings", settings);
    }

    @SuppressWarnings("unchecked")
    static ObjectNode run(JsonNode asked) throws Exception {
        Object made = Class.forName(asked.get("type").asText()).getDeclaredConstructor().newInstance();
        Map<String, String> config = new HashMap<>();
        asked.get("config").fields().forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
        try {
            ((Configurable) made).configure(config);
        } catch (Exception error) {
            return problem(error);
        }
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode record : asked.get("records")) {
            SinkRecord given = record(record);
            try {
                if (made instanceof Predicate) {
                    answers.add(((Predicate<SinkRecord>) made).test(given));
                } else {
                    answers.add(told(((Transformation<SinkRecord>) made).apply(given)));
                }
            } catch (Exception error) {
                answers.add(problem(error));
            }
        }
        return JSON.createObjectNode().set("answers", answers);
    }

    static ObjectNode problem(Exception error) {
        ObjectNode told = JSON.createObjectNode().put("error", error.getClass().getSimpleName());
        return told.put("message", String.valueOf(error.getMessage()));
    }

    static SinkRecord record(JsonNode told) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode one : told.get("headers")) {
            Schema schema = schema(one.get(1));
            headers.add(one.get(0).asText(), value(one.get(2), schema), schema);
        }
        Schema key = schema(told.get("key_schema"));
        Schema value = schema(told.get("value_schema"));
        return new SinkRecord(told.get("topic").asText(), told.get("partition").asInt(),
            key, value(told.get("key"), key), value, value(told.get("value"), value), told.get("offset").asLong(),
            told.get("timestamp").isNull() ? null : told.get("timestamp").asLong(), TimestampType.CREATE_TIME, headers);
    }

    static JsonNode told(SinkRecord record) {
        if (record == null) {
            return JSON.nullNode();
        }
        ObjectNode told = JSON.createObjectNode();
        told.put("topic", record.topic());
        told.put("partition", record.kafkaPartition());
        told.put("offset", record.kafkaOffset());
        told.put("timestamp", record.timestamp());
        told.set("key_schema", told(record.keySchema()));
        told.set("key", told(record.key()));
        told.set("value_schema", told(record.valueSchema()));
        told.set("value", told(record.value()));
        ArrayNode headers = told.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(told(header.schema())).add(told(header.value()));
        }
        return told;
    }

    static Schema schema(JsonNode told) {
        if (told == null || told.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(told.get("type").asText());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(told.get("values")));
            case MAP -> SchemaBuilder.map(schema(told.get("keys")), schema(told.get("values")));
            default -> SchemaBuilder.type(type);
        };
        if (told.get("optional").asBoolean()) {
            builder.optional();
        }
        if (!told.get("name").isNull()) {
            builder.name(told.get("name").asText());
        }
        if (!told.get("version").isNull()) {
            builder.version(told.get("version").asInt());
        }
        if (!told.get("doc").isNull()) {
            builder.doc(told.get("doc").asText());
        }
        told.get("parameters").fields().forEachRemaining(one -> builder.parameter(one.getKey(), one.getValue().asText()));
        for (JsonNode field : told.get("fields")) {
            builder.field(field.get(0).asText(), schema(field.get(1)));
        }
        if (!told.get("default").isNull()) {
            builder.defaultValue(value(told.get("default"), builder));
        }
        return builder.build();
    }

    static JsonNode told(Schema schema) {
        if (schema == null) {
            return JSON.nullNode();
        }
        ObjectNode told = JSON.createObjectNode();
        told.put("type", schema.type().name());
        told.put("optional", schema.isOptional());
        told.put("name", schema.name());
        told.put("version", schema.version());
        told.put("doc", schema.doc());
        ObjectNode parameters = told.putObject("parameters");
        if (schema.parameters() != null) {
            schema.parameters().forEach(parameters::put);
        }
        told.set("default", told(schema.defaultValue()));
        ArrayNode fields = told.putArray("fields");
        boolean isMap = schema.type() == Schema.Type.MAP;
        if (schema.type() == Schema.Type.STRUCT) {
            for (Field field : schema.fields()) {
                fields.addArray().add(field.name()).add(told(field.schema()));
            }
        }
        told.set("keys", isMap ? told(schema.keySchema()) : JSON.nullNode());
        told.set("values", isMap || schema.type() == Schema.Type.ARRAY ? told(schema.valueSchema()) : JSON.nullNode());
        return told;
    }

    static Object value(JsonNode told, Schema schema) {
        if (told.isNull()) {
            return null;
        }
        if (told.isTextual()) {
            return told.asText();
        }
        if (told.isBoolean()) {
            return told.asBoolean();
        }
        if (told.isIntegralNumber()) {
            return number(told.asLong(), schema);
        }
        if (told.isArray()) {
            List<Object> list = new ArrayList<>();
            told.forEach(one -> list.add(value(one, schema == null ? null : schema.valueSchema())));
            return list;
        }
        String kind = told.fieldNames().next();
        JsonNode held = told.get(kind);
        return switch (kind) {
            case "float" -> schema != null && schema.type() == Schema.Type.FLOAT32
                ? (Object) Float.valueOf(held.asText()) : (Object) Double.valueOf(held.asText());
            case "bytes" -> HexFormat.of().parseHex(held.asText());
            case "decimal" -> new BigDecimal(held.asText());
            case "date" -> new Date(held.asLong());
            default -> map(held, schema);
        };
    }

    static Object number(long number, Schema schema) {
        if (schema == null) {
            return number;
        }
        return switch (schema.type()) {
            case INT8 -> (Object) (byte) number;
            case INT16 -> (Object) (short) number;
            case INT32 -> (Object) (int) number;
            default -> (Object) number;
        };
    }

    static Object map(JsonNode held, Schema schema) {
        if (schema != null && schema.type() == Schema.Type.STRUCT) {
            Struct struct = new Struct(schema);
            for (JsonNode pair : held) {
                Field field = schema.field(pair.get(0).asText());
                struct.put(field, value(pair.get(1), field.schema()));
            }
            return struct;
        }
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : held) {
            map.put(value(pair.get(0), schema == null ? null : schema.keySchema()),
                value(pair.get(1), schema == null ? null : schema.valueSchema()));
        }
        return map;
    }

    static JsonNode told(Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        if (value instanceof Float || value instanceof Double) {
            return JSON.createObjectNode().put("float", Double.toString(((Number) value).doubleValue()));
        }
        if (value instanceof Number && !(value instanceof BigDecimal)) {
            return JSON.getNodeFactory().numberNode(((Number) value).longValue());
        }
        if (value instanceof BigDecimal) {
            return JSON.createObjectNode().put("decimal", ((BigDecimal) value).toPlainString());
        }
        if (value instanceof Boolean) {
            return JSON.getNodeFactory().booleanNode((Boolean) value);
        }
        if (value instanceof byte[]) {
            return JSON.createObjectNode().put("bytes", HexFormat.of().formatHex((byte[]) value));
        }
        if (value instanceof ByteBuffer) {
            return told(((ByteBuffer) value).array());
        }
        if (value instanceof Date) {
            return JSON.createObjectNode().put("date", ((Date) value).getTime());
        }
        if (value instanceof List) {
            ArrayNode list = JSON.createArrayNode();
            ((List<?>) value).forEach(one -> list.add(told(one)));
            return list;
        }
        ObjectNode told = JSON.createObjectNode();
        ArrayNode pairs = told.putArray("map");
        if (value instanceof Struct) {
            for (Field field : ((Struct) value).schema().fields()) {
                pairs.addArray().add(field.name()).add(told(((Struct) value).getWithoutDefault(field.name())));
            }
        } else if (value instanceof Map) {
            ((Map<?, ?>) value).forEach((key, one) -> pairs.addArray().add(told(key)).add(told(one)));
        } else {
            return JSON.getNodeFactory().textNode(value.toString());
        }
        return told;
    }
}
