"""What a pipeline asks the cluster before Spark starts: Spark needs seconds, and says the same things in many lines."""

from __future__ import annotations

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.offsets import find_coordinator
from moldau.errors import KafkaError, MoldauError, ProtocolError, kafka_error
from moldau.products.pipelines.group import CLIENT_ID, REQUEST_TIMEOUT_MS
from moldau.products.pipelines.page import PipelinePage
from moldau.shell.io.tcp import TCP
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

CLUSTER_DEFAULT = -1
_UNKNOWN_GROUP_IS_DEAD = 5
_ANSWER_TIMEOUT_MS = 10_000


class PreflightError(MoldauError):
    """The pipeline cannot run on this cluster as it is; the message is one sentence."""


def check_cluster(page: PipelinePage) -> None:
    """Reaches a broker, finds both topics and looks at the group. Raises PreflightError.

    A sink's topic that is not there is made by a cluster that makes topics by itself.
    """
    try:
        with _client(page) as client:
            client.retry(client.any_connection)
            if page.source.topic not in client.retry(lambda: client.refresh([page.source.topic])):
                raise PreflightError(_absent(page, page.source.topic))
            if page.sink.topic is not None:
                _find_or_make(client, page, page.sink.topic)
            _check_group(client, page)
    except KafkaError as error:
        raise PreflightError(str(error)) from error
    except ProtocolError as error:
        raise PreflightError(f"{page.bootstrap_servers} does not answer as a Kafka broker: {error}") from error


def make_topic(page: PipelinePage, topic: str, partitions: int) -> None:
    """Makes the topic unless it is there. Raises PreflightError."""
    asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=CLUSTER_DEFAULT)
    request = CreateTopicsRequest(topics=(asked,), timeout_ms=_ANSWER_TIMEOUT_MS)

    def create(client: ClusterClient) -> None:
        if topic in client.refresh([topic]):
            return
        response = client.any_connection().request(request)
        for row in response.topics:
            if row.error_code:
                error = kafka_error(row.error_code, row.error_message or f"topic {topic!r}")
                if error.name != "TOPIC_ALREADY_EXISTS":
                    raise error

    try:
        with _client(page) as client:
            client.retry(lambda: create(client))
    except KafkaError as error:
        raise PreflightError(f"the topic {topic!r} could not be created: {error}") from error


def _client(page: PipelinePage) -> ClusterClient:
    return ClusterClient(
        TCP,
        page.bootstrap_servers,
        client_id=CLIENT_ID,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        first_contact_timeout_ms=page.first_contact_timeout_ms,
        retry_timeout_ms=_ANSWER_TIMEOUT_MS,
    )


def _absent(page: PipelinePage, topic: str) -> str:
    make = f"moldau topics create {topic} --bootstrap-server {page.bootstrap_servers}"
    return f"topic {topic!r} does not exist on {page.bootstrap_servers}; to create it: {make}"


def _find_or_make(client: ClusterClient, page: PipelinePage, topic: str) -> None:
    try:
        client.topic_to_write(topic)
    except KafkaError as error:
        if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        raise PreflightError(_absent(page, topic)) from error


def _check_group(client: ClusterClient, page: PipelinePage) -> None:
    """The pipeline commits from outside, which a group with members refuses."""
    request = DescribeGroupsRequest(groups=(page.group,))

    def describe() -> DescribeGroupsResponse:
        coordinator = find_coordinator(client, page.group)
        found = coordinator.request(request, max_version=_UNKNOWN_GROUP_IS_DEAD)
        if found.groups[0].error_code:
            raise kafka_error(found.groups[0].error_code, found.groups[0].error_message or f"group {page.group!r}")
        return found

    members = client.retry(describe).groups[0].members
    if members:
        raise PreflightError(
            f"group {page.group!r} has {len(members)} members, the first is {members[0].client_id!r}: only a group "
            "without consumers can show a pipeline's progress; name another one with `group`"
        )
