"""Nodes of both kinds with SASL_SSL on all listeners, and ACLs: their settings, their users, and users' requests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from moldau.client.protocol.access import ClusterAccess
from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.errors.kafka import SaslAuthenticationFailedError
from moldau.transport.access import open_connection
from moldau.wire.protocol.jaas import PLAIN_MODULE, SCRAM_MODULE
from moldau.wire.protocol.messages.acls import DescribeAclsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from moldau.wire.protocol.sasl_tokens import salted_password
from tests.support.cluster_of_three import NODE_IDS, SEPARATE_ROLES, ClusterOfThree, apache_command, moldau_command
from tests.support.tls_settings import of_broker, trusting

PASSWORDS = {"node": "of-all-nodes", "admin": "of-the-admin", "alice": "of-alice"}
SCRAM = "SCRAM-SHA-512"
BROKERS = [node_id for node_id, roles in SEPARATE_ROLES.items() if roles == "broker"]
ANY = 1
EVERY_ACL = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)


def settings(scratch: Path) -> dict[str, str]:
    """Nodes log in by PLAIN: Apache Kafka's controllers know no SCRAM user before they have found each other."""
    users = " ".join(f'user_{name}="{PASSWORDS[name]}"' for name in ("node", "admin"))
    plain = f'{PLAIN_MODULE} required username="node" password="{PASSWORDS["node"]}" {users};'
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": plain,
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node;User:admin",
        **of_broker(scratch),
    }


def client(scratch: Path, user: str) -> dict[str, str]:
    """Settings of librdkafka."""
    return {
        **trusting(scratch),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN" if user == "admin" else SCRAM,
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
    }


class Asking:
    """One user who asks one broker after the other."""

    def __init__(self, scratch: Path, cluster: ClusterOfThree, user: str) -> None:
        self._client = client(scratch, user)
        self._cluster = cluster

    def at(self, node_id: int, request: Any) -> Any:
        server = f"127.0.0.1:{self._cluster.ports_of(node_id)[0]}"
        access = ClusterAccess.from_properties({**self._client, "bootstrap.servers": server})
        host, port = access.addresses()[0]
        with open_connection(access, host, port) as connection:
            return connection.request(request)

    def may_log_in(self, node_id: int) -> bool:
        """Whether the broker knows the user: it learns of a new one a moment later."""
        try:
            self.at(node_id, MetadataRequest(topics=()))
        except SaslAuthenticationFailedError:
            return False
        return True

    def topics(self, node_id: int) -> dict[str, int]:
        """The topics that the broker knows, each with its partitions."""
        answer = self.at(node_id, MetadataRequest(topics=None))
        return {topic.name: len(topic.partitions) for topic in answer.topics if not topic.name.startswith("__")}

    def acls(self, node_id: int) -> list[tuple[str, str, int]]:
        rows = self.at(node_id, EVERY_ACL).resources
        return sorted((row.resource_name, acl.principal, acl.operation) for row in rows for acl in row.acls)


def code_of(answer: Any) -> int:
    """The error code of a response for one thing."""
    for name in ("topics", "responses", "results", "filter_results", "entries"):
        rows = getattr(answer, name, ())
        if rows:
            return int(rows[0].error_code)
    return int(answer.error_code)


def create_alice(admin: Asking, node_id: int) -> None:
    salt = b"a salt of twenty byt"
    salted = salted_password(SCRAM, PASSWORDS["alice"], salt, 4_096)
    upsertion = ScramCredentialUpsertion("alice", 2, 4_096, salt, salted)
    answer = admin.at(node_id, AlterUserScramCredentialsRequest(upsertions=(upsertion,)))
    assert code_of(answer) == 0


def commands(of_kafka: tuple[int, ...]) -> dict[int, Any]:
    kafka = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    return {node_id: kafka if node_id in of_kafka else moldau_command for node_id in NODE_IDS}
