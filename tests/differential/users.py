"""Requests of three users with random rights to both brokers: compares each response, and the resulting state.

Before each sequence a super user creates random ACLs; afterwards the super user reads from both brokers all that the
sequence can have changed. A request that only one broker rejects therefore shows, in spite of equal responses.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from moldau.client.protocol.sasl import Credentials
from moldau.testing import Cluster
from moldau.wire.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Acl,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import acls as messages
from moldau.wire.protocol.messages import client_quotas, configs, fetch, groups_classic, metadata, offsets, scram
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.transactions import DescribeTransactionsRequest
from tests.differential.brokers import OUR_SETTINGS, OWN, Broker
from tests.differential.oracle import MECHANISM, running_kafka_with_users
from tests.differential.step import Bindings, Step
from tests.differential.steps import TOPIC, TOPIC_SETTINGS, Sequence

USERS = ("alice", "bob", "carol")
LOGINS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""On a connection with a login they begin another login (KIP-368), which has its own tests."""
HOSTS = ("*", "*", "*", "*", "127.0.0.1", "10.1.2.3")
KINDS = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID, AclResourceType.CLUSTER)
MOST_OF_A_KIND = 4


def drawn_acls(chance: random.Random, sequence: Sequence) -> tuple[Acl, ...]:
    """A few ACLs that allow or deny, for each kind of resource."""
    names = {
        AclResourceType.TOPIC: [*sequence.names, f"{sequence.prefix}-missing"],
        AclResourceType.GROUP: sequence.groups,
        AclResourceType.TRANSACTIONAL_ID: [f"{sequence.prefix}-x0", f"{sequence.prefix}-x1"],
    }
    found: dict[Acl, None] = {}
    for user in USERS:
        for kind in KINDS:
            for _ in range(chance.randrange(MOST_OF_A_KIND)):
                pattern, name = AclPatternType.LITERAL, CLUSTER_NAME
                if kind != AclResourceType.CLUSTER:
                    name = chance.choice(("*", f"{sequence.prefix}-", *names[kind]))
                    pattern = AclPatternType.PREFIXED if name.endswith("-") else AclPatternType.LITERAL
                operation = chance.choice((AclOperation.ALL, *OPERATIONS_OF[kind]))
                permission = AclPermission.ALLOW if chance.random() < 0.85 else AclPermission.DENY
                principal = f"User:{user}" if chance.random() < 0.9 else "User:*"
                found[Acl(kind, name, pattern, principal, chance.choice(HOSTS), operation, permission)] = None
    return tuple(found)


def state_steps(sequence: Sequence) -> list[Step]:
    """Reads all that a sequence can have changed."""
    names = [*sequence.names, f"{sequence.prefix}-missing"]
    asked: list[tuple[ApiKey, int, Any]] = []
    for name in names:
        topics = (metadata.MetadataRequestTopic(name=name),)
        asked.append((ApiKey.METADATA, 9, metadata.MetadataRequest(topics, allow_auto_topic_creation=False)))
        for timestamp in (-1, -2):
            items = tuple(ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(4))
            asked.append((ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, 0, (ListOffsetsTopic(name, items),))))
        parts = tuple(fetch.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(4))
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(fetch.FetchTopic(name, partitions=parts),),
        )
        asked.append((ApiKey.FETCH, 11, request))
        keys = tuple(dict.fromkeys(setting for setting, _ in TOPIC_SETTINGS))
        resource = configs.DescribeConfigsResource(TOPIC, name, keys)
        asked.append((ApiKey.DESCRIBE_CONFIGS, 4, configs.DescribeConfigsRequest((resource,))))
    asked += [(ApiKey.OFFSET_FETCH, 7, offsets.OffsetFetchRequest(group, None)) for group in sequence.groups]
    asked.append((ApiKey.DESCRIBE_GROUPS, 5, groups_classic.DescribeGroupsRequest(tuple(sequence.groups))))
    ids = (f"{sequence.prefix}-x0", f"{sequence.prefix}-x1")
    asked.append((ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(ids)))
    quota = client_quotas.QuotaFilterComponent(entity_type="user", match_type=0, match=f"{sequence.prefix}-u")
    asked.append((ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, client_quotas.DescribeClientQuotasRequest((quota,))))
    users = tuple(scram.UserName(f"{sequence.prefix}-u{number}") for number in range(4))
    asked.append((ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, scram.DescribeUserScramCredentialsRequest(users)))
    acls = messages.DescribeAclsRequest(*msgspec.structs.astuple(AclFilter()))
    asked.append((ApiKey.DESCRIBE_ACLS, 3, acls))
    return [Step(key, version, lambda _, request=request: request) for key, version, request in asked]  # type: ignore[misc]


def seen_by_all(broker: Broker, sequence: Sequence, bindings: Bindings) -> list[Any]:
    """The state that the super user sees."""
    return [broker.take(step, bindings, sequence.prefix) for step in state_steps(sequence)]


@contextmanager
def both_with_users(settle_s: float, settings: Mapping[str, str] | None = None) -> Iterator[tuple[Broker, Broker]]:
    """Ours and Apache Kafka's, on SASL_PLAINTEXT, with the users and no ACL. `settings`: further ones, of both."""
    more = settings or {}
    passwords = {name: secrets.token_hex(8) for name in USERS}
    logins = {name: Credentials(MECHANISM, name, password) for name, password in passwords.items()}
    their_own = secrets.token_hex(8)
    cluster = Cluster(security="sasl_plaintext", users=passwords, acls=(), settings={**OUR_SETTINGS, **more})
    with cluster, running_kafka_with_users(OWN, passwords | {OWN: their_own}, more) as address:
        our_own = Credentials("PLAIN", OWN, str(cluster.client_settings()["sasl.password"]))
        ours = Broker(cluster.bootstrap_servers, logins=logins | {OWN: our_own})
        their_logins = logins | {OWN: Credentials(MECHANISM, OWN, their_own)}
        yield ours, Broker(address, settle_s=settle_s, logins=their_logins)
