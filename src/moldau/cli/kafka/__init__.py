"""Kafka's own tools as `moldau kafka-topics ...`, with Kafka's flags, columns and exit codes.

They are plain Kafka clients, for Apache Kafka and Moldau. Each tool is a module with

    OPTIONS: tuple[Option, ...]          the flags, as Kafka 4.4.0 names them
    SUMMARY: str                         the first line of --help
    run(arguments: Arguments) -> int     the exit code

acls: `kafka-acls`
broker_api_versions: `kafka-broker-api-versions`
client_metrics: the table of `--print-metrics`
client_settings: settings of Java clients for librdkafka
cluster: `kafka-cluster`
configs: `kafka-configs`
connection: `--bootstrap-server` and `--command-config`
console_consumer: `kafka-console-consumer`
console_producer: `kafka-console-producer`
consumer_groups: `kafka-consumer-groups`
consumer_perf_test: `kafka-consumer-perf-test`
coordinator_formatters: records of coordinators as JSON, for the console consumer
delegation_tokens: `kafka-delegation-tokens`
delete_records: `kafka-delete-records`
dump_log: `kafka-dump-log`
features: `kafka-features`
formatters: columns and deserializers of the console consumer
get_offsets: `kafka-get-offsets`
group_tables: the tables of `kafka-consumer-groups --describe`
included_topics: topics that match a Java pattern, for the console consumer
java_dates: times as Java's SimpleDateFormat writes them
java_numbers: numbers as Java's `%.2f` writes them
latencies: the lines of `kafka-producer-perf-test`
leader_election: `kafka-leader-election`
levels: feature levels of `kafka-features` and `kafka-storage`
log_dirs: `kafka-log-dirs`
metadata_quorum: `kafka-metadata-quorum`
options: flags as jopt-simple reads them
producer_perf_test: `kafka-producer-perf-test`
reassign_partitions: `kafka-reassign-partitions`
reassignment_files: the JSON files of `kafka-reassign-partitions`
replica_moves: moves between log directories of one broker
reset_offsets: `kafka-consumer-groups --reset-offsets`
scram_arguments: `--add-scram` of `kafka-storage` (KIP-900)
scram_users: SCRAM credentials in `kafka-configs`
storage: `kafka-storage`
subcommands: tools with sub-commands, as argparse4j reads them
tables: tables of Kafka's argparse tools
tools: the list of the tools, and how one runs
topics: `kafka-topics`
transactions: `kafka-transactions`
"""
