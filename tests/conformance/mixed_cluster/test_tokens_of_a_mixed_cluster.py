"""Delegation tokens of a cluster of Moldau's and Apache Kafka's nodes: created at one, valid at the other (KIP-48).

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from moldau.wire.protocol.jaas import SCRAM_MODULE
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA
from tests.support.cluster_of_three import SEPARATE_ROLES, ClusterOfThree, cluster_of_three
from tests.support.secured_mixed_cluster import (
    BROKERS,
    SCRAM,
    Asking,
    client,
    commands,
    create_alice,
    settings,
)
from tests.support.tls_settings import trusting

pytestmark = [*NEEDS_APACHE_KAFKA, pytest.mark.timeout(600)]

SECRET_KEY = "the-secret-of-all-nodes"


class Bearer(Asking):
    """Has a token, and no password."""

    def __init__(self, scratch: Path, cluster: ClusterOfThree, token: Any) -> None:
        super().__init__(scratch, cluster, "alice")
        password = base64.b64encode(token.hmac).decode()
        login = f'{SCRAM_MODULE} required username="{token.token_id}" password="{password}" tokenauth="true";'
        security = {"security.protocol": "SASL_SSL", "sasl.mechanism": SCRAM, "sasl.jaas.config": login}
        self._client = {**trusting(scratch), **security}


def times(asking: Asking, node_id: int) -> dict[str, int]:
    """The expiry of each described token, by its id."""
    answer = asking.at(node_id, DescribeDelegationTokenRequest(None))
    assert answer.error_code == 0
    return {token.token_id: token.expiry_timestamp for token in answer.tokens}


@pytest.mark.parametrize("of_kafka", [(1, 2), (2,)], ids=["controller of kafka", "controller of moldau"])
def test_a_token_holds_at_nodes_of_both_kinds(tmp_path: Path, of_kafka: tuple[int, ...]) -> None:
    made = cluster_of_three(
        tmp_path,
        commands(of_kafka),
        of_kafka,
        SEPARATE_ROLES,
        settings={**settings(tmp_path), "delegation.token.secret.key": SECRET_KEY},
        clients=client(tmp_path, "admin"),
    )
    with made as cluster:
        cluster.create_topic()
        admin, alice = Asking(tmp_path, cluster, "admin"), Asking(tmp_path, cluster, "alice")
        create_alice(admin, BROKERS[0])
        for node_id in BROKERS:
            cluster.wait_until(lambda node_id=node_id: alice.may_log_in(node_id))
        for here, there in (BROKERS, BROKERS[::-1]):
            request = CreateDelegationTokenRequest(None, None, (CreatableRenewers("User", "admin"),), 3_600_000)
            token = alice.at(here, request)
            assert token.error_code == 0, cluster.told()
            assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
            bearer = Bearer(tmp_path, cluster, token)
            for node_id in BROKERS:
                cluster.wait_until(lambda node_id=node_id, bearer=bearer: bearer.may_log_in(node_id))
                assert bearer.at(node_id, CreateDelegationTokenRequest(None, None)).error_code == 64
                foreign = CreateDelegationTokenRequest("User", "admin")
                assert alice.at(node_id, foreign).error_code == 65
            renewed = admin.at(there, RenewDelegationTokenRequest(token.hmac, 600_000))
            assert renewed.error_code == 0
            told = {token.token_id: renewed.expiry_timestamp_ms}
            for node_id in BROKERS:
                cluster.wait_until(lambda node_id=node_id, told=told: times(alice, node_id) == told)
            assert alice.at(there, ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0
            for node_id in BROKERS:
                cluster.wait_until(lambda node_id=node_id, bearer=bearer: not bearer.may_log_in(node_id))
                assert times(alice, node_id) == {}
        assert SECRET_KEY not in cluster.told()
