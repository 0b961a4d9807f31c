"""Flag values with several spellings, or wrong ones, as Kafka's tools accept them."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

_RESET = "kafka-consumer-groups --bootstrap-server {b} --reset-offsets --group {p}g --to-earliest --dry-run"
_FORGET = "kafka-consumer-groups --bootstrap-server {b} --delete-offsets --group {p}g"
_ELECT = "kafka-leader-election --bootstrap-server {b} --election-type preferred --topic {p}t --partition 0"
_FEATURES = "kafka-features --bootstrap-server {b}"
_QUORUM = "kafka-metadata-quorum --bootstrap-server {b}"
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
    "spelling-of-commands": (
        # a change by the first of them must not count for both
        Step(f"{_FEATURES} upgrade --feature transaction.version=2 kraft.version=1", is_quiet=True),
        Step(f"{_FEATURES} describe more", says=True),
        Step("kafka-features feature-dependencies --feature transaction.version=2 group.version=1", says=True),
        Step(f"{_FEATURES} upgrade --fe transaction.version=2 --dry", says=True),
        Step(f"{_FEATURES} downgrade --f=transaction.version=1 --d"),
        Step("kafka-features --bootstrap {b} describe", is_quiet=True),
        Step("kafka-features --bootstrap-s {b} version-mapping --rel 4.1"),
        Step(f"{_QUORUM} describe --re --human", is_masked=True),
        Step(f"{_QUORUM} describe --status more", is_quiet=True),
        Step(f"{_QUORUM} remove-controller --controller-i 3 --controller-d AwMDAwMDAwMDAwMDAwMDAw --dry"),
        Step(f"{_QUORUM} remove-controller --controller-i 3 --controller-d AwMDAwMDAwMDAwMDAwMDAw --dry --unreg"),
        Step(f"{_QUORUM} remove-controller --controller 3 --controller-d AwMDAwMDAwMDAwMDAwMDAw --dry", is_quiet=True),
        Step("kafka-cluster list-endpoints --bootstrap-server {b} --incl"),
        Step("kafka-cluster cluster-id --bootstrap-server {b} more", is_quiet=True),
        Step("kafka-transactions --bootstrap-s {b} describe --transactional {p}none", says=True),
        Step("kafka-transactions --bootstrap-server {b} list more", is_quiet=True),
        Step("kafka-storage random-uuid more", is_quiet=True),
        Step("kafka-features --version", is_quiet=True),
        Step("kafka-metadata-quorum --version", is_quiet=True),
        Step("kafka-cluster --version", is_quiet=True),
        Step("kafka-storage --version", is_quiet=True),
        Step("kafka-transactions -v", is_quiet=True),
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
