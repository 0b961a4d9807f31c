import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies the topic "source" to "target" with Flink's Kafka connectors, exactly once, until it is killed.
 *
 * Arguments: the broker's address, the directory of the checkpoints, and the checkpoint to go on from, if there is one.
 */
public class FlinkCopy {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "300 ms");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[1]);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        if (arguments.length > 2) {
            settings.setString("execution.state-recovery.path", arguments[2]);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(address)
                .setTopics("source")
                .setGroupId("flink")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(address)
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic("target")
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink")
                .setProperty("transaction.timeout.ms", "600000")
                .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        environment.execute("copy");
    }
}
