"""Checks a pipeline against its cluster before Spark starts, because Spark is slow and its errors are long."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import msgspec

from moldau.client.admin.configs import BROKER, TOPIC
from moldau.client.blocking.cluster import ClusterClient
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError, MoldauError, ProtocolError, kafka_error
from moldau.products.pipelines.checkpoints.checkpoint import former_writer, newest_planned_batch
from moldau.products.pipelines.core.slips import meant_by
from moldau.products.pipelines.formats.by_schema import SchemaFormat
from moldau.products.pipelines.running.group import CLIENT_ID, REQUEST_TIMEOUT_MS, GroupError, check_groups
from moldau.products.pipelines.sources.records import RecordSource
from moldau.products.pipelines.spec.offline import check_offline
from moldau.products.pipelines.spec.spec import PipelineQuery, PipelineSpec
from moldau.products.pipelines.targets.topic import TopicTarget
from moldau.transport.access import open_client
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

CLUSTER_DEFAULT = -1
MAX_MESSAGE_BYTES, KAFKA_MESSAGE_BYTES = "max.message.bytes", 1_048_588
"""A topic's setting, and its default."""
MOST_MESSAGE_BYTES = 2**31 - 1
"""The setting's largest value."""
_ANSWER_TIMEOUT_MS = 10_000
_AUTO_CREATE = "auto.create.topics.enable"


class PreflightError(MoldauError):
    """The pipeline cannot run on this cluster as it is; the message is one sentence."""


def check_spec(spec: PipelineSpec, *, on_server: bool = False) -> list[str]:
    """Checks everything that the pipeline needs, before Spark starts; creates nothing. `on_server`: on Spark Connect.
    Returns the missing topics that the cluster would create for a run. Raises PreflightError, SpecError, and the errors
    of sources and targets."""
    check_offline(spec, on_server=on_server)
    for source in spec.sources().values():
        source.check()
    for query in spec.queries:
        if on_server and query.target.NEEDS_DRIVER:
            step = query.step.target
            raise PreflightError(
                f"{spec.file_name}:{step.line}: `{step.place}`: a Spark Connect server writes the batches, and cannot "
                f"write to {query.target.describe()[0]}"
            )
        query.target.check()
        check_owner(spec, query)
        _check_name(spec, query)
    _check_registries(spec)
    return check_cluster(spec)


def _check_registries(spec: PipelineSpec) -> None:
    """Raises RegistryError if a registry does not answer. A running pipeline waits longer, for a registry that has
    answered before."""
    formats = [source.decoder for source in spec.sources().values() if isinstance(source, RecordSource)]
    formats += [query.target.format for query in spec.queries if isinstance(query.target, TopicTarget)]
    found = [one.registry for one in formats if isinstance(one, SchemaFormat)]
    for registry in dict.fromkeys(one for one in found if one is not None):
        registry.check(spec.first_contact_timeout_ms)


def check_owner(spec: PipelineSpec, query: PipelineQuery) -> None:
    """Raises PreflightError if the query's target belongs to another pipeline: both would count their batches there,
    and readers would find the rows of both."""
    owner = query.target.owner()
    if owner is None or owner.is_of(spec.name):
        return
    step = query.step.target
    raise PreflightError(
        f"{spec.file_name}:{step.line}: `{step.place}`: {query.target.describe()[0]} belongs to the pipeline "
        f"{owner.pipeline!r}: name another place with `{query.target.NAMED_BY}`, or, if that pipeline does not write "
        f"there any more, {owner.release}"
    )


def _check_name(spec: PipelineSpec, query: PipelineQuery) -> None:
    """Raises PreflightError if a new target would append its rows to those that the same pipeline wrote there under
    another target name."""
    if newest_planned_batch(query.checkpoint) >= 0:
        return
    streams = [source for source in query.sources.values() if not source.as_table]
    reads = [fact for source in streams for fact in source.where().values()]
    former = former_writer(spec.checkpoint, [one.checkpoint for one in spec.queries], query.places, reads)
    if former is None:
        return
    step = query.step.target
    mend = f"give the target its old name {former.name!r} again"
    if former == spec.checkpoint:
        mend = "write the pipeline file in its short form again"
    raise PreflightError(
        f"{spec.file_name}:{step.line}: `{step.place}` would begin again, and write again what a target of this "
        f"pipeline has written to {query.target.describe()[0]}: {mend}, name another place with "
        f"`{query.target.NAMED_BY}`, or delete {former} if the rows shall be written again"
    )


def check_cluster(spec: PipelineSpec) -> list[str]:
    """Reaches a broker of each cluster, finds the topics and checks the groups. Creates nothing. Raises PreflightError.

    Returns the missing topics of targets on clusters that create topics automatically, for `make_targets`.
    """
    names: dict[str, ClusterAccess] = {}
    absent: list[str] = []
    for access in spec.clusters:
        try:
            with _client(spec, access) as client:
                _refuse_second_name(names, client, access)
                for query in spec.queries:
                    absent += _absent_topics(client, access, query)
        except KafkaError as error:
            raise PreflightError(str(error)) from error
        except ProtocolError as error:
            raise PreflightError(f"{access} does not answer as a Kafka broker: {error}") from error
    try:
        check_groups(spec)
    except GroupError as error:
        raise PreflightError(str(error)) from error
    return list(dict.fromkeys(absent))


def make_targets(spec: PipelineSpec) -> None:
    """Lets the clusters create the missing topics of targets. Raises PreflightError."""
    for query in spec.queries:
        topic = query.target.topic
        if topic is None:
            continue
        try:
            with _client(spec, query.access) as client:
                client.topic_to_write(topic)
        except KafkaError as error:
            raise PreflightError(f"the topic {topic!r} could not be made: {error}") from error


def _refuse_second_name(names: dict[str, ClusterAccess], client: ClusterClient, access: ClusterAccess) -> None:
    """Raises PreflightError if the pipeline file already names the cluster differently, because it would count as two
    clusters. `names`: by cluster id; adds this one."""
    answer = client.retry(lambda: client.any_connection().request(MetadataRequest(topics=())))
    first = names.setdefault(answer.cluster_id or str(access), access)
    if first != access:
        raise PreflightError(
            f"{first} and {access} are one cluster: write its `bootstrap_servers`, or its `cluster`, in the same way "
            "everywhere"
        )


def _absent_topics(client: ClusterClient, access: ClusterAccess, query: PipelineQuery) -> list[str]:
    """The target's topic, if it belongs on this cluster, is missing, and can be created. Raises PreflightError."""
    for source in query.topics():
        if source.access != access:
            continue
        if source.topic is None:
            if not any(source.reads(name) for name in client.list_topics()):
                raise PreflightError(f"no topic on {access} matches {source.pattern!r}")
        elif source.topic not in client.retry(partial(client.refresh, [source.topic])):
            raise PreflightError(_absent(client, access, source.topic))
    topic = query.target.topic
    if access != query.access or topic is None or topic in client.retry(partial(client.refresh, [topic])):
        return []
    # a cluster that creates every topic would also create a misspelt one, whose rows nobody reads
    if meant_by(topic, client.list_topics()) or not _makes_topics(client):
        raise PreflightError(_absent(client, access, topic))
    return [topic]


def _makes_topics(client: ClusterClient) -> bool:
    """Whether the cluster creates topics automatically; true if it does not say."""
    answer = client.retry(lambda: client.any_connection().request(MetadataRequest(topics=())))
    if not answer.brokers:
        return True
    broker = answer.brokers[0]
    client.remember_address(broker.node_id, broker.host, broker.port)
    asked = DescribeConfigsResource(BROKER, str(broker.node_id), (_AUTO_CREATE,))
    request = DescribeConfigsRequest(resources=(asked,))
    response = client.retry(lambda: client.connection_to(broker.node_id).request(request))
    return not any(one.name == _AUTO_CREATE and one.value == "false" for row in response.results for one in row.configs)


def make_topic(spec: PipelineSpec, topic: str, partitions: int, *, message_bytes: int = 0) -> None:
    """Creates the topic unless it exists. `message_bytes`: the least size of a batch of records that it must accept, if
    that exceeds Kafka's default. Raises PreflightError."""
    largest = str(min(message_bytes, MOST_MESSAGE_BYTES))
    room = (CreatableTopicConfig(MAX_MESSAGE_BYTES, largest),) if message_bytes > KAFKA_MESSAGE_BYTES else ()
    asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=CLUSTER_DEFAULT, configs=room)
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
        with _client(spec, spec.access) as client:
            client.retry(lambda: create(client))
    except KafkaError as error:
        raise PreflightError(f"the topic {topic!r} could not be created: {error}") from error


def largest_message(spec: PipelineSpec, access: ClusterAccess, topics: Collection[str]) -> int:
    """The largest batch of records that one of these topics accepts; 0 if the cluster does not say. Raises
    PreflightError."""
    asked = (DescribeConfigsResource(TOPIC, topic, (MAX_MESSAGE_BYTES,)) for topic in topics)
    request = DescribeConfigsRequest(resources=tuple(asked))
    try:
        with _client(spec, access) as client:
            response = client.retry(lambda: client.any_connection().request(request))
    except KafkaError as error:
        raise PreflightError(f"the settings of {', '.join(topics)} could not be read: {error}") from error
    settings = (one for found in response.results for one in found.configs)
    return max((int(one.value or 0) for one in settings if one.name == MAX_MESSAGE_BYTES), default=0)


def _client(spec: PipelineSpec, access: ClusterAccess) -> ClusterClient:
    own = msgspec.structs.replace(
        access.named(CLIENT_ID),
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        first_contact_timeout_ms=spec.first_contact_timeout_ms,
        retry_timeout_ms=_ANSWER_TIMEOUT_MS,
    )
    return open_client(own)


def _absent(client: ClusterClient, access: ClusterAccess, topic: str) -> str:
    meant = meant_by(topic, client.list_topics())
    near = f"; did you mean {meant}?" if meant else ""
    make = f"moldau topics create {topic} --bootstrap-server {access}"
    what = f"topic {topic!r} does not exist on {access}{near}"
    return f"{what} To create it: {make}" if near else f"{what}; to create it: {make}"
