"""Makes the data directories of a release, which later versions must open: `python -m tests.formats.directory VERSION`.

Two archives are written, of a broker that was stopped and of one that was killed, each with what its clients see
(`contents`) in a JSON file. They are never made again: the directory of a release stays what that release wrote.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.admin import ResourcePatternType as PatternType

from moldau.testing import Cluster, allow

FOLDER = Path(__file__).with_name("directories")
USER, PASSWORD = "ann", "a long password"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP = "readers"
WAIT_S = 30


def opened(data_dir: Path) -> Cluster:
    """The cluster of such a directory: logins and ACLs are stored in it."""
    rights = [allow(USER, "read", "describe_configs", topic="orders")]
    return Cluster(data_dir=data_dir, security="sasl_plaintext", users={USER: PASSWORD}, acls=rights)


def fill(cluster: Cluster) -> None:
    """Records of each codec, of transactions that were committed, aborted and left open, tombstones, an offset."""
    settings = cluster.client_settings()
    cluster.create_topic("orders", 2, {"segment.bytes": 1_048_576, "max.message.bytes": 200_000})
    cluster.create_topic("names", 1, {"cleanup.policy": "compact"})
    cluster.create_topic("payments", 1)
    for number, codec in enumerate(CODECS):
        producer = Producer({**settings, "compression.type": codec, "linger.ms": 50})
        for row in range(20):
            headers = [("codec", codec.encode()), ("null", None)]
            producer.produce("orders", f"order {row}" * 9, f"{codec}-{row}", number % 2, headers=headers)
        _flush(producer)
    producer = Producer({**settings, "enable.idempotence": True})
    for name, value in (("a", "Ada"), ("b", "Bob"), ("a", None), ("c", "Cyd")):
        producer.produce("names", value, name)
    _flush(producer)
    for end in ("commit", "abort", "open"):
        copier = Producer({**settings, "transactional.id": f"copier-{end}", "transaction.timeout.ms": 900_000})
        copier.init_transactions(WAIT_S)
        copier.begin_transaction()
        copier.produce("payments", end, end)
        _flush(copier)
        if end != "open":
            getattr(copier, f"{end}_transaction")(WAIT_S)
    consumer = Consumer({**settings, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition("orders", 0, 7, metadata="seven")], asynchronous=False)
    consumer.close()


def _flush(producer: Producer) -> None:
    if producer.flush(WAIT_S):
        raise SystemExit("records were not acknowledged")


def contents(cluster: Cluster) -> dict[str, Any]:
    """What clients see: records, offsets, settings, ACLs, topic ids, and that the user may log in."""
    settings = cluster.client_settings()
    admin = AdminClient(settings)
    names = ["names", "orders", "payments"]
    described = admin.describe_topics(TopicCollection(names))
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    configs = {resource.name: future.result(WAIT_S) for resource, future in admin.describe_configs(resources).items()}
    anything = AclBindingFilter(
        ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    acls = admin.describe_acls(anything).result(WAIT_S)
    consumer = Consumer({**settings, "group.id": GROUP})
    (place,) = consumer.committed([TopicPartition("orders", 0)], WAIT_S)
    consumer.close()
    return {
        "records": {
            name: sorted(
                [
                    one.partition,
                    one.offset,
                    _text(one.key),
                    _text(one.value),
                    [[key, _text(v)] for key, v in one.headers],
                ]
                for one in cluster.records(name)
            )
            for name in names
        },
        "committed": [place.offset, place.metadata],
        "topic ids": {name: str(future.result(WAIT_S).topic_id) for name, future in described.items()},
        "settings": {
            name: sorted(
                [one.name, one.value]
                for one in entries.values()
                if not one.is_default and one.source == 1  # DYNAMIC_TOPIC_CONFIG
            )
            for name, entries in configs.items()
        },
        "acls": sorted([one.principal, one.restype.name, one.name, one.operation.name] for one in acls),
        "topics of the user": sorted(AdminClient(cluster.client_settings(USER)).list_topics(timeout=WAIT_S).topics),
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def main() -> None:
    (version,) = sys.argv[1:]
    FOLDER.mkdir(exist_ok=True)
    for end in ("stopped", "killed"):
        archive = FOLDER / f"moldau-{version}-{end}.tar.xz"
        if archive.exists():
            raise SystemExit(f"{archive} is there; the directory of a release is never made again")
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            cluster = opened(data).start()
            fill(cluster)
            seen = contents(cluster)
            getattr(cluster, {"stopped": "stop", "killed": "kill"}[end])()
            with tarfile.open(archive, "w:xz") as packed:
                packed.add(data, "data", filter=_without_owner)
            cluster.stop()
        archive.with_suffix("").with_suffix(".json").write_text(json.dumps(seen, indent=1) + "\n", "utf-8")
        print(f"{archive.name}: {archive.stat().st_size} bytes")


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
