"""No request of a user without rights has an effect, through any broker.

Brokers forward what the active controller decides. Every version of every API goes to the two of three brokers that are
not the active controller; then the metadata, the logs, the groups and the transactions are unchanged.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from moldau.client.protocol.sasl import Credentials
from moldau.testing import Cluster
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import client_quotas, offsets, scram
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.protocol.messages.transactions import DescribeTransactionsRequest
from tests.differential.answers import differences
from tests.differential.brokers import OUR_SETTINGS, OWN, Broker
from tests.differential.oracle import MECHANISM
from tests.differential.step import Bindings, Step
from tests.differential.steps import ROUNDS, Sequence
from tests.differential.users import LOGINS, state_steps

pytestmark = pytest.mark.slow

STRANGER = "mallory"
SETTINGS = {name: value for name, value in OUR_SETTINGS.items() if name != "node.id"}
METADATA = (
    *("brokers", "configs", "features", "controllers", "client_quotas", "acls", "logins", "next_producer_id"),
    "topics_by_name",
)
REFUSALS = (29, 30, 31, 53)
"""Of a topic, a group, the cluster and a transactional id."""
FEWEST_REFUSED = 40
"""The minimum for one round of about 85 responses: the others have an earlier fault, or need no right."""
OPEN_MS = 600_000
END = "end"
FLUSH_S = 30


class Brokers:
    """The three brokers, each with a connection of the stranger and of the cluster's own user."""

    def __init__(self, cluster: Cluster, password: str) -> None:
        self.cluster = cluster
        logins = {
            STRANGER: Credentials(MECHANISM, STRANGER, password),
            OWN: Credentials("PLAIN", OWN, str(cluster.client_settings()["sasl.password"])),
        }
        addresses = enumerate(cluster.bootstrap_servers.split(","), 1)
        self.by_id = {number: Broker(address, logins=logins) for number, address in addresses}
        self.refused: Counter[int] = Counter()

    def others(self) -> list[int]:
        """The brokers that are not the active controller."""
        return [number for number in self.by_id if number != self.cluster.controller]

    def take(self, number: int, step: Step, bindings: Bindings, prefix: str, user: str) -> Any:
        """As `Broker.take`, without a wait: rejected requests change nothing, and three brokers lead the partitions."""
        alone = msgspec.structs.replace(step, changes=False, transactional_ids=())
        return self.by_id[number].take(alone, bindings, prefix, user)

    def is_level(self, sequence: Sequence) -> bool:
        """Whether followers, which answer a Fetch too, know the high watermark."""
        steps = [step for step in state_steps(sequence) if step.key == ApiKey.FETCH]
        told = [[self.take(number, step, Bindings(0), sequence.prefix, OWN) for step in steps] for number in self.by_id]
        rows = [[topic for answer in answers for topic in answer["responses"]] for answers in told]
        ends = [[row["high_watermark"] for topic in topics for row in topic["partitions"]] for topics in rows]
        return all(each == ends[0] for each in ends)

    def has_ended(self, transactional_id: str) -> bool:
        asked = DescribeTransactionsRequest((transactional_id,))
        return any("Complete" in str(broker.ask(asked, 0)) for broker in self.by_id.values())

    def state(self, sequence: Sequence) -> dict[str, Any]:
        """Every broker's state for the own user, and the metadata without the topic created for this: a broker that
        knows the topic knows all earlier changes."""
        self.cluster.create_topic(f"{END}-{sequence.prefix}-{secrets.token_hex(4)}")
        image = self.cluster.node.broker.image.copy()
        image.topics_by_name = {key: topic for key, topic in image.topics_by_name.items() if not key.startswith(END)}
        bindings = Bindings(0)
        told = {
            f"broker {number}, {step.key.name} {place}": self.take(number, step, bindings, sequence.prefix, OWN)
            for number in self.by_id
            for place, step in enumerate(state_steps(sequence))
        }
        return {**told, **{name: getattr(image, name) for name in METADATA}}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[Any]:
    """The differences: of responses the place, of metadata both."""
    found: list[Any] = []
    for name in before:
        if name in METADATA:
            found += [(name, before[name], after[name])] if before[name] != after[name] else []
        else:
            found += [(name, *difference) for difference in differences(before[name], after[name])]
    return found


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    password = secrets.token_hex(8)
    with Cluster(
        brokers=3, security="sasl_plaintext", users={STRANGER: password}, acls=(), settings=SETTINGS
    ) as cluster:
        made = Brokers(cluster, password)
        made.by_id[1].wait_for_coordinator("any")
        yield made
        for broker in made.by_id.values():
            broker.close()


def fill(brokers: Brokers, sequence: Sequence, bindings: Bindings) -> Producer:
    """Creates everything that the requests would change: topics with records, group offsets, a quota, a credential, an
    ACL, an ended transaction and an open one, whose producer must stay alive."""
    cluster, prefix = brokers.cluster, sequence.prefix
    for count, name in enumerate(sequence.names, 1):
        cluster.create_topic(name, count)
        cluster.produce(name, "a", "b", "c")
        bindings.values[f"topic:{name}"] = cluster.node.broker.image.topic_id(name)
    rows = (offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    for group in sequence.groups:
        request = offsets.OffsetCommitRequest(
            group_id=group, topics=(offsets.OffsetCommitRequestTopic(name=sequence.names[0], partitions=rows),)
        )
        answers = [broker.ask(request, 7) for broker in brokers.by_id.values()]
        assert 0 in [answer.topics[0].partitions[0].error_code for answer in answers]
    user = f"{prefix}-u"
    entity = (client_quotas.AlterQuotaEntity(entity_type="user", entity_name=user),)
    quota = client_quotas.AlterQuotaEntry(entity, (client_quotas.AlterQuotaOperation("producer_byte_rate", 1e9),))
    brokers.by_id[1].ask(client_quotas.AlterClientQuotasRequest((quota,)), 1)
    credential = scram.ScramCredentialUpsertion(f"{prefix}-u0", 1, 4096, b"salt", b"p" * 32)
    brokers.by_id[1].ask(scram.AlterUserScramCredentialsRequest(upsertions=(credential,)), 0)
    brokers.by_id[1].ask(CreateAclsRequest((AclCreation(2, f"{prefix}-t0", 3, "User:somebody", "*", 3, 3),)), 3)
    for number in range(2):
        producer = Producer(
            {
                **cluster.client_settings(),
                "transactional.id": f"{prefix}-x{number}",
                "transaction.timeout.ms": OPEN_MS,
                "log_level": 0,
            }
        )
        producer.init_transactions(FLUSH_S)
        producer.begin_transaction()
        producer.produce(sequence.names[0], b"in a transaction")
        assert producer.flush(FLUSH_S) == 0
        if number == 0:
            producer.commit_transaction(FLUSH_S)
            # the response comes before the markers
            cluster.wait_for(lambda: brokers.has_ended(f"{prefix}-x0"))
    cluster.wait_for(lambda: brokers.is_level(sequence))
    return producer


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_stranger_changes_nothing_through_brokers_that_forward(brokers: Brokers, number: int) -> None:
    sequence = Sequence(number, f"r{number}")
    bindings = Bindings(int(time.time() * 1000))
    producer = fill(brokers, sequence, bindings)
    before = brokers.state(sequence)
    steps = [step for step in sequence.covering_steps(number) if step.key not in LOGINS]
    others = brokers.others()
    assert len(others) == 2
    for other in others:
        answers = [brokers.take(other, step, bindings, sequence.prefix, STRANGER) for step in steps]
        refused = [answer for answer in answers if any(f"'error_code': {code}" in str(answer) for code in REFUSALS)]
        assert len(refused) >= FEWEST_REFUSED, [answer for answer in answers if answer not in refused]
    assert brokers.others() == others
    after = brokers.state(sequence)
    assert changed(before, after) == []
    producer.abort_transaction(FLUSH_S)


def test_the_state_tells_a_change(brokers: Brokers) -> None:
    """The own user changes a little: the comparison sees it."""
    sequence, bindings = Sequence(0, "seen"), Bindings(int(time.time() * 1000))
    producer = fill(brokers, sequence, bindings)
    before = brokers.state(sequence)
    brokers.cluster.produce(sequence.names[1], "more")
    producer.abort_transaction(FLUSH_S)
    brokers.by_id[1].ask(CreateAclsRequest((AclCreation(2, "seen-t1", 3, "User:somebody", "*", 3, 3),)), 3)
    after = brokers.state(sequence)
    differing = {row[0] for row in changed(before, after)}
    assert "acls" in differing
    assert any("FETCH" in name for name in differing)
    assert any("DESCRIBE_TRANSACTIONS" in name for name in differing)
