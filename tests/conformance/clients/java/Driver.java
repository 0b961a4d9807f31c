// Kafka's Java client behind the words of ../driven.py: JSON lines in, JSON lines out.
// java -cp LIBS Driver.java BOOTSTRAP                     answers requests until standard input closes
// java -cp LIBS Driver.java BOOTSTRAP member TOPIC GROUP  prints what it owns and reads, leaves when standard input closes

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static String bootstrap;
    static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        if (arguments.length > 1) {
            member(arguments[2], arguments[3]);
        } else {
            serve();
        }
    }

    static void tell(ObjectNode line) {
        synchronized (JSON) {
            System.out.println(line);
            System.out.flush();
        }
    }

    static void serve() throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", answer(JSON.readTree(line)));
            } catch (Exception error) {
                answer.put("error", String.valueOf(error.getCause() != null ? error.getCause() : error));
            }
            tell(answer);
        }
        System.exit(0);
    }

    static JsonNode answer(JsonNode asked) throws Exception {
        String topic = asked.path("topic").asText();
        switch (asked.get("operation").asText()) {
            case "produce":
                produce(asked, topic);
                return JSON.nullNode();
            case "read":
                return read(asked, topic);
            case "read_and_commit":
                return readAndCommit(asked, topic);
            case "transact":
                transact(asked, topic);
                return JSON.nullNode();
            case "fence":
                fence(topic, asked.get("name").asText());
                return JSON.nullNode();
            case "read_by_consumer_protocol":
                return readByConsumerProtocol(asked, topic);
            default:
                if (admin == null) {
                    admin = Admin.create(secured(Map.of("bootstrap.servers", bootstrap, "client.id", "java")));
                }
                return administer(asked, topic);
        }
    }

    /** With a login on SASL_SSL, where the environment names one. */
    static Map<String, Object> secured(Map<String, Object> settings) {
        var all = new HashMap<String, Object>(settings);
        String user = System.getenv("MOLDAU_CONFORMANCE_USER");
        if (user != null) {
            all.put("security.protocol", "SASL_SSL");
            all.put("ssl.truststore.type", "PEM");
            all.put("ssl.truststore.location", System.getenv("MOLDAU_CONFORMANCE_AUTHORITY"));
            all.put("sasl.mechanism", "SCRAM-SHA-512");
            all.put("sasl.jaas.config", String.format(
                    "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";",
                    user, System.getenv("MOLDAU_CONFORMANCE_PASSWORD")));
        }
        return all;
    }

    static void produce(JsonNode asked, String topic) throws Exception {
        Map<String, Object> settings = secured(Map.of(
                "bootstrap.servers", bootstrap, "client.id", "java", "compression.type", asked.get("codec").asText(),
                "max.request.size", 2_000_000));
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode one : asked.get("records")) {
                var record = new ProducerRecord<>(
                        topic, asked.get("partition").asInt(), bytes(one.get("key")), bytes(one.get("value")));
                for (JsonNode pair : one.get("headers")) {
                    record.headers().add(pair.get(0).asText(), bytes(pair.get(1)));
                }
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    static KafkaProducer<byte[], byte[]> transactional(String name) {
        Map<String, Object> settings = secured(Map.of(
                "bootstrap.servers", bootstrap, "client.id", "java", "transactional.id", name));
        var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    static void transact(JsonNode asked, String topic) throws Exception {
        try (var producer = transactional(asked.get("name").asText())) {
            producer.beginTransaction();
            for (JsonNode value : asked.get("values")) {
                producer.send(new ProducerRecord<>(topic, 0, null, value.asText().getBytes())).get();
            }
            if (asked.has("group")) {
                var place = new TopicPartition(asked.get("source").asText(), 0);
                producer.sendOffsetsToTransaction(
                        Map.of(place, new OffsetAndMetadata(asked.get("offset").asLong())),
                        new ConsumerGroupMetadata(asked.get("group").asText()));
            }
            if (asked.get("commit").asBoolean()) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
    }

    static void fence(String topic, String name) throws Exception {
        try (var first = transactional(name); var second = transactional(name)) {
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, null, "old".getBytes())).get();
            first.commitTransaction();
        }
    }

    static JsonNode readByConsumerProtocol(JsonNode asked, String topic) {
        Map<String, Object> settings = secured(Map.of(
                "bootstrap.servers", bootstrap, "client.id", "java", "auto.offset.reset", "earliest",
                "group.id", asked.get("group").asText(), "group.protocol", "consumer"));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            return collect(consumer, asked.get("count").asInt());
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group) {
        Map<String, Object> settings = secured(Map.of(
                "bootstrap.servers", bootstrap, "client.id", "java", "auto.offset.reset", "earliest",
                "enable.auto.commit", "false"));
        if (group != null) {
            settings.putAll(Map.of(
                    "group.id", group, "session.timeout.ms", "6000", "heartbeat.interval.ms", "500",
                    "enable.auto.commit", "true", "auto.commit.interval.ms", "200"));
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static JsonNode read(JsonNode asked, String topic) {
        try (var consumer = consumer(null)) {
            var partition = new TopicPartition(topic, asked.get("partition").asInt());
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            return collect(consumer, asked.get("count").asInt());
        }
    }

    static JsonNode readAndCommit(JsonNode asked, String topic) {
        int count = asked.get("count").asInt();
        Map<String, Object> settings = secured(Map.of(
                "bootstrap.servers", bootstrap, "client.id", "java", "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "group.id", asked.get("group").asText(), "max.poll.records", count));
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            JsonNode found = collect(consumer, count);
            consumer.commitSync();
            return found;
        }
    }

    static ArrayNode collect(KafkaConsumer<byte[], byte[]> consumer, int count) {
        ArrayNode found = JSON.createArrayNode();
        while (found.size() < count) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                if (found.size() == count) {
                    break;
                }
                ObjectNode one = found.addObject();
                one.put("key", text(record.key())).put("value", text(record.value()));
                ArrayNode headers = one.putArray("headers");
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(text(header.value()));
                }
            }
        }
        return found;
    }

    static JsonNode administer(JsonNode asked, String topic) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var partition = new TopicPartition(topic, asked.path("partition").asInt());
        switch (asked.get("operation").asText()) {
            case "add_partitions":
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(asked.get("total").asInt()))).all().get();
                return JSON.nullNode();
            case "partition_count":
                var described = admin.describeTopics(List.of(topic)).allTopicNames().get();
                return JSON.getNodeFactory().numberNode(described.get(topic).partitions().size());
            case "set_config":
                var entry = new ConfigEntry(asked.get("name").asText(), asked.get("value").asText());
                admin.incrementalAlterConfigs(
                        Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
                return JSON.nullNode();
            case "config":
                var config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
                return JSON.getNodeFactory().textNode(config.get(asked.get("name").asText()).value());
            case "delete_records":
                var deleted = admin.deleteRecords(
                        Map.of(partition, RecordsToDelete.beforeOffset(asked.get("offset").asLong())));
                return JSON.getNodeFactory().numberNode(deleted.lowWatermarks().get(partition).get().lowWatermark());
            case "groups":
                ArrayNode groups = JSON.createArrayNode();
                for (GroupListing group : admin.listGroups(new ListGroupsOptions()).all().get()) {
                    groups.add(group.groupId());
                }
                return groups;
            case "delete_group":
                admin.deleteConsumerGroups(List.of(asked.get("group").asText())).all().get();
                return JSON.nullNode();
            case "offset_at":
                var spec = OffsetSpec.forTimestamp(asked.get("timestamp").asLong());
                var found = admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
                return JSON.getNodeFactory().numberNode(found.offset());
            case "delete_topic":
                admin.deleteTopics(List.of(topic)).all().get();
                return JSON.nullNode();
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    static void member(String topic, String group) throws InterruptedException {
        var consumer = consumer(group);
        var leaving = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException ignored) {
                // the pipe is gone: leave as well
            }
            consumer.wakeup();
        });
        leaving.start();
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            private final TreeSet<Integer> owned = new TreeSet<>();

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> owned.remove(partition.partition()));
                tellOwned();
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> owned.add(partition.partition()));
                tellOwned();
            }

            private void tellOwned() {
                ObjectNode line = JSON.createObjectNode().put("event", "assigned");
                ArrayNode content = line.putArray("content");
                owned.forEach(content::add);
                tell(line);
            }
        });
        try {
            while (leaving.isAlive()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    tell(JSON.createObjectNode().put("event", "value").put("content", new String(record.value())));
                }
            }
        } catch (org.apache.kafka.common.errors.WakeupException expected) {
            // standard input has closed
        }
        consumer.close();
        System.exit(0);
    }

    static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
