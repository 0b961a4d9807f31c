"""Invalid changes and requests of settings of topics, brokers, loggers, groups and subscriptions, and of quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.simulation.workloads.refusals.case import (
    BAD_NAMES,
    COMPACTED,
    GROUP,
    LARGEST_BATCH,
    PACKED,
    PLAIN,
    UNKNOWN,
    Case,
)
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)
from moldau.wire.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUPS = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
NODE = "1"
"""`node.id` in every story."""
MANY = 450

Change = tuple[str, int, str | None]

UNDESCRIBED: tuple[tuple[int, str, str], ...] = (
    (TOPIC, UNKNOWN, "UNKNOWN_TOPIC_OR_PARTITION"),
    *((TOPIC, name, "INVALID_TOPIC_EXCEPTION") for name in BAD_NAMES),
    *((BROKER, name, "INVALID_REQUEST") for name in ("7", "-1", "one", "1.0", "99999999999")),
    *((LOGGER, name, "INVALID_REQUEST") for name in ("", "7", "one")),
    (CLIENT_METRICS, "", "INVALID_REQUEST"),
    (GROUPS, "", "INVALID_REQUEST"),
    *((kind, NODE, "INVALID_REQUEST") for kind in (0, 1, 3, 99, -1)),
)

UNALTERED: tuple[tuple[int, str, tuple[Change, ...], str], ...] = (
    (TOPIC, PLAIN, (("no.such.setting", SET, "1"),), "INVALID_CONFIG"),
    (TOPIC, PLAIN, (("retention.ms", SET, "soon"),), "INVALID_CONFIG"),
    (TOPIC, PLAIN, (("retention.ms", SET, None),), "INVALID_REQUEST"),
    (TOPIC, PLAIN, (("retention.ms", 9, "5"),), "INVALID_REQUEST"),
    (TOPIC, PLAIN, (("retention.ms", -1, "5"),), "INVALID_REQUEST"),
    (TOPIC, PLAIN, (("retention.ms", SET, "5"), ("retention.ms", DELETE, None)), "INVALID_REQUEST"),
    (TOPIC, PLAIN, (("retention.ms", APPEND, "5"),), "INVALID_CONFIG"),
    (TOPIC, PLAIN, (("retention.ms", SUBTRACT, "5"),), "INVALID_CONFIG"),
    (TOPIC, PLAIN, (("cleanup.policy", APPEND, "keep"),), "INVALID_CONFIG"),
    (TOPIC, PLAIN, (("retention.ms", SET, "6000"), ("segment.bytes", SET, "1")), "INVALID_CONFIG"),
    (TOPIC, "", (("retention.ms", SET, "5"),), "INVALID_REQUEST"),
    (TOPIC, "..", (("retention.ms", SET, "5"),), "INVALID_TOPIC_EXCEPTION"),
    (TOPIC, UNKNOWN, (("retention.ms", SET, "5"),), "UNKNOWN_TOPIC_OR_PARTITION"),
    (BROKER, "7", (("message.max.bytes", SET, "5"),), "INVALID_REQUEST"),
    (BROKER, "one", (("message.max.bytes", SET, "5"),), "INVALID_REQUEST"),
    (BROKER, "01", (("message.max.bytes", SET, "5"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("node.id", SET, "7"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("message.max.bytes", SET, "many"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("message.max.bytes", SET, "-1"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("message.max.bytes", APPEND, "1"),), "INVALID_CONFIG"),
    (BROKER, NODE, (("no.such.setting", SUBTRACT, "1"),), "INVALID_CONFIG"),
    (BROKER, NODE, (("ssl.keystore.location", SET, "/k"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("listeners", SET, "PLAINTEXT://broker:9099"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("metric.reporters", SET, "no.such.Class"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("num.io.threads", SET, "1000"),), "INVALID_REQUEST"),
    (BROKER, NODE, (("num.io.threads", SET, "0"),), "INVALID_REQUEST"),
    (
        BROKER,
        NODE,
        (("log.cleaner.dedupe.buffer.size", SET, "2000000"), ("log.cleaner.threads", SET, "2")),
        "INVALID_REQUEST",
    ),
    (BROKER, "", (("listener.name.plain.ssl.keystore.location", SET, "/k"),), "INVALID_REQUEST"),
    (BROKER, "", (("max.connections", SET, "0"),), "INVALID_REQUEST"),
    (BROKER, "", (("max.connection.creation.rate", SET, "0"),), "INVALID_REQUEST"),
    (BROKER, "", (("log.local.retention.ms", SET, "-1"),), "INVALID_REQUEST"),
    (BROKER, "", (("log.local.retention.ms", SET, "999999999999"),), "INVALID_REQUEST"),
    (BROKER, "", (("log.cleaner.dedupe.buffer.size", SET, "1000"),), "INVALID_REQUEST"),
    (BROKER, "", (("log.cleaner.min.compaction.lag.ms", SET, "-1"),), "INVALID_REQUEST"),
    (GROUPS, "", (("consumer.session.timeout.ms", SET, "45000"),), "INVALID_REQUEST"),
    (GROUPS, GROUP, (("no.such.setting", SET, "45000"),), "INVALID_CONFIG"),
    (GROUPS, GROUP, (("consumer.session.timeout.ms", SET, "1"),), "INVALID_CONFIG"),
    (GROUPS, GROUP, (("consumer.session.timeout.ms", SET, "99999999"),), "INVALID_CONFIG"),
    (GROUPS, GROUP, (("consumer.session.timeout.ms", SET, "long"),), "INVALID_CONFIG"),
    (GROUPS, GROUP, (("consumer.session.timeout.ms", APPEND, "1"),), "INVALID_CONFIG"),
    (GROUPS, GROUP, (("share.auto.offset.reset", SET, "yesterday"),), "INVALID_CONFIG"),
    (CLIENT_METRICS, "", (("interval.ms", SET, "100"),), "INVALID_REQUEST"),
    (CLIENT_METRICS, "refused", (("no.such.setting", SET, "1"),), "INVALID_REQUEST"),
    (CLIENT_METRICS, "refused", (("interval.ms", SET, "1"),), "INVALID_REQUEST"),
    (CLIENT_METRICS, "refused", (("interval.ms", SET, "often"),), "INVALID_CONFIG"),
    (CLIENT_METRICS, "refused", (("match", SET, "client_id"),), "INVALID_CONFIG"),
    (CLIENT_METRICS, "refused", (("match", SET, "client_id=("),), "INVALID_CONFIG"),
    (LOGGER, NODE, (("no.such.logger", SET, "INFO"),), "INVALID_CONFIG"),
    (LOGGER, NODE, (("root", SET, "LOUD"),), "INVALID_CONFIG"),
    (LOGGER, NODE, (("root", SET, None),), "INVALID_REQUEST"),
    (LOGGER, NODE, (("root", DELETE, None),), "INVALID_REQUEST"),
    (LOGGER, NODE, (("root", APPEND, "INFO"),), "INVALID_REQUEST"),
    (LOGGER, NODE, (("root", SUBTRACT, "INFO"),), "INVALID_REQUEST"),
    (LOGGER, NODE, (("root", 9, "INFO"),), "INVALID_REQUEST"),
    (LOGGER, NODE, (("root", SET, "INFO"), ("root", SET, "INFO")), "INVALID_REQUEST"),
    (LOGGER, "7", (("root", SET, "INFO"),), "INVALID_REQUEST"),
    (LOGGER, "", (("root", SET, "INFO"),), "INVALID_REQUEST"),
    (99, NODE, (("retention.ms", SET, "5"),), "INVALID_REQUEST"),
)
"""Resource, changes, and the only error."""

ONLY_JUDGED: tuple[tuple[int, str, tuple[Change, ...]], ...] = (
    (TOPIC, PLAIN, (("retention.ms", SET, "5000"),)),
    (TOPIC, PLAIN, (("max.message.bytes", DELETE, None),)),
    (TOPIC, PLAIN, (("cleanup.policy", APPEND, "compact"),)),
    (TOPIC, COMPACTED, (("cleanup.policy", SET, "compact,delete"),)),
    (GROUPS, GROUP, (("consumer.session.timeout.ms", SET, "50000"), ("share.auto.offset.reset", SET, "earliest"))),
    (GROUPS, GROUP, (("share.auto.offset.reset", SET, "by_duration:PT1H"),)),
    (CLIENT_METRICS, "refused", (("interval.ms", SET, "5000"), ("match", SET, "client_id=a.*,client_source_port=1"))),
    (BROKER, "", (("message.max.bytes", SET, "2000000"),)),
    (BROKER, "", (("log.retention.ms", SET, "604800000"),)),
    (BROKER, NODE, (("num.io.threads", SET, "10"),)),
    (LOGGER, NODE, (("root", SET, "WARN"),)),
)

BAD_QUOTAS: tuple[tuple[tuple[tuple[str, str | None], ...], str, float], ...] = (
    ((), "producer_byte_rate", 1.0),
    ((("planet", "x"),), "producer_byte_rate", 1.0),
    ((("user", ""),), "producer_byte_rate", 1.0),
    ((("ip", "127.0.0.1"), ("user", "x")), "connection_creation_rate", 1.0),
    ((("ip", "no address"),), "connection_creation_rate", 1.0),
    ((("ip", "127.0.0.1"),), "producer_byte_rate", 1.0),
    ((("user", "refused"),), "no_such_rate", 1.0),
    ((("user", "refused"),), "connection_creation_rate", 1.0),
    *(((("user", "refused"),), "producer_byte_rate", value) for value in (0.0, -1.0, 0.5, 1e30, float("nan"))),
    ((("ip", None),), "connection_creation_rate", 3e9),
)

BAD_FILTERS: tuple[tuple[tuple[tuple[str, int, str | None], ...], str], ...] = (
    ((("user", 9, None),), "INVALID_REQUEST"),
    ((("user", 0, None),), "INVALID_REQUEST"),
    ((("user", 1, "x"),), "INVALID_REQUEST"),
    ((("user", 2, "x"),), "INVALID_REQUEST"),
    ((("", 2, None),), "INVALID_REQUEST"),
    ((("user", 2, None), ("user", 1, None)), "INVALID_REQUEST"),
    ((("ip", 2, None), ("user", 1, None)), "INVALID_REQUEST"),
    ((("planet", 2, None),), "UNSUPPORTED_VERSION"),
)


def settings_cases() -> Iterator[Case]:
    """All requests about settings and quotas."""
    yield from _descriptions()
    yield from _lists()
    yield from _alterations()
    yield from _replacements()
    yield from _quotas()


def _describe(name: str, *resources: DescribeConfigsResource, refusals: tuple[str, ...] = (), **fields: Any) -> Case:
    request = DescribeConfigsRequest(resources, **fields)
    return Case(f"DescribeConfigs {name}", request, refusals)


def _descriptions() -> Iterator[Case]:
    for kind, name, refusal in UNDESCRIBED:
        yield _describe(f"{kind} {name!r}", DescribeConfigsResource(kind, name, None), refusals=(refusal,))
    asked = tuple(DescribeConfigsResource(TOPIC, name, None) for name in (UNKNOWN, PLAIN, ".."))
    refusals = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")
    yield _describe("one of three", *asked, refusals=refusals)
    some = ("max.message.bytes", "retention.ms", "no.such.setting")
    expected = {"max.message.bytes": (str(LARGEST_BATCH), 1), "retention.ms": ("604800000", 5)}

    def values_fault(answer: Any) -> str:
        found = {row.name: (row.value, row.config_source) for row in answer.results[0].configs}
        return "" if found == expected else f"expected {expected}, got {found}"

    def synonyms_fault(answer: Any) -> str:
        for row in answer.results[0].configs:
            if row.synonyms and (row.value, row.config_source) != (row.synonyms[0].value, row.synonyms[0].source):
                return f"{row.name} is {row.value}, and its first synonym {row.synonyms[0]}"
        return "" if answer.results[0].configs else "no setting is described"

    named = DescribeConfigsResource(TOPIC, PLAIN, some)
    yield Case("DescribeConfigs of two", DescribeConfigsRequest((named,)), fault=values_fault)
    for kind, name in (
        (TOPIC, PLAIN),
        (TOPIC, PACKED),
        (BROKER, ""),
        (BROKER, NODE),
        (BROKER, "+1"),
        (LOGGER, NODE),
        (CLIENT_METRICS, "refused"),
        (GROUPS, GROUP),
    ):
        # the loggers depend on the other imports of this process
        keys = ("root",) if kind == LOGGER else None
        request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, keys),), True, True)
        fault = synonyms_fault if (kind, name) != (BROKER, "") else lambda answer: ""
        yield Case(f"DescribeConfigs {kind} {name!r}", request, versions=(3, 4), fault=fault)


def _lists() -> Iterator[Case]:
    unknown = ListConfigResourcesRequest((TOPIC, 99))
    refusals = ("UNSUPPORTED_VERSION",)
    yield Case("ListConfigResources of 99", unknown, refusals, (1, 1))

    def topics_fault(answer: Any) -> str:
        names = [row.resource_name for row in answer.config_resources if row.resource_type == TOPIC]
        return "" if PLAIN in names and UNKNOWN not in names else f"topics are {names}"

    def nodes_fault(answer: Any) -> str:
        names = [(row.resource_name, row.resource_type) for row in answer.config_resources]
        return "" if names == [(NODE, LOGGER), (NODE, BROKER)] else f"brokers are {names}"

    of_topics, of_nodes = ListConfigResourcesRequest((TOPIC,)), ListConfigResourcesRequest((BROKER, LOGGER))
    yield Case("ListConfigResources of topics", of_topics, versions=(1, 1), fault=topics_fault)
    yield Case("ListConfigResources of nodes", of_nodes, versions=(1, 1), fault=nodes_fault)


def _resource(kind: int, name: str, changes: tuple[Change, ...]) -> IncrementalAlterConfigsResource:
    return IncrementalAlterConfigsResource(kind, name, tuple(IncrementalAlterableConfig(*change) for change in changes))


def _alter(name: str, *resources: IncrementalAlterConfigsResource, refusals: tuple[str, ...], judge: bool) -> Case:
    request = IncrementalAlterConfigsRequest(resources, validate_only=judge)
    return Case(f"IncrementalAlterConfigs {name}", request, refusals)


def _alterations() -> Iterator[Case]:
    for kind, name, changes, refusal in UNALTERED:
        asked = _resource(kind, name, changes)
        yield _alter(f"{kind} {name!r} {changes}", asked, refusals=(refusal,), judge=False)
    for kind, name, changes in ONLY_JUDGED:
        yield _alter(f"judged {kind} {name!r} {changes}", _resource(kind, name, changes), refusals=(), judge=True)
    good = _resource(TOPIC, PLAIN, (("retention.ms", SET, "5000"),))
    yield _alter("of one topic twice", good, good, refusals=("INVALID_REQUEST",) * 2, judge=False)
    root = _resource(LOGGER, NODE, (("root", SET, "WARN"),))
    yield _alter("of one logger twice", root, root, refusals=("INVALID_REQUEST",) * 2, judge=False)
    unknown = tuple(_resource(TOPIC, f"refused.{number}", (("retention.ms", SET, "5"),)) for number in range(MANY))
    yield _alter("of many", *unknown, refusals=("UNKNOWN_TOPIC_OR_PARTITION",) * MANY, judge=False)


def alteration(name: str, kind: int, resource: str, changes: tuple[Change, ...]) -> Case:
    """A valid IncrementalAlterConfigs."""
    return _alter(name, _resource(kind, resource, changes), refusals=(), judge=False)


def _replace(name: str, *resources: AlterConfigsResource, refusals: tuple[str, ...], judge: bool = False) -> Case:
    request = AlterConfigsRequest(resources, validate_only=judge)
    return Case(f"AlterConfigs {name}", request, refusals)


def _replacements() -> Iterator[Case]:
    for kind, name, changes, refusal in UNALTERED:
        if kind != LOGGER and all(operation == SET for _, operation, _ in changes):
            configs = tuple(AlterableConfig(setting, value) for setting, _, value in changes)
            asked = AlterConfigsResource(kind, name, configs)
            yield _replace(f"{kind} {name!r} {changes}", asked, refusals=(refusal,))
    yield _replace("of a logger", AlterConfigsResource(LOGGER, NODE), refusals=("INVALID_REQUEST",))
    good = AlterConfigsResource(TOPIC, PLAIN, (AlterableConfig("retention.ms", "5000"),))
    yield _replace("of one topic twice", good, good, refusals=("INVALID_REQUEST",) * 2)
    yield _replace("only judged", good, refusals=(), judge=True)


def _quota(name: str, *entries: AlterQuotaEntry, refusals: tuple[str, ...], judge: bool = False) -> Case:
    request = AlterClientQuotasRequest(entries, validate_only=judge)
    return Case(f"AlterClientQuotas {name}", request, refusals)


def _quotas() -> Iterator[Case]:
    for parts, key, value in BAD_QUOTAS:
        entity = tuple(AlterQuotaEntity(*part) for part in parts)
        entry = AlterQuotaEntry(entity, (AlterQuotaOperation(key, value),))
        yield _quota(f"{parts} {key}={value}", entry, refusals=("INVALID_REQUEST",))
    user = (AlterQuotaEntity("user", "refused"),)
    good = AlterQuotaEntry(user, (AlterQuotaOperation("producer_byte_rate", 1_000.0),))
    twice = AlterQuotaEntry(user, (AlterQuotaOperation("producer_byte_rate", 1_000.0),) * 2)
    yield _quota("of one entity twice", good, good, refusals=("INVALID_REQUEST",))
    yield _quota("of one key twice", twice, refusals=("INVALID_REQUEST",))
    yield _quota("only judged", good, refusals=(), judge=True)
    gone = AlterQuotaEntry(user, (AlterQuotaOperation("producer_byte_rate", remove=True),))
    yield _quota("that take none away", gone, refusals=())
    address = AlterQuotaEntry(
        (AlterQuotaEntity("ip", "localhost"),), (AlterQuotaOperation("connection_creation_rate", 10.0),)
    )
    yield _quota("of an address, only judged", address, refusals=(), judge=True)
    for components, refusal in BAD_FILTERS:
        request = DescribeClientQuotasRequest(tuple(QuotaFilterComponent(*component) for component in components))
        yield Case(f"DescribeClientQuotas {components}", request, (refusal,))

    def fault(answer: Any) -> str:
        return f"{answer.entries} were never set" if answer.entries else ""

    for kind in (0, 1):
        component = QuotaFilterComponent("user", kind, "refused" if kind == 0 else None)
        request = DescribeClientQuotasRequest((component,), strict=True)
        yield Case(f"DescribeClientQuotas {kind}", request, fault=fault)
