"""Cases that compare Kafka's own tools with ours: command lines in order, each case with its own names.

Some command lines are the test's own: `produce TOPIC N` writes N records to partition 0, `join GROUP TOPIC` keeps a
member in the group until the case ends, `transact ID TOPIC N` leaves a transaction open that wrote N records to each of
two partitions, `write-log FOLDER` writes the files of a log, `until NAME VALUE` waits until a setting is in effect at
the broker. In a command line `{p}` is a unique prefix of the run, `{b}` the bootstrap server, `{tmp}` a scratch folder.
"""

from __future__ import annotations

from tests.conformance.kafka_tools.cluster_cases import CLUSTER
from tests.conformance.kafka_tools.dump_cases import DUMPS
from tests.conformance.kafka_tools.formatter_cases import FORMATTERS
from tests.conformance.kafka_tools.partition_cases import PARTITIONS, partition_files
from tests.conformance.kafka_tools.perf_cases import PERFORMANCE
from tests.conformance.kafka_tools.spelling_cases import SPELLINGS
from tests.conformance.kafka_tools.step import Step
from tests.conformance.kafka_tools.storage_cases import STORAGE, node_files
from tests.conformance.kafka_tools.token_cases import TOKENS


def files() -> dict[str, str]:
    """Files that command lines name as {tmp}/name; in their text `{p}` is the prefix, `{tmp}` the folder."""
    return {
        "topics.json": '{"version":1,"topics":[{"topic":"{p}t"}]}',
        "moves.json": '{"version":1,"partitions":[{"topic":"{p}t","partition":0,"replicas":[1]},'
        '{"topic":"{p}t","partition":1,"replicas":[1]}]}',
        "moves-elsewhere.json": '{"version":1,"partitions":[{"topic":"{p}t","partition":0,"replicas":[1,2]}]}',
        "moves-dir.json": (
            '{"version":1,"partitions":[{"topic":"{p}t","partition":0,"replicas":[1],"log_dirs":["/none"]}]}'
        ),
        "elect.json": '{"partitions":[{"topic":"{p}t","partition":0},{"topic":"{p}t","partition":1}]}',
        "elect-twice.json": '{"partitions":[{"topic":"{p}t","partition":0},{"topic":"{p}t","partition":0}]}',
        "not.json": "{nonsense",
        "offsets.csv": "{p}t,0,2\n{p}t,1,0\n",
        "negative.csv": "{p}t,0,-5\n",
        "client.properties": "client.id=tools\nrequest.timeout.ms=20000\n",
        "settings.properties": "retention.ms=1234\ncleanup.policy=compact,delete\n",
        **node_files(),
        **partition_files(),
    }


_CREATE = "kafka-topics --bootstrap-server {b} --create --topic {p}t"
_TOPICS = "kafka-topics --bootstrap-server {b}"

TOPICS: dict[str, tuple[Step, ...]] = {
    "topics-common-flags": (
        Step("kafka-topics"),
        Step("kafka-topics --help"),
        Step("kafka-topics --version"),
        Step(f"{_TOPICS} --foo", says=True),
        Step(f"{_TOPICS} --lis", says=True),
        Step(f"{_TOPICS} --list --topic", says=True),
        Step("kafka-topics --list", says=True),
        Step(f"{_TOPICS}", says=True),
        Step(f"{_TOPICS} --list --create", says=True),
        Step(f"{_TOPICS} --create", says=True),
        Step(f"{_TOPICS} --delete", says=True),
        Step(f"{_TOPICS} --alter --partitions 3", says=True),
        Step(f"{_TOPICS} --alter --topic a", says=True),
        Step(f"{_TOPICS} --alter --topic a --partitions 3 --config a=b"),
        Step(f"{_TOPICS} --list --partitions 2", says=True),
        Step(f"{_TOPICS} --create --topic x --if-exists", says=True),
        Step(f"{_TOPICS} --describe --topic x --if-not-exists", says=True),
        Step(f"{_TOPICS} --delete --topic x --exclude-internal", says=True),
        Step(f"{_TOPICS} --describe --if-exists", says=True),
        Step(f"{_TOPICS} --create --topic x --replica-assignment 1 --partitions 2", says=True),
        Step(f"{_TOPICS} --describe --unavailable-partitions --topics-with-overrides", says=True),
        Step(f"{_TOPICS} --list --topics-with-overrides", says=True),
        Step(f"{_TOPICS} --topic a --topic b --list"),
        Step(f"{_TOPICS} --list --topic={{p}}none --delete-config x", says=True),
        Step(f"{_TOPICS} --list --topic {{p}}none --command-config {{tmp}}/client.properties"),
    ),
    "topics-create": (
        Step(f"{_CREATE} --partitions 3 --replication-factor 1"),
        Step(f"{_CREATE}"),
        Step(f"{_CREATE} --if-not-exists"),
        Step(
            f"{_TOPICS} --create --topic {{p}}.dots_ --partitions 2 --config flush.messages=7 --config retention.ms=5"
        ),
        Step(f"{_TOPICS} --create --topic {{p}}_dots."),
        Step(f"{_TOPICS} --create --topic {{p}}assigned --replica-assignment 1,1"),
        Step(f"{_TOPICS} --create --topic {{p}}x --replica-assignment 1:1,1"),
        Step(f"{_TOPICS} --create --topic {{p}}x --replica-assignment 9"),
        Step(f"{_TOPICS} --create --topic {{p}}x --partitions 0"),
        Step(f"{_TOPICS} --create --topic {{p}}x --partitions x"),
        Step(f"{_TOPICS} --create --topic {{p}}x --replication-factor 2", is_quiet=True),
        Step(f"{_TOPICS} --create --topic {{p}}x --replication-factor 40000"),
        Step(f"{_TOPICS} --create --topic {{p}}x --config foo=bar"),
        Step(f"{_TOPICS} --create --topic {{p}}x --config foo"),
        Step(f"{_TOPICS} --create --topic {{p}}x --config retention.ms=abc"),
        Step(f"{_TOPICS} --create --topic {{p}}x --config retention.ms=1,flush.ms=2"),
        Step(f"{_TOPICS} --create --topic {{p}}bad$name"),
        Step(f"{_TOPICS} --create --topic {{p}}extra and words"),
        Step(f"{_TOPICS} --list --topic {{p}}.*"),
    ),
    "topics-describe": (
        Step(f"{_CREATE} --partitions 2 --config retention.ms=5 --config flush.messages=7", is_quiet=True),
        Step(f"{_TOPICS} --create --topic {{p}}u", is_quiet=True),
        Step(f"{_TOPICS} --describe --topic {{p}}t"),
        Step(f"{_TOPICS} --describe --topic {{p}}.", is_sorted=True),
        Step(f"{_TOPICS} --describe --topic {{p}}u,{{p}}t", is_sorted=True),
        Step(f"{_TOPICS} --describe --topic {{p}}none"),
        Step(f"{_TOPICS} --describe --topic {{p}}none.* --if-exists"),
        Step(f"{_TOPICS} --describe --topic {{p}}t --topics-with-overrides"),
        Step(f"{_TOPICS} --describe --topic {{p}}t --exclude-internal"),
        Step(f"{_TOPICS} --describe --topic {{p}}. --under-replicated-partitions"),
        Step(f"{_TOPICS} --describe --topic {{p}}. --under-min-isr-partitions"),
        Step(f"{_TOPICS} --describe --topic {{p}}. --unavailable-partitions"),
        Step(f"{_TOPICS} --describe --topic {{p}}t --at-min-isr-partitions --under-replicated-partitions"),
        Step(f"{_TOPICS} --describe --topic {{p}}t --partition-size-limit-per-response 1"),
        Step(f"{_TOPICS} --describe --topic-id AAAAAAAAAAAAAAAAAAAAmw"),
        Step(f"{_TOPICS} --describe --topic-id AAAAAAAAAAAAAAAAAAAAmw --if-exists"),
        Step(f"{_TOPICS} --describe --topic-id xx"),
    ),
    "topics-list": (
        Step(f"{_CREATE}", is_quiet=True),
        Step(f"{_TOPICS} --list", only_own=True),
        Step(f"{_TOPICS} --list --exclude-internal", only_own=True),
        Step(f"{_TOPICS} --list --topic {{p}}t"),
        Step(f"{_TOPICS} --list --topic {{p}}none"),
    ),
    "topics-alter-and-delete": (
        Step(f"{_CREATE}", is_quiet=True),
        Step(f"{_TOPICS} --alter --topic {{p}}t --partitions 3"),
        Step(f"{_TOPICS} --alter --topic {{p}}t --partitions 3"),
        Step(f"{_TOPICS} --alter --topic {{p}}t --partitions 2"),
        Step(f"{_TOPICS} --alter --topic {{p}}t --partitions 5 --replica-assignment 1,1"),
        Step(f"{_TOPICS} --alter --topic {{p}}t --partitions 5 --replica-assignment 1,1,1,1,1"),
        Step(f"{_TOPICS} --create --topic {{p}}x --config segment.bytes="),
        Step(f"{_TOPICS} --alter --topic {{p}}none --partitions 3"),
        Step(f"{_TOPICS} --alter --topic {{p}}none --partitions 3 --if-exists"),
        Step(f"{_TOPICS} --describe --topic {{p}}t"),
        Step(f"{_TOPICS} --create --topic {{p}}u", is_quiet=True),
        Step(f"{_TOPICS} --delete --topic {{p}}none"),
        Step(f"{_TOPICS} --delete --topic {{p}}none --if-exists"),
        Step(f"{_TOPICS} --delete --topic {{p}}[tu]|zz"),
        Step(f"{_TOPICS} --list --topic {{p}}."),
    ),
}

_GROUPS = "kafka-consumer-groups --bootstrap-server {b}"
_RESET = f"{_GROUPS} --reset-offsets --group {{p}}g"
_FILLED = (
    Step(f"{_TOPICS} --create --topic {{p}}t --partitions 2", is_quiet=True),
    Step("produce {p}t 5", is_quiet=True),
)

GROUPS: dict[str, tuple[Step, ...]] = {
    "groups-common-flags": (
        Step("kafka-consumer-groups"),
        Step("kafka-consumer-groups --version"),
        Step("kafka-consumer-groups --list", says=True),
        Step(_GROUPS, says=True),
        Step(f"{_GROUPS} --list --foo"),
        Step(f"{_GROUPS} --list --group a", says=True),
        Step(f"{_GROUPS} --list --members"),
        Step(f"{_GROUPS} --list --state foo"),
        Step(f"{_GROUPS} --list --type foo"),
        Step(f"{_GROUPS} --list --timeout x"),
        Step(f"{_GROUPS} --describe"),
        Step(f"{_GROUPS} --describe --group a --members --state"),
        Step(f"{_GROUPS} --describe --group a --topic b", says=True),
        Step(f"{_GROUPS} --describe --group {{p}}none"),
        Step(f"{_GROUPS} --describe --group {{p}}none --members"),
        Step(f"{_GROUPS} --describe --group {{p}}none --state"),
        Step(f"{_GROUPS} --delete"),
        Step(f"{_GROUPS} --delete --group a --topic b", says=True),
        Step(f"{_GROUPS} --delete-offsets --group a"),
        Step("kafka-consumer-groups --validate-regex a.*b"),
        Step("kafka-consumer-groups --validate-regex a("),
        Step("kafka-consumer-groups --validate-regex a[b"),
        Step(f"{_GROUPS} --reset-offsets --group a --to-earliest", says=True),
        Step(f"{_GROUPS} --reset-offsets --group a --topic b", says=True),
        Step(f"{_GROUPS} --reset-offsets --to-earliest --topic b --dry-run"),
        Step(f"{_GROUPS} --reset-offsets --group a --to-earliest --to-latest --topic b --dry-run", says=True),
        Step(f"{_GROUPS} --reset-offsets --group a --to-earliest --topic b --dry-run --execute", says=True),
    ),
    "groups-reset": (
        *_FILLED,
        Step(f"{_RESET} --to-earliest --topic {{p}}t --execute", is_sorted=True),
        Step(f"{_GROUPS} --describe --group {{p}}g"),
        Step(f"{_GROUPS} --describe --group {{p}}g --offsets --verbose"),
        Step(f"{_GROUPS} --describe --group {{p}}g --members"),
        Step(f"{_GROUPS} --describe --group {{p}}g --members --verbose"),
        Step(f"{_GROUPS} --describe --group {{p}}g --state"),
        Step(f"{_GROUPS} --describe --group {{p}}g --state --verbose"),
        Step(f"{_GROUPS} --list", only_own=True),
        Step(f"{_GROUPS} --list --state", only_own=True),
        Step(f"{_GROUPS} --list --type --state", only_own=True),
        Step(f"{_GROUPS} --list --state stable", only_own=True),
        Step(f"{_RESET} --to-latest --all-topics --dry-run", is_sorted=True),
        Step(f"{_RESET} --to-latest --topic {{p}}t:1", says=True),
        Step(f"{_RESET} --to-offset 3 --topic {{p}}t --execute", is_sorted=True),
        Step(f"{_RESET} --shift-by -1 --topic {{p}}t:0 --execute", is_sorted=True),
        Step(f"{_RESET} --shift-by 100 --topic {{p}}t:0,1 --dry-run", is_sorted=True),
        Step(f"{_RESET} --to-current --all-topics --dry-run --export", is_sorted=True),
        Step(f"{_RESET} --to-datetime 2020-01-01T00:00:00.000 --topic {{p}}t:0 --dry-run"),
        Step(f"{_RESET} --to-datetime 2040-01-01T00:00:00.000+01:00 --topic {{p}}t:0 --dry-run"),
        Step(f"{_RESET} --to-datetime xx --topic {{p}}t:0 --dry-run"),
        Step(f"{_RESET} --by-duration PT1H --topic {{p}}t:0 --dry-run"),
        Step(f"{_RESET} --by-duration xx --topic {{p}}t:0 --dry-run"),
        Step(f"{_RESET} --from-file {{tmp}}/offsets.csv --execute", is_sorted=True),
        Step(f"{_RESET} --from-file /nowhere --dry-run"),
        Step(f"{_RESET} --to-earliest --topic {{p}}none --dry-run"),
        Step(f"{_RESET} --to-earliest --topic {{p}}t:77 --dry-run"),
        Step(f"{_GROUPS} --reset-offsets --group {{p}}new --shift-by 1 --topic {{p}}t --dry-run"),
        Step(f"{_GROUPS} --describe --group {{p}}g"),
    ),
    "groups-reset-unclear": (
        *_FILLED,
        Step(f"{_RESET} --group {{p}}other --from-file {{tmp}}/offsets.csv --execute", is_sorted=True),
        Step(f"{_RESET} --from-file {{tmp}}/negative.csv --execute", says=True),
        Step(f"{_RESET} --to-earliest --topic {{p}}t:x --execute", says=True),
        Step(f"{_RESET} --to-latest --topic {{p}}t --all-topics --execute"),
        Step(f"{_GROUPS} --delete-offsets --group {{p}}g --topic {{p}}t:x", says=True),
    ),
    "groups-delete": (
        *_FILLED,
        Step(f"{_RESET} --to-latest --topic {{p}}t --execute", is_quiet=True),
        Step(f"{_GROUPS} --delete-offsets --group {{p}}g --topic {{p}}t:1"),
        Step(f"{_GROUPS} --delete-offsets --group {{p}}g --topic {{p}}t:77"),
        Step(f"{_GROUPS} --delete-offsets --group {{p}}g --topic {{p}}none"),
        Step(f"{_GROUPS} --delete-offsets --group {{p}}none --topic {{p}}t", is_sorted=True),
        Step(f"{_GROUPS} --describe --group {{p}}g"),
        Step(f"{_GROUPS} --delete --group {{p}}none --group {{p}}g"),
        Step(f"{_GROUPS} --delete --group {{p}}g"),
        Step(f"{_RESET} --to-latest --topic {{p}}t --execute", is_quiet=True),
        Step(f"{_GROUPS} --delete --group {{p}}g"),
    ),
    "groups-with-a-member": (
        *_FILLED,
        Step("join {p}g {p}t", is_quiet=True),
        Step(f"{_GROUPS} --describe --group {{p}}g"),
        Step(f"{_GROUPS} --describe --group {{p}}g --members"),
        Step(f"{_GROUPS} --describe --group {{p}}g --members --verbose"),
        Step(f"{_GROUPS} --describe --group {{p}}g --state --verbose"),
        Step(f"{_RESET} --to-latest --topic {{p}}t --dry-run"),
        Step(f"{_GROUPS} --delete --group {{p}}g"),
        Step(f"{_GROUPS} --delete-offsets --group {{p}}g --topic {{p}}t", is_sorted=True),
    ),
}

_TRANSACTIONS = "kafka-transactions --bootstrap-server {b}"
_ABORT = f"{_TRANSACTIONS} abort --topic {{p}}t --partition"
_LIST = f"{_TRANSACTIONS} list --transactional-id-pattern {{p}}.*"

TRANSACTIONS: dict[str, tuple[Step, ...]] = {
    "transactions-common-flags": (
        Step("kafka-transactions", is_quiet=True),
        Step("kafka-transactions list", is_quiet=True),
        Step(_TRANSACTIONS, is_quiet=True),
        Step(f"{_TRANSACTIONS} foo", is_quiet=True),
        Step(f"{_TRANSACTIONS} list --foo", is_quiet=True),
        Step(f"{_TRANSACTIONS} list --topic a", is_quiet=True),
        Step(f"{_TRANSACTIONS} list --duration-filter x", is_quiet=True),
        Step(f"{_TRANSACTIONS} describe", is_quiet=True),
        Step(f"{_TRANSACTIONS} describe-producers --topic a", is_quiet=True),
        Step(f"{_TRANSACTIONS} forceTerminateTransaction", is_quiet=True),
        Step(f"{_TRANSACTIONS} find-hanging", says=True),
        Step(f"{_TRANSACTIONS} find-hanging --broker-id 1 --partition 0", says=True),
        Step(f"{_TRANSACTIONS} abort --topic a --partition 0", says=True),
        Step(f"{_TRANSACTIONS} abort --topic a --partition 0 --producer-id 1", says=True),
        Step(f"{_TRANSACTIONS} abort --topic a --partition 0 --producer-id 1 --producer-epoch 0", says=True),
    ),
    "transactions-of-nobody": (
        Step(f"{_TOPICS} --create --topic {{p}}t", is_quiet=True),
        Step(_LIST),
        Step(f"{_TRANSACTIONS} list --transactional-id-pattern ["),
        Step(f"{_TRANSACTIONS} describe --transactional-id {{p}}none", says=True),
        Step(f"{_TRANSACTIONS} describe-producers --topic {{p}}t --partition 0"),
        Step(f"{_TRANSACTIONS} describe-producers --topic {{p}}t --partition 0 --broker-id 1"),
        Step(f"{_TRANSACTIONS} find-hanging --topic {{p}}t"),
        Step(f"{_TRANSACTIONS} find-hanging --topic {{p}}t --broker-id 1"),
        Step(f"{_ABORT} 0 --start-offset 0", says=True),
    ),
    "transactions-open": (
        Step(f"{_TOPICS} --create --topic {{p}}t --partitions 2", is_quiet=True),
        Step("transact {p}id {p}t 3", is_quiet=True),
        Step(_LIST, is_masked=True),
        Step(f"{_LIST} --duration-filter 86400000"),
        Step(f"{_LIST} --duration-filter -5", is_masked=True),
        Step(f"{_TRANSACTIONS} describe --transactional-id {{p}}id", is_masked=True),
        Step(f"{_TRANSACTIONS} describe-producers --topic {{p}}t --partition 1", is_masked=True),
        Step(f"{_TRANSACTIONS} find-hanging --topic {{p}}t --max-transaction-timeout 0"),
        Step(f"{_ABORT} 0 --start-offset 1", says=True),
        Step(f"{_ABORT} 0 --start-offset 0", says=True),
        Step(f"{_TRANSACTIONS} describe-producers --topic {{p}}t --partition 0", is_masked=True),
        Step(f"{_ABORT} 0 --start-offset 0", says=True),
        Step(f"{_TRANSACTIONS} forceTerminateTransaction --transactionalId {{p}}id", says=True),
        Step(_LIST, is_masked=True),
        Step(f"{_TRANSACTIONS} describe-producers --topic {{p}}t --partition 1", is_masked=True),
        Step(f"{_TRANSACTIONS} describe --transactional-id {{p}}id", is_masked=True),
    ),
}

_PRODUCER = "kafka-console-producer --bootstrap-server {b}"
_CONSUMER = "kafka-console-consumer --bootstrap-server {b}"
_PRODUCE = f"{_PRODUCER} --topic {{p}}t"
_CONSUME = f"{_CONSUMER} --topic {{p}}t --timeout-ms 8000"
_ALL_COLUMNS = " ".join(
    f"--formatter-property print.{name}=true"
    for name in ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
)

CONSOLE: dict[str, tuple[Step, ...]] = {
    "console-common-flags": (
        Step("kafka-console-producer"),
        Step("kafka-console-producer --version"),
        Step(_PRODUCER, says=True),
        Step("kafka-console-producer --topic a"),
        Step(f"{_PRODUCE} --foo", says=True),
        Step(f"{_PRODUCE} --reader-property parse.key=true --property a=b", says=True),
        Step(f"{_PRODUCE} --command-property acks=1 --producer-property acks=1", says=True),
        Step(f"{_PRODUCE} --max-memory-bytes x"),
        Step(f"{_PRODUCE} --compression-codec foo", "a\n"),
        Step(f"{_PRODUCE} --request-required-acks 7", "a\n"),
        Step(f"{_PRODUCE} --line-reader foo", "a\n"),
        Step("kafka-console-consumer"),
        Step("kafka-console-consumer --version"),
        Step(_CONSUMER, says=True),
        Step(f"{_CONSUMER} --topic a --include b", says=True),
        Step("kafka-console-consumer --topic a", says=True),
        Step(f"{_CONSUMER} --topic a --offset 3", says=True),
        Step(f"{_CONSUMER} --topic a --partition 0 --offset -1", says=True),
        Step(f"{_CONSUMER} --topic a --partition x --offset 1"),
        Step(f"{_CONSUMER} --topic a --partition 0 --group g", says=True),
        Step(f"{_CONSUMER} --topic a --partition 0 --from-beginning --offset 1", says=True),
        Step(f"{_CONSUMER} --topic a --property print.key=true --formatter-property print.key=true", says=True),
        Step(f"{_CONSUMER} --topic a --formatter foo", says=True),
        Step(f"{_CONSUMER} --topic a --isolation-level foo"),
        Step(f"{_CONSUMER} --topic a --max-messages x"),
        Step(f"{_CONSUMER} --topic a --group g --command-property group.id=h"),
    ),
    "console-lines": (
        Step(f"{_TOPICS} --create --topic {{p}}t", is_quiet=True),
        Step(_PRODUCE, "a\nb b\n\nlast without an end"),
        Step(f"{_CONSUME} --from-beginning --max-messages 4"),
        Step(f"{_CONSUME} --partition 0 --offset 1 --max-messages 2", says=True),
        Step(f"{_CONSUME} --partition 0 --offset earliest --max-messages 1"),
        Step(f"{_CONSUME} --partition 0 --from-beginning --max-messages 1"),
        Step(f"{_CONSUMER} --include {{p}}. --from-beginning --max-messages 4 --timeout-ms 8000", is_sorted=True),
        Step(f"{_CONSUMER} --topic {{p}}t --timeout-ms 2000"),
        Step(f"{_CONSUMER} --topic {{p}}t --partition 0 --offset 4 --timeout-ms 2000", says=True),
        Step(f"{_CONSUME} --group {{p}}g --from-beginning --max-messages 3"),
        Step(f"{_CONSUME} --group {{p}}g --from-beginning --max-messages 1"),
        Step(f"{_CONSUME} --from-beginning --max-messages 2 --isolation-level read_committed"),
        Step(f"{_CONSUME} --from-beginning --max-messages 1 --enable-systest-events"),
        Step(f"{_CONSUME} --from-beginning --max-messages 1 --consumer-property client.id=x"),
        Step(f"{_CONSUME} --from-beginning --max-messages 1 --command-config {{tmp}}/client.properties"),
    ),
    "console-keys-and-headers": (
        Step(f"{_TOPICS} --create --topic {{p}}t", is_quiet=True),
        Step(f"{_PRODUCE} --reader-property parse.key=true", "k1\tv1\nnosep\nk2\tv2\n"),
        Step(
            f"{_PRODUCE} --reader-property parse.key=true --reader-property key.separator=: "
            "--reader-property ignore.error=true --sync",
            "k1:v:1\nnosep\nk2:v2\n",
        ),
        Step(
            f"{_PRODUCE} --reader-property parse.key=true --reader-property parse.headers=true",
            "h1:v1,h2:v2\tkey\tvalue\nh3:\tk\tv\n",
        ),
        Step(f"{_PRODUCE} --property parse.key=true --property parse.headers=true", "bad\tkey\tvalue\n"),
        Step(
            f"{_PRODUCE} --reader-property parse.key=true --reader-property null.marker=NULL --compression-codec",
            "NULL\tNULL\nx\tNULL\n",
        ),
        Step(f"{_PRODUCE} --compression-codec zstd --batch-size 100 --timeout 5 --request-required-acks 1", "z\n"),
        Step(f"{_CONSUME} --from-beginning --max-messages 9 {_ALL_COLUMNS}"),
        Step(
            f"{_CONSUME} --from-beginning --max-messages 9 --property print.key=true --property print.value=false "
            "--property null.literal=NIL --property line.separator=#"
        ),
        Step(
            f"{_CONSUME} --from-beginning --max-messages 9 --formatter-property print.key=true "
            "--formatter-property key.separator=| --formatter-property print.headers=true "
            "--formatter-property headers.separator=;"
        ),
        Step(
            f"{_CONSUME} --from-beginning --max-messages 2 "
            "--formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter"
        ),
        Step(
            f"{_CONSUME} --from-beginning --max-messages 2 "
            "--value-deserializer org.apache.kafka.common.serialization.LongDeserializer"
        ),
        Step(
            f"{_CONSUME} --from-beginning --max-messages 2 "
            "--value-deserializer org.apache.kafka.common.serialization.StringDeserializer"
        ),
    ),
}

_CONFIGS = "kafka-configs --bootstrap-server {b}"

CONFIGS: dict[str, tuple[Step, ...]] = {
    "configs-common-flags": (
        Step("kafka-configs"),
        Step("kafka-configs --version"),
        Step("kafka-configs --describe --topic a", says=True),
        Step(_CONFIGS, says=True),
        Step(f"{_CONFIGS} --foo", says=True),
        Step(f"{_CONFIGS} --describe --alter", says=True),
        Step(f"{_CONFIGS} --describe", says=True),
        Step(f"{_CONFIGS} --describe --entity-type foo", says=True),
        Step(f"{_CONFIGS} --describe --topic a --entity-type topics", says=True),
        Step(f"{_CONFIGS} --describe --topic a --broker 1", says=True),
        Step(f"{_CONFIGS} --describe --topic a --add-config a=b"),
        Step(f"{_CONFIGS} --describe --broker x", says=True),
        Step(f"{_CONFIGS} --describe --entity-type topics --entity-default", says=True),
        Step(f"{_CONFIGS} --alter --topic a", says=True),
        Step(f"{_CONFIGS} --alter --entity-type topics --add-config a=b", says=True),
        Step(f"{_CONFIGS} --alter --topic a --add-config foo", says=True),
        Step(f"{_CONFIGS} --alter --topic a --add-config a=b --add-config-file c", says=True),
        Step(f"{_CONFIGS} --alter --topic a --add-config-file /nowhere"),
    ),
    "configs-topics": (
        Step(f"{_CREATE} --config flush.messages=7", is_quiet=True),
        Step(f"{_CONFIGS} --describe --topic {{p}}t"),
        Step(f"{_CONFIGS} --alter --topic {{p}}t --add-config retention.ms=100,cleanup.policy=[compact,delete]"),
        Step(f"{_CONFIGS} --describe --entity-type topics --entity-name {{p}}t"),
        Step(f"{_CONFIGS} --alter --topic {{p}}t --delete-config retention.ms,foo"),
        Step(f"{_CONFIGS} --alter --topic {{p}}t --add-config-file {{tmp}}/settings.properties"),
        Step(f"{_CONFIGS} --describe --topic {{p}}t"),
        Step(f"{_CONFIGS} --describe --entity-type topics", only_own=True),
        Step(f"{_CONFIGS} --describe --topic {{p}}none"),
        Step(f"{_CONFIGS} --alter --topic {{p}}none --add-config retention.ms=1"),
        Step(f"{_CONFIGS} --alter --topic {{p}}t --add-config foo=bar"),
        Step(f"{_CONFIGS} --alter --topic {{p}}t --add-config retention.ms=x"),
        Step(f"{_CONFIGS} --alter --topic {{p}}t --add-config retention.ms=1 --delete-config retention.ms"),
        Step(f"{_TOPICS} --describe --topic {{p}}t"),
    ),
    "configs-brokers": (
        Step(f"{_CONFIGS} --describe --broker 1"),
        Step(f"{_CONFIGS} --alter --broker-defaults --add-config log.cleaner.threads=2"),
        # Apache Kafka rejects more than doubling them, and would compare the next change with a value not yet applied
        Step("until log.cleaner.threads 2", is_quiet=True),
        Step(f"{_CONFIGS} --alter --broker 1 --add-config log.cleaner.threads=3"),
        Step("until log.cleaner.threads 3", is_quiet=True),
        Step(f"{_CONFIGS} --describe --broker 1"),
        Step(f"{_CONFIGS} --describe --broker-defaults"),
        Step(f"{_CONFIGS} --describe --entity-type brokers"),
        Step(f"{_CONFIGS} --alter --broker 1 --delete-config log.cleaner.threads"),
        Step(f"{_CONFIGS} --alter --entity-type brokers --entity-default --delete-config log.cleaner.threads"),
        Step("until log.cleaner.threads 1", is_quiet=True),
        Step(f"{_CONFIGS} --alter --broker 1 --add-config node.id=3"),
        Step(f"{_CONFIGS} --alter --broker 1 --add-config log.cleaner.threads=abc"),
        Step(f"{_CONFIGS} --describe --broker 77"),
        Step(f"{_CONFIGS} --describe --entity-type brokers"),
    ),
    "configs-groups": (
        Step(f"{_CONFIGS} --alter --group {{p}}g --add-config consumer.session.timeout.ms=50000"),
        Step(f"{_CONFIGS} --describe --group {{p}}g"),
        Step(f"{_CONFIGS} --describe --entity-type groups --entity-name {{p}}g"),
        Step(f"{_CONFIGS} --alter --group {{p}}g --delete-config consumer.session.timeout.ms"),
    ),
    "configs-quotas": (
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config producer_byte_rate=100000000,consumer_byte_rate=2048"),
        Step(f"{_CONFIGS} --describe --client {{p}}c"),
        Step(f"{_CONFIGS} --describe --entity-type clients", only_own=True),
        Step(f"{_CONFIGS} --alter --client {{p}}c --delete-config producer_byte_rate"),
        Step(f"{_CONFIGS} --alter --client {{p}}c --delete-config producer_byte_rate"),
        Step(f"{_CONFIGS} --describe --entity-type clients --entity-name {{p}}c"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config request_percentage=50"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --client {{p}}c --add-config producer_byte_rate=2"),
        Step(f"{_CONFIGS} --describe --user {{p}}u --client {{p}}c"),
        Step(f"{_CONFIGS} --describe --entity-type users --entity-type clients", only_own=True),
        Step(f"{_CONFIGS} --alter --user-defaults --add-config controller_mutation_rate=5"),
        Step(f"{_CONFIGS} --describe --user-defaults"),
        Step(f"{_CONFIGS} --alter --user-defaults --delete-config controller_mutation_rate"),
        Step(f"{_CONFIGS} --alter --ip 1.2.3.4 --add-config connection_creation_rate=10"),
        Step(f"{_CONFIGS} --describe --ip 1.2.3.4"),
        Step(f"{_CONFIGS} --alter --ip 1.2.3.4 --delete-config connection_creation_rate"),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config foo=1"),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config producer_byte_rate=x"),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config producer_byte_rate=1.5"),
        Step(f"{_CONFIGS} --describe --client {{p}}none"),
    ),
    "configs-scram": (
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config 'SCRAM-SHA-256=[iterations=8192,password=p]'"),
        Step(f"{_CONFIGS} --describe --user {{p}}u"),
        Step(f"{_CONFIGS} --alter --entity-type users --entity-name {{p}}u --add-config SCRAM-SHA-512=[password=a=b]"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=-1,password=x]"),
        Step(f"{_CONFIGS} --describe --entity-type users --entity-name {{p}}u"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config request_percentage=50"),
        Step(f"{_CONFIGS} --alter --user {{p}}v --add-config SCRAM-SHA-256=[password=q]"),
        Step(f"{_CONFIGS} --describe --entity-type users", only_own=True, is_sorted=True),
        Step(f"{_CONFIGS} --describe --user {{p}}u --client {{p}}c"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --delete-config SCRAM-SHA-256"),
        Step(f"{_CONFIGS} --describe --user {{p}}u"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --delete-config SCRAM-SHA-256"),
        Step(f"{_CONFIGS} --alter --user {{p}}none --delete-config SCRAM-SHA-512"),
        Step(f"{_CONFIGS} --describe --user {{p}}none"),
        Step(
            f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[password=r] --delete-config SCRAM-SHA-256",
        ),
        Step(
            f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[password=r] --delete-config SCRAM-SHA-512",
        ),
        Step(f"{_CONFIGS} --describe --user {{p}}u"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[password=]"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=17000,password=r]"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=8,password=r]", says=True),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=,password=r]", says=True),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=-,password=r]", says=True),
        Step(
            f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=3000000000,password=r]", says=True
        ),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[iterations=5000]", says=True),
        Step(f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-1=[password=r]"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --delete-config SCRAM-SHA-1"),
        Step(f"{_CONFIGS} --alter --user-defaults --add-config SCRAM-SHA-256=[password=r]", says=True),
        Step(
            f"{_CONFIGS} --alter --user {{p}}u --add-config SCRAM-SHA-256=[password=r],request_percentage=5", says=True
        ),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config SCRAM-SHA-256=[password=r]"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --client {{p}}c --delete-config SCRAM-SHA-256"),
        Step(f"{_CONFIGS} --alter --ip 1.2.3.4 --add-config SCRAM-SHA-256=[password=r]", says=True),
        Step(f"{_CONFIGS} --describe --user-defaults"),
        Step(f"{_CONFIGS} --alter --user {{p}}v --delete-config SCRAM-SHA-256"),
        Step(f"{_CONFIGS} --alter --user {{p}}u --delete-config request_percentage"),
    ),
}

CASES: dict[str, tuple[Step, ...]] = {
    **TOPICS,
    **GROUPS,
    **PARTITIONS,
    **TRANSACTIONS,
    **CONSOLE,
    **CONFIGS,
    **CLUSTER,
    **STORAGE,
    **SPELLINGS,
    **FORMATTERS,
    **DUMPS,
    **PERFORMANCE,
    **TOKENS,
}
