"""What is compared between Kafka's own tools and ours: command lines in order, each case with names of its own.

In a command line `{p}` is a prefix that no other run has used, `{b}` the bootstrap server, `{tmp}` a scratch folder. A
command line that starts with `kafka-topics` and the like; what it prints and its exit code are compared.
"""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True):
    """One command line. What is compared of it:

    `is_sorted`: its lines in any order (Kafka prints what comes from a Java HashMap); `only_own`: only lines that name
    something of this case, and the heading; `says`: also the first line of standard error; `is_quiet`: only the exit
    code.
    """

    command: str
    text: str = ""
    is_sorted: bool = False
    only_own: bool = False
    says: bool = False
    is_quiet: bool = False


def files() -> dict[str, str]:
    """Files that command lines name as {tmp}/name; `{p}` in them is the prefix."""
    return {
        "delete-records.json": (
            '{"partitions":[{"topic":"{p}r","partition":0,"offset":2},{"topic":"{p}r","partition":1,"offset":-1}],'
            '"version":1}'
        ),
        "delete-too-much.json": '{"partitions":[{"topic":"{p}r","partition":0,"offset":99}]}',
        "delete-unknown.json": '{"partitions":[{"topic":"{p}none","partition":0,"offset":1}],"version":1}',
        "delete-twice.json": (
            '{"partitions":[{"topic":"{p}r","partition":0,"offset":1},{"topic":"{p}r","partition":0,"offset":2}]}'
        ),
        "not.json": "{nonsense",
        "offsets.csv": "{p}t,0,2\n{p}t,1,0\n",
        "client.properties": "client.id=tools\nrequest.timeout.ms=20000\n",
        "settings.properties": "retention.ms=1234\ncleanup.policy=compact,delete\n",
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
        Step(f"{_TOPICS} --alter --topic {{p}}t --partitions 5 --replica-assignment 1,1,1,1,1"),
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

CASES: dict[str, tuple[Step, ...]] = {**TOPICS}
