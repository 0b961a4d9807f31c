import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Answers a line for each cluster that it reads: a digit for each question, 1 for allowed. Fields end with tabs. */
public class AclOracle {
    record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    private static Asker asker(String principal, String host) throws Exception {
        int colon = principal.indexOf(':');
        KafkaPrincipal who = new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1));
        return new Asker(who, InetAddress.getByName(host));
    }

    private static char digit(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? '1' : '0';
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    public static void main(String[] words) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        StringBuilder answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "cluster" -> {
                    authorizer.configure(Map.of(
                        "super.users", field[1], "allow.everyone.if.no.acl.found", field[2], "node.id", "1"));
                    acls.clear();
                }
                case "acl" -> acls.put(new Uuid(7, acls.size()), new StandardAcl(
                    type(field[1]), field[2], PatternType.fromCode(Byte.parseByte(field[3])), field[4], field[5],
                    operation(field[6]), AclPermissionType.fromCode(Byte.parseByte(field[7]))));
                case "acls-end" -> {
                    authorizer.loadSnapshot(acls);
                    authorizer.completeInitialLoad();
                }
                case "one" -> {
                    ResourcePattern resource = new ResourcePattern(type(field[4]), field[5], PatternType.LITERAL);
                    Action action = new Action(operation(field[3]), resource, 1, false, false);
                    answers.append(digit(authorizer.authorize(asker(field[1], field[2]), List.of(action)).get(0)));
                }
                case "any" -> answers.append(digit(authorizer.authorizeByResourceType(
                    asker(field[1], field[2]), operation(field[3]), type(field[4]))));
                default -> {
                    output.println(answers);
                    output.flush();
                    answers.setLength(0);
                }
            }
        }
    }
}
