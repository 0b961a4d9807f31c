"""Values of flags that can be spelt in more than one way, or wrongly: what Kafka's tools take."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

_RESET = "kafka-consumer-groups --bootstrap-server {b} --reset-offsets --group {p}g --to-earliest --dry-run"
_FORGET = "kafka-consumer-groups --bootstrap-server {b} --delete-offsets --group {p}g"
_ELECT = "kafka-leader-election --bootstrap-server {b} --election-type preferred --topic {p}t --partition 0"
_CLIENT = "{tmp}/client.properties"
_CONFIGS = "kafka-configs --bootstrap-server {b}"
_FILLED = (
    Step("kafka-topics --bootstrap-server {b} --create --topic {p}t --partitions 2", is_quiet=True),
    Step("produce {p}t 5", is_quiet=True),
)

SPELLINGS: dict[str, tuple[Step, ...]] = {
    "spelling-of-partitions": (
        *_FILLED,
        Step(f"{_RESET} --topic {{p}}t:0,"),
        Step(f"{_RESET} --topic {{p}}t:0:"),
        Step(f"{_RESET} --topic {{p}}t:+1"),
        Step(f"{_RESET} --topic {{p}}t:-1"),
        Step(f"{_RESET} --topic {{p}}t:", says=True),
        Step(f"{_RESET} --topic {{p}}t:0:1", says=True),
        Step(f"{_RESET} --topic {{p}}t:0,,1", says=True),
        Step(f"{_RESET} --topic {{p}}t:99999999999", says=True),
        Step(f"{_FORGET} --topic {{p}}t:", says=True),
        Step(f"{_FORGET} --topic {{p}}t:0:1", says=True),
    ),
    "spelling-of-times": (
        *_FILLED,
        Step("kafka-get-offsets --bootstrap-server {b} --topic {p}t --time -7", says=True),
        Step("kafka-get-offsets --bootstrap-server {b} --topic {p}t --time +0", says=True),
        Step("kafka-get-offsets --bootstrap-server {b} --topic {p}t --time 99999999999999999999", says=True),
        Step("kafka-get-offsets --bootstrap-server {b} --topic {p}t --partitions ''"),
    ),
    "spelling-of-flags": (
        *_FILLED,
        Step("kafka-topics -bootstrap-server {b} -describe -topic {p}t"),
        Step("kafka-topics -bootstrap-server={b} -list -topic={p}t"),
        Step("kafka-topics -bootstrap-server {b} -list -foo", says=True),
        Step("kafka-cluster cluster-id -b{b}"),
        Step("kafka-cluster cluster-id -b {b} -c {tmp}/client.properties"),
        Step("kafka-cluster cluster-id -b {b} --config {tmp}/client.properties"),
        Step(f"kafka-cluster cluster-id -b {{b}} --config {_CLIENT} -c {_CLIENT}", says=True),
        Step(f"{_ELECT} --admin.config {_CLIENT}"),
        Step(f"{_ELECT} --admin.config {_CLIENT} --command-config {_CLIENT}", says=True),
        Step(f"{_ELECT} --admin.config {{tmp}}/none.properties", is_quiet=True),
        Step("kafka-storage format -ttBkDQh1jQTWVvPkPqJ9o1w -c {tmp}/n0.properties -sg"),
        Step("kafka-storage --help", is_quiet=True),
        Step("kafka-storage format -h", is_quiet=True),
        Step("kafka-features -h", is_quiet=True),
        Step("kafka-features --bootstrap-server {b}", is_quiet=True),
        Step("kafka-cluster cluster-id -h", is_quiet=True),
        Step("kafka-transactions -h", is_quiet=True),
        Step("kafka-topics -h", says=True),
    ),
    "spelling-of-entities": (
        Step(f"{_CONFIGS} --describe --user {{p}}u --entity-type clients", says=True),
        Step(f"{_CONFIGS} --describe --all --group {{p}}none", is_quiet=True),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config producer_byte_rate=1_000", says=True),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config producer_byte_rate=inf", says=True),
        Step(f"{_CONFIGS} --alter --client {{p}}c --add-config producer_byte_rate=5e3d"),
        Step(f"{_CONFIGS} --describe --client {{p}}c"),
        Step(f"{_CONFIGS} --alter --client {{p}}c --delete-config producer_byte_rate"),
    ),
    "spelling-of-expressions": tuple(
        Step(f"kafka-consumer-groups --validate-regex '{pattern}'", says=True)
        for pattern in (
            *("a++", "a{2}+", "a**", "a*?", "a{1001}", "a{1,1001}", "a{1000}", "a{2,1}", "(?#x)a", "(?>a)", "[z-a]"),
            *("[*+]+", r"\++", "[(?=]", "[[:alpha:]]+", "(?i)a", r"\d+", "(?P<n>a)"),
        )
    ),
    "spelling-of-addresses": (
        Step(f"{_CONFIGS} --describe --entity-type ips --entity-name 999.1.1.1", says=True),
        Step(f"{_CONFIGS} --alter --ip 999.1.1.1 --add-config connection_creation_rate=5", says=True),
        Step(f"{_CONFIGS} --describe --ip localhost"),
        Step(f"{_CONFIGS} --describe --ip ::1"),
    ),
}
