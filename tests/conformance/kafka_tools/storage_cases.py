"""Cases of `kafka-storage`, which needs no cluster: each step that formats has its own node."""

from __future__ import annotations

from tests.conformance.kafka_tools.step import Step

NODES = 12
_ELR = "eligible.leader.replicas.version"
_CLUSTER = "-t tBkDQh1jQTWVvPkPqJ9o1w"
_OTHER = "-t AAAAAAAAAAAAAAAAAAAAAw"


def node_files() -> dict[str, str]:
    """Settings of nodes, as {tmp}/name. Files with an s have their voters in a setting. `two` and `other` are two nodes
    that share a directory. The last two lack a required setting."""
    common = (
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
    )
    voters = {"n": "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"}
    voters["s"] = "controller.quorum.voters=1@127.0.0.1:9093\n"
    one = {
        f"{kind}{number}.properties": f"{common}{text}log.dirs={{tmp}}/{{p}}{kind}{number}\n"
        for kind, text in voters.items()
        for number in range(NODES)
    }
    alone = common + voters["n"]
    return one | {
        "two.properties": f"{alone}log.dirs={{tmp}}/{{p}}z,{{tmp}}/{{p}}y\n",
        "other.properties": f"{alone.replace('node.id=1', 'node.id=2')}log.dirs={{tmp}}/{{p}}z,{{tmp}}/{{p}}x\n",
        "no-roles.properties": f"{alone.removeprefix('process.roles=broker,controller')}log.dirs={{tmp}}/{{p}}w\n",
        "no-id.properties": f"{alone.replace('node.id=1', '')}log.dirs={{tmp}}/{{p}}v\n",
    }


def _formats(*flags: str) -> tuple[Step, ...]:
    """Each with its own node, whose voters are records of the log."""
    return tuple(
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/n{number}.properties {words}", says=True)
        for number, words in enumerate(flags)
    )


_ONE = '"SCRAM-SHA-256=[name=alice,password=alice-secret]"'
_SALTED = '\'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]\''

STORAGE: dict[str, tuple[Step, ...]] = {
    "storage-format": (
        *_formats("-s", "-N", "--standalone -g", ""),
        *(
            Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/n8.properties {words}")
            for words in ("-I x", "-s -N", "-s -I x", "-N -I x")
        ),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/s0.properties", says=True),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/s1.properties -s", says=True),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/n0.properties -s", says=True),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/n0.properties -s -g", says=True),
        Step("kafka-storage format -c {tmp}/n8.properties -s"),
        Step(f"kafka-storage format {_CLUSTER} -s"),
        Step(f"kafka-storage format {_CLUSTER} -s -c {{tmp}}/none.properties"),
        Step(f"kafka-storage format {_CLUSTER} -s -c {{tmp}}/n8.properties --foo"),
    ),
    "storage-owners": (
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/two.properties -s", says=True, is_sorted=True),
        Step("kafka-storage info -c {tmp}/two.properties"),
        # the named directory depends on Java's hashes of the paths
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/two.properties -s", is_quiet=True),
        # Kafka prints its sentences in a stack trace
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/other.properties -s"),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/other.properties -s -g"),
        Step(f"kafka-storage format {_OTHER} -c {{tmp}}/two.properties -s"),
        Step(f"kafka-storage format {_OTHER} -c {{tmp}}/two.properties -s -g"),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/no-roles.properties -s"),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/no-id.properties -s"),
    ),
    "storage-info": (
        Step("kafka-storage info -c {tmp}/n0.properties"),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/n0.properties -s"),
        Step("kafka-storage info -c {tmp}/n0.properties"),
        Step("kafka-storage info"),
        Step("kafka-storage random-uuid", is_quiet=True),
        Step("kafka-storage"),
        Step("kafka-storage nonsense"),
    ),
    "storage-release": _formats(
        "-s -r 4.1",
        "-s --release-version 4.0-IV3",
        "-s -r 3.7",
        "-s -r 9.9",
        "-s -r 3.2",
        "-s -r 4.4",
        "-s -r 4.4-IV0",
    ),
    "storage-features": (
        *_formats(
            "-s -f transaction.version=1",
            "-s --feature metadata.version=25",
            "-s -r 4.0 -f transaction.version=2 -f group.version=0",
            "-s -f foo=1",
            "-s -r 4.1 -f metadata.version=25",
            "-s -f kraft.version=0",
            "-s -f kraft.version=1",
        ),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/s0.properties -f kraft.version=1", says=True),
        Step(f"kafka-storage format {_CLUSTER} -c {{tmp}}/s1.properties -f kraft.version=0", says=True),
        # Kafka prints its sentence in a stack trace
        *(
            Step(f"kafka-storage format {_CLUSTER} -s -c {{tmp}}/n8.properties -f {text}")
            for text in ("foo", "transaction.version=9", "kraft.version=2", "metadata.version=99", "group.version=x")
        ),
        Step(f"kafka-storage format {_CLUSTER} -s -c {{tmp}}/n8.properties -r 3.9 -f {_ELR}=1"),
    ),
    "storage-scram": (
        *_formats(
            f"-s -S {_ONE}",
            f"-s --add-scram {_ONE} -S {_SALTED}",
            f"-s -r 3.4 -S {_ONE}",
            "-s -S nonsense",
            "-s -S SCRAM-SHA-999=[name=alice,password=a]",
            "-s -S SCRAM-SHA-256=name=alice",
            "-s -S SCRAM-SHA-256=[name=alice",
            "-s -S SCRAM-SHA-256=[name]",
            "-s -S SCRAM-SHA-256=[password=a]",
            "-s -S SCRAM-SHA-256=[name=alice]",
            "-s -S SCRAM-SHA-256=[name=alice,saltedpassword=YCE=]",
            "-s -S SCRAM-SHA-256=[name=alice,salt=?,password=a]",
        ),
        *(
            Step(f"kafka-storage format {_CLUSTER} -s -c {{tmp}}/n11.properties -S SCRAM-SHA-256=[{text}]", says=True)
            for text in (
                "name=alice,salt=N3E=,saltedpassword=?",
                "name=alice,password=a,foo=b,bar=c",
                "name=alice,password=a,iterations=abc",
                "name=alice,password=a,iterations=3",
                "name=alice,password=a,iterations=99999",
            )
        ),
        Step(f"kafka-storage format {_CLUSTER} -s -c {{tmp}}/n11.properties -S SCRAM-SHA-256=[name=a,password=]"),
    ),
    "storage-levels": (
        *(
            Step(f"kafka-storage version-mapping {words}", says=True)
            for words in ("-r 4.1", "--release-version 4.0-IV1", "-r 3.3-IV3", "-r 4.4-IV0", "-r 4.4", "-r 9.9")
        ),
        *(
            Step(f"kafka-storage feature-dependencies {words}", says=True)
            for words in (
                "-f transaction.version=2",
                f"--feature {_ELR}=1 -f kraft.version=1",
                "-f metadata.version=25",
                "-f metadata.version=31",
                "-f metadata.version=99",
                "-f metadata.version=5",
                "-f transaction.version=9",
                "-f foo=1",
                "-f foo",
                "-f kraft.version=x",
            )
        ),
        Step("kafka-storage feature-dependencies"),
    ),
}
