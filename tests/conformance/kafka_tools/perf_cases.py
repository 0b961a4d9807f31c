"""Cases of the producer and consumer performance tools; the runner masks their figures. See cases."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

_WRITE = "kafka-producer-perf-test --bootstrap-server {b} --topic {p}t --throughput -1"
_READ = "kafka-consumer-perf-test --bootstrap-server {b}"

PERFORMANCE: dict[str, tuple[Step, ...]] = {
    "producer-perf-flags": (
        Step("kafka-producer-perf-test", is_quiet=True),
        Step("kafka-producer-perf-test -h", is_quiet=True),
        Step("kafka-producer-perf-test --version"),
        Step("kafka-producer-perf-test --topic t --num-records 5"),
        Step(f"{_WRITE} --num-records 5"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --payload-monotonic"),
        Step(f"{_WRITE} --num-records 0 --record-size 5"),
        Step(f"{_WRITE} --num-records x --record-size 5"),
        Step(f"{_WRITE} --num-records 5 --record-size 0"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --warmup-records 5"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --transaction-duration-ms 0"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --reporting-interval 0"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --producer-props a=b --command-property c=d"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --command-property a"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --command-config {{tmp}}/none"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 word"),
        Step(f"{_WRITE} --num-records 5 --record-size 5 --pay 3"),
        Step(f"{_WRITE} --num-records 5 --payload-file {{tmp}}/none"),
        Step("kafka-producer-perf-test --topic t --throughput -1 --num-records 5 --record-size 5"),
    ),
    "producer-perf": (
        Step("kafka-topics --bootstrap-server {b} --create --topic {p}t", is_quiet=True),
        Step(f"{_WRITE} --num-records 5 --record-size 10"),
        Step(f"{_WRITE} --num-rec 7 --payload-mono --warmup-records 3"),
        Step(f"{_WRITE} --num-records 4 --payload-file {{tmp}}/offsets.csv --payload-delimiter ,"),
        Step(f"{_WRITE} --num-records 3 --record-size 10 --transactional-id {{p}}id --transaction-duration-ms 60000"),
        Step(f"{_WRITE} --num-records 2 --record-size 2000000"),
        Step(f"{_WRITE} --num-records 2 --record-size 9 --producer-props acks=1 client.id=mine"),
        Step(f"{_WRITE} --num-records 2 --record-size 9 --producer.config {{tmp}}/client.properties"),
        # 23 records and the marker of the transaction
        Step("kafka-get-offsets --bootstrap-server {b} --topic {p}t"),
    ),
    "consumer-perf-flags": (
        Step("kafka-consumer-perf-test"),
        Step("kafka-consumer-perf-test --help"),
        Step("kafka-consumer-perf-test --version"),
        Step("kafka-consumer-perf-test --topic t", says=True),
        Step(f"{_READ} --topic t", says=True),
        Step(f"{_READ} --num-records 5", says=True),
        Step(f"{_READ} --num-records 5 --topic t --include t", says=True),
        Step(f"{_READ} --num-records 5 --messages 5 --topic t", says=True),
        Step(f"{_READ} --num-records 5 --topic t --consumer.config a --command-config b", says=True),
        Step(f"{_READ} --num-records 5 --topic t --reporting-interval 0", says=True),
        Step(f"{_READ} --num-records 5 --topic t --date-format q", says=True),
        Step(f"{_READ} --num-records x --topic t", says=True),
        Step(f"{_READ} --num-records 5 --topic t --foo", says=True),
    ),
    "consumer-perf": (
        Step("kafka-topics --bootstrap-server {b} --create --topic {p}r", is_quiet=True),
        Step("produce {p}r 12", is_quiet=True),
        Step(f"{_READ} --topic {{p}}r --num-records 12"),
        Step(f"{_READ} --topic {{p}}r --messages 12 --hide-header"),
        Step(f"{_READ} --include {{p}}[r] --num-records 12 --group {{p}}g"),
        Step(f"{_READ} --topic {{p}}r --num-records 5 --group {{p}}g --timeout 2000"),
        Step(f"{_READ} --topic {{p}}r --num-records 0 --hide-header"),
        Step(f"{_READ} --topic {{p}}r --num-records 12 --show-detailed-stats"),
        Step("kafka-consumer-groups --bootstrap-server {b} --describe --group {p}g --offsets", only_own=True),
    ),
}
