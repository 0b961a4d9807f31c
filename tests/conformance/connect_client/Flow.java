// The flow of SourceLab's kafka-connect-client against a worker: java -cp JARS Flow.java URL
// Prints a line for each step; test_connect_client.py compares them.

import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigValidationResults;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorStatus;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorsWithExpandedMetadata;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.ConcurrentConfigModificationException;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.InvalidRequestException;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.ResourceNotFoundException;

public class Flow {
    static final String NAME = "made/of rows";
    static final String CLASS = "datagen";
    static final int TRIES = 600;
    static KafkaConnectClient client;

    public static void main(String[] arguments) throws Exception {
        client = new KafkaConnectClient(new Configuration(arguments[0]));
        tell("version", !client.getConnectServerVersion().getKafkaClusterId().isEmpty());
        tell("plugins", client.getConnectorPlugins().stream().anyMatch(
            one -> one.getClassName().equals(CLASS) && one.getType().equals("source") && !one.getVersion().isEmpty()));
        validate(Map.of("connector.class", CLASS, "topic", "made", "name", NAME));
        validate(Map.of("connector.class", CLASS, "topic", "made", "name", NAME, "limit", "few"));
        create();
        look();
        change();
        restart();
        errors();
        tell("delete", patiently(() -> client.deleteConnector(NAME)));
        tell("connectors", client.getConnectors());
    }

    static void validate(Map<String, String> config) {
        ConnectorPluginConfigValidationResults found = client.validateConnectorPluginConfig(
            ConnectorPluginConfigDefinition.newBuilder().withName(CLASS).withConfig(config).build());
        tell("validate", found.getErrorCount() + " " + found.getConfigs().stream()
            .filter(one -> !one.getValue().getErrors().isEmpty()).map(one -> one.getDefinition().getName()).toList());
    }

    static void create() throws Exception {
        NewConnectorDefinition made = NewConnectorDefinition.newBuilder().withName(NAME)
            .withConfig("connector.class", CLASS).withConfig("topic", "made").withConfig("rows.per.second", 0)
            .withConfig("limit", 20).withConfig("tasks.max", 2).build();
        tell("create", patiently(() -> client.addConnector(made)).getType());
        until("RUNNING", 2);
        tell("connectors", client.getConnectors());
    }

    static void look() throws Exception {
        tell("get", client.getConnector(NAME).getConfig().get("limit"));
        tell("config", new TreeMap<>(client.getConnectorConfig(NAME)));
        tell("tasks", client.getConnectorTasks(NAME).stream()
            .map(one -> one.getId() == null ? "none" : one.getConfig().get("part")).sorted().toList());
        tell("task status", client.getConnectorTaskStatus(NAME, 1).getState());
        ConnectorsWithExpandedMetadata all = client.getConnectorsWithAllExpandedMetadata();
        tell("expanded", all.getDefinitionForConnector(NAME).getTasks().size()
            + " " + all.getStatusForConnector(NAME).getTasks().size());
        tell("expanded info", client.getConnectorsWithExpandedInfo().getConnectorNames());
        tell("expanded status", client.getConnectorsWithExpandedStatus().getConnectorNames());
        for (int tries = 0; tries < TRIES && client.getConnectorTopics(NAME).getTopics().isEmpty(); tries++) {
            Thread.sleep(100);
        }
        tell("topics", client.getConnectorTopics(NAME).getTopics());
        tell("reset topics", client.resetConnectorTopics(NAME));
    }

    static void change() throws Exception {
        Map<String, String> config = new TreeMap<>(client.getConnectorConfig(NAME));
        config.put("limit", "30");
        tell("update", patiently(() -> client.updateConnectorConfig(NAME, config)).getConfig().get("limit"));
        until("RUNNING", 2);
        tell("pause", patiently(() -> client.pauseConnector(NAME)));
        until("PAUSED", 2);
        tell("resume", patiently(() -> client.resumeConnector(NAME)));
        until("RUNNING", 2);
    }

    static void restart() throws Exception {
        tell("restart", patiently(() -> client.restartConnector(NAME)));
        until("RUNNING", 2);
        tell("restart all", patiently(() -> client.restartConnector(
            new PostConnectorRestart(NAME).withIncludeTasks(true).withOnlyFailed(false))));
        until("RUNNING", 2);
        tell("restart task", patiently(() -> client.restartConnectorTask(NAME, 0)));
        until("RUNNING", 2);
    }

    static void errors() {
        try {
            client.getConnector("none");
        } catch (ResourceNotFoundException error) {
            tell("not found", error.getMessage());
        }
        try {
            patiently(() -> client.addConnector(NewConnectorDefinition.newBuilder().withName("wrong")
                .withConfig("connector.class", CLASS).withConfig("limit", "few").build()));
        } catch (InvalidRequestException error) {
            tell("invalid", error.getErrorCode());
        }
    }

    static void until(String state, int tasks) throws Exception {
        ConnectorStatus found = null;
        for (int tries = 0; tries < TRIES; tries++) {
            try {
                found = client.getConnectorStatus(NAME);
            } catch (ResourceNotFoundException error) {
                // not started yet
            }
            if (found != null && found.getConnector().get("state").equals(state) && found.getTasks().size() == tasks
                    && found.getTasks().stream().allMatch(one -> one.getState().equals(state))) {
                tell("status", state + " " + tasks);
                return;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("the connector is not " + state + ": " + found);
    }

    // A worker answers 409 during a rebalance.
    static <T> T patiently(Supplier<T> call) {
        for (int tries = 1; ; tries++) {
            try {
                return call.get();
            } catch (ConcurrentConfigModificationException error) {
                if (tries == TRIES) {
                    throw error;
                }
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    static void tell(String step, Object found) {
        System.out.println(step + ": " + found);
    }
}
