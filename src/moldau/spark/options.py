"""Options of the source and the sink, with the names of Spark's Kafka connector.

Checks all options before any request to a broker: rejects unknown options and invalid values, by name. Option names are
case-insensitive, as everywhere in Spark. Only converts text to values, without pyspark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal, NoReturn

import msgspec

from moldau.client.protocol.access import (
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CONNECT_TIMEOUT,
    FIRST_CONTACT_TIMEOUT_MS,
    LARGEST_CLIENT_NUMBER,
    REQUEST_TIMEOUT,
    RETRY_TIMEOUT_MS,
    AccessError,
    ClusterAccess,
)
from moldau.client.protocol.secrets import SECRET_SETTINGS
from moldau.client.protocol.security import SECURITY_SETTINGS
from moldau.errors import KafkaError, MoldauError
from moldau.spark.refused_options import CLIENT_PREFIX, Side, why_refused
from moldau.transport.profiles import profile_access
from moldau.types import TopicPartition

LATEST = -1
EARLIEST = -2

Isolation = Literal["read_committed", "read_uncommitted"]

FETCH_MAX_BYTES = 4 * 1024 * 1024
"""Of one Fetch response, and so of an Arrow batch: larger ones are no faster, and delay the first row."""

LARGEST_FETCH_BYTES = 1 << 30
MAX_TRIGGER_DELAY_MS = 15 * 60_000
"""As in Spark's connector."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

DEFAULT_CLIENT_ID = "moldau-spark"

PROFILE = "profile"
_ACCESS_OPTIONS = ("kafka.bootstrap.servers", PROFILE, *(f"{CLIENT_PREFIX}{name}" for name in SECURITY_SETTINGS))

SOURCE_OPTIONS = (
    *_ACCESS_OPTIONS,
    "kafka.group.id",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.fetch.max.bytes",
    "kafka.check.crcs",
    "kafka.security.protocol",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "startingGroup",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "isolation",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "firstContactTimeoutMs",
    "retryTimeoutMs",
)
SINK_OPTIONS = (
    *_ACCESS_OPTIONS,
    "topic",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.security.protocol",
    "kafka.compression.type",
    "delivery",
    "kafka.transactional.id",
    "kafka.transaction.timeout.ms",
    "kafka.group.id",
    "groupNote",
    "sourceTopics",
    "checkpointLocation",
    "batchId",
    "write_id",
    "firstContactTimeoutMs",
    "retryTimeoutMs",
)
ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
_NO_SECRET = (
    "holds a secret itself: Spark shows options in its plans, and sends them to executors. Put a reference in its "
    "place that they can read, ${env:NAME}, ${file:PATH:NAME} or ${directory:DIRECTORY:FILE} (for the password in "
    "kafka.sasl.jaas.config, too), or set profile"
)
_TRANSACTION_OPTIONS = (
    "kafka.transactional.id",
    "kafka.transaction.timeout.ms",
    "kafka.group.id",
    "groupNote",
    "sourceTopics",
    "batchId",
    "write_id",
)

# Spark itself adds these to the user's options; they do not matter here.
_SPARK_OWN = frozenset({"checkpointlocation", "queryname", "querynameforlogging", "path"})


class OptionError(MoldauError, ValueError):
    """An option is unknown, missing or invalid; the message names it."""


class StartOrEnd(msgspec.Struct, frozen=True):
    """Where reading starts or ends. Exactly one of the three is set.

    `position`: LATEST or EARLIEST for every partition; `offsets`: one offset (or LATEST, EARLIEST) per partition;
    `timestamps_ms`: one time per partition; the key None means every partition.
    """

    position: int | None = None
    offsets: dict[TopicPartition, int] | None = None
    timestamps_ms: dict[TopicPartition | None, int] | None = None


class Subscription(msgspec.Struct, frozen=True):
    """The partitions to read: all of topics by name, all of topics by pattern (the whole name must match), or single
    ones."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A source's checked options. `use_latest_after_last_timestamp`: a starting time after the last record means the
    end of the partition instead of an error. `starting_group`: reading starts at the committed offsets of this group;
    `start` then applies to partitions without one. A stream begins no batch below `min_offsets_per_trigger` until
    `max_trigger_delay_ms` after the last one."""

    access: ClusterAccess
    subscription: Subscription
    start: StartOrEnd
    end: StartOrEnd
    group_id: str | None = None
    use_latest_after_last_timestamp: bool = False
    starting_group: str | None = None
    isolation: Isolation = "read_committed"
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    fetch_max_bytes: int = FETCH_MAX_BYTES
    check_crcs: bool = True


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A sink's checked options. `transactional_id`, `transaction_timeout_ms`, `group_id`: None: the sink chooses.
    `group_note`: a text in the metadata of the group's offsets. `source_topics`: regular expressions for the whole
    names of the source topics on the sink's cluster. `checkpoint_location`: of the streaming query. `batch_id`: of the
    micro-batch, from `foreachBatch`. `write_id`: one transaction for each task of a batch write, which a second write
    with this id does not repeat."""

    access: ClusterAccess
    topic: str | None = None
    compression_type: str = "none"
    delivery: str = EXACTLY_ONCE
    transactional_id: str | None = None
    transaction_timeout_ms: int | None = None
    group_id: str | None = None
    group_note: str | None = None
    source_topics: tuple[str, ...] | None = None
    checkpoint_location: str | None = None
    batch_id: int | None = None
    write_id: str | None = None


def parse_source_options(options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Raises OptionError. By default a stream starts at "latest", a batch at "earliest", as in Spark's connector."""
    given = _known_options(options, SOURCE_OPTIONS, "source")
    if is_streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in given:
                _refuse(name, "has no meaning for a stream, which does not end")
    else:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
            if name.lower() in given:
                _refuse(name, "is for streams: a batch reads all of its range")
    access = _access(given)
    start = _parse_start_or_end(given, "starting", LATEST if is_streaming else EARLIEST)
    end = _parse_start_or_end(given, "ending", LATEST)
    if not is_streaming:
        _check_batch_bounds(start, end)
    least, most = _positive(given, "minOffsetsPerTrigger"), _positive(given, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        _refuse("minOffsetsPerTrigger", f"is {least}, more than maxOffsetsPerTrigger, which is {most}")
    if least is None and "maxtriggerdelay" in given:
        _refuse("maxTriggerDelay", "needs minOffsetsPerTrigger: without it no batch is delayed")
    return SourceOptions(
        access=access,
        subscription=_parse_subscription(given),
        start=start,
        end=end,
        group_id=_not_empty(given, "kafka.group.id"),
        use_latest_after_last_timestamp=_choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"))
        == "latest",
        starting_group=_not_empty(given, "startingGroup"),
        isolation=_isolation(given),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_delay_ms(given, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        min_partitions=_positive(given, "minPartitions"),
        max_records_per_partition=_positive(given, "maxRecordsPerPartition"),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
        include_headers=_boolean(given, "includeHeaders", default=False),
        fetch_max_bytes=_fetch_max_bytes(given),
        check_crcs=_boolean(given, "kafka.check.crcs", default=True),
    )


def wants_headers(options: Mapping[str, str]) -> bool:
    """Whether `includeHeaders` is set, the only option that changes the schema of a source. Raises OptionError."""
    return _boolean(_known_options(options, SOURCE_OPTIONS, "source"), "includeHeaders", default=False)


def refuse_secrets(options: Mapping[str, str]) -> None:
    """For a source, because Spark reads its other options only when it plans a query. Raises OptionError."""
    given = _known_options(options, SOURCE_OPTIONS, "source")
    if any(f"{CLIENT_PREFIX}{name}" in given for name in SECRET_SETTINGS):
        _access(given)


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises OptionError. Without `topic`, every row must name its topic in a column `topic`."""
    given = _known_options(options, SINK_OPTIONS, "sink")
    access = _access(given)
    delivery = _choice(given, "delivery", (EXACTLY_ONCE, AT_LEAST_ONCE))
    for name in _TRANSACTION_OPTIONS:
        if delivery == AT_LEAST_ONCE and name.lower() in given:
            _refuse(name, f"belongs to a transaction, and there is none with delivery {AT_LEAST_ONCE}")
    if "batchid" in given and "checkpointlocation" not in given:
        _refuse("batchId", "counts in a query: set checkpointLocation too, to that of the query")
    for name in ("kafka.transactional.id", "kafka.group.id", "groupNote", "sourceTopics", "batchId"):
        if "write_id" in given and name.lower() in given:
            _refuse(name, "has no meaning with write_id, which names the transactions and groups of its ranges")
    return SinkOptions(
        access=access,
        topic=_not_empty(given, "topic"),
        compression_type=_choice(given, "kafka.compression.type", COMPRESSION_TYPES),
        delivery=delivery,
        transactional_id=_not_empty(given, "kafka.transactional.id"),
        transaction_timeout_ms=_positive(given, "kafka.transaction.timeout.ms"),
        group_id=_not_empty(given, "kafka.group.id"),
        group_note=_not_empty(given, "groupNote"),
        source_topics=_source_topics(given),
        checkpoint_location=_not_empty(given, "checkpointLocation"),
        batch_id=_batch_id(given),
        write_id=_not_empty(given, "write_id"),
    )


def _access(given: Mapping[str, str]) -> ClusterAccess:
    """The client options of both sides. Tasks get them, so each secret is a reference."""
    said = {name.removeprefix(CLIENT_PREFIX): given[name] for name in given if name.startswith(CLIENT_PREFIX)}
    if CLIENT_ID in said:
        said[CLIENT_ID] = _required(given, f"{CLIENT_PREFIX}{CLIENT_ID}")
    profile = _not_empty(given, PROFILE)
    try:
        access = ClusterAccess.from_properties(said) if profile is None else _of_profile(profile, said)
    except AccessError as error:
        _refuse(f"{CLIENT_PREFIX}{error.name}", error.reason)
    _refuse_secrets(access)
    return msgspec.structs.replace(
        access.named(DEFAULT_CLIENT_ID),
        first_contact_timeout_ms=_positive(given, "firstContactTimeoutMs") or FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms=_positive(given, "retryTimeoutMs") or RETRY_TIMEOUT_MS,
    )


def _refuse_secrets(access: ClusterAccess) -> None:
    try:
        access.security.properties()
    except AccessError as error:
        _refuse(f"{CLIENT_PREFIX}{error.name}", _NO_SECRET)


def _of_profile(profile: str, said: Mapping[str, str]) -> ClusterAccess:
    """`said`: settings that override the profile, by the names of Kafka's clients. Raises AccessError."""
    for name in SECURITY_SETTINGS:
        if name in said:
            _refuse(f"{CLIENT_PREFIX}{name}", f"cannot be used with {PROFILE}, which says it")
    try:
        access = profile_access(profile, servers=said.get(BOOTSTRAP_SERVERS))
    except KafkaError as error:
        _refuse(PROFILE, f"cannot be read: {error}")
    own = ClusterAccess.from_properties({**said, BOOTSTRAP_SERVERS: access.bootstrap_servers})
    fields = {CLIENT_ID: "client_id", REQUEST_TIMEOUT: "request_timeout_ms", CONNECT_TIMEOUT: "connect_timeout_ms"}
    return msgspec.structs.replace(
        access, **{fields[name]: getattr(own, fields[name]) for name in fields if name in said}
    )


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """The text form of Spark's connector: `{"topic":{"0":23,"1":-2}}`, topics and partitions in order."""
    return json.dumps(nested_offsets(offsets), separators=(",", ":"))


def nested_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The content of such a text."""
    nested: dict[str, dict[str, int]] = {}
    for topic_partition in sorted(offsets):
        nested.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return nested


def _known_options(options: Mapping[str, str], known: tuple[str, ...], side: Side) -> dict[str, str]:
    lowered = {name.lower() for name in known}
    given: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() in lowered:
            given[name.lower()] = str(value)
        elif name.lower() not in _SPARK_OWN:
            reason = why_refused(name, side)
            if reason is not None:
                _refuse(name, f"has no place here: {reason}")
            raise OptionError(f"option {name!r} is not known; the options are {', '.join(known)}")
    return given


def _refuse(name: str, reason: str) -> NoReturn:
    raise OptionError(f"option {name!r} {reason}")


def _required(given: Mapping[str, str], name: str) -> str:
    value = given.get(name.lower(), "").strip()
    if not value:
        _refuse(name, "must be set")
    return value


def _not_empty(given: Mapping[str, str], name: str) -> str | None:
    return _required(given, name) if name.lower() in given else None


def _source_topics(given: Mapping[str, str]) -> tuple[str, ...] | None:
    text = given.get("sourcetopics")
    if text is None:
        return None
    try:
        patterns = msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError:
        _refuse("sourceTopics", f'must be like ["orders","visits-.*"], not {text!r}')
    for pattern in patterns:
        _check_pattern("sourceTopics", pattern)
    return patterns


def _check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        _refuse(name, f"is no regular expression: {error}")


def _batch_id(given: Mapping[str, str]) -> int | None:
    text = given.get("batchid")
    if text is not None and not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        _refuse("batchId", f"must be the number that foreachBatch gives, not {text!r}")
    return None if text is None else int(text)


def _boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name.lower(), str(default)).strip().lower()
    if value not in ("true", "false"):
        _refuse(name, f"must be true or false, not {value!r}")
    return value == "true"


def _positive(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", value.strip()) or int(value) == 0:
        _refuse(name, f"must be a whole number above 0, not {value!r}")
    if name.startswith(CLIENT_PREFIX) and int(value) > LARGEST_CLIENT_NUMBER:
        _refuse(name, f"must be at most {LARGEST_CLIENT_NUMBER}, not {value}")
    return int(value)


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The value; the first choice is the default."""
    value = given.get(name.lower(), choices[0]).strip().lower()
    if value not in choices:
        _refuse(name, f"must be one of {', '.join(choices)}, not {value!r}")
    return value


def _isolation(given: Mapping[str, str]) -> Isolation:
    return ISOLATIONS[ISOLATIONS.index(_choice(given, "isolation", ISOLATIONS))]


def _fetch_max_bytes(given: Mapping[str, str]) -> int:
    value = _positive(given, "kafka.fetch.max.bytes") or FETCH_MAX_BYTES
    if value > LARGEST_FETCH_BYTES:
        _refuse("kafka.fetch.max.bytes", f"must be at most {LARGEST_FETCH_BYTES}, not {value}")
    return value


def _delay_ms(given: Mapping[str, str], name: str, default: int) -> int:
    """A time in Spark's form: 90s, 15m, 1h; a number alone is in milliseconds."""
    text = given.get(name.lower())
    if text is None:
        return default
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|min|h|d)?", text.strip().lower())
    if found is None:
        _refuse(name, f"must be a time such as 90s, 15m or 1h, not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]


def _parse_subscription(given: Mapping[str, str]) -> Subscription:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(names) != 1:
        said = f"not {' and '.join(names)}" if names else "and none is"
        raise OptionError(f"one of the options subscribe, subscribePattern, assign must be set, {said}")
    text = given[names[0].lower()].strip()
    if names[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            _refuse("subscribe", "names no topic")
        return Subscription(topics=topics)
    if names[0] == "subscribePattern":
        _check_pattern("subscribePattern", text)
        return Subscription(pattern=text)
    return Subscription(partitions=_parse_assign(text))


def _parse_assign(text: str) -> tuple[TopicPartition, ...]:
    example = 'must be like {"topicA":[0,1],"topicB":[2,4]}'
    partitions: list[TopicPartition] = []
    for topic, numbers in _json_object("assign", text, example).items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            _refuse("assign", example)
        partitions.extend(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        _refuse("assign", "names no partition")
    return tuple(sorted(dict.fromkeys(partitions)))


def _parse_start_or_end(given: Mapping[str, str], which: str, default: int) -> StartOrEnd:
    """`which`: "starting" or "ending". One time for all overrides times, and times override offsets, as in Spark."""
    time_name, times_name, offsets_name = f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    if time_name.lower() in given:
        return StartOrEnd(timestamps_ms={None: _timestamp(time_name, given[time_name.lower()])})
    if times_name.lower() in given:
        example = 'must be like {"topicA":{"0":1700000000000,"1":1700000000000}}'
        times = _per_partition(times_name, given[times_name.lower()], example, minimum=0)
        return StartOrEnd(timestamps_ms={partition: time for partition, time in times.items()})  # noqa: C416
    text = given.get(offsets_name.lower())
    if text is None:
        return StartOrEnd(position=default)
    if text.strip().lower() in ("latest", "earliest"):
        return StartOrEnd(position=LATEST if text.strip().lower() == "latest" else EARLIEST)
    example = 'must be "earliest", "latest", or like {"topicA":{"0":23,"1":-2}}'
    return StartOrEnd(offsets=_per_partition(offsets_name, text, example, minimum=EARLIEST))


def _check_batch_bounds(start: StartOrEnd, end: StartOrEnd) -> None:
    if start.position == LATEST or LATEST in (start.offsets or {}).values():
        _refuse("startingOffsets", "must not be latest (-1) for a batch: there would be nothing to read")
    if end.position == EARLIEST or EARLIEST in (end.offsets or {}).values():
        _refuse("endingOffsets", "must not be earliest (-2): there would be nothing to read")
    for partition, first in (start.offsets or {}).items():
        last = (end.offsets or {}).get(partition, LATEST)
        if 0 <= last < first:
            _refuse("startingOffsets", f"is {first} for {partition}, behind endingOffsets, which is {last}")
    for each, first in (start.timestamps_ms or {}).items():
        last = (end.timestamps_ms or {}).get(each, first)
        if last < first:
            said = "the ending time" if each is None else f"that of {each}"
            raise OptionError(f"the starting time {first} is later than {said}, which is {last}")


def _timestamp(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        _refuse(name, f"must be milliseconds since 1970, not {text!r}")
    return int(text)


def _per_partition(name: str, text: str, example: str, *, minimum: int) -> dict[TopicPartition, int]:
    values: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(name, text, example).items():
        if not isinstance(partitions, dict):
            _refuse(name, example)
        for number, value in partitions.items():
            if not re.fullmatch(r"[0-9]{1,9}", number) or type(value) is not int or value < minimum:
                _refuse(name, example)
            values[TopicPartition(topic, int(number))] = value
    return values


def _json_object(name: str, text: str, example: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        _refuse(name, example)
    return value
