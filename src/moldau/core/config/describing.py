"""The response of DescribeConfigs: the value of each setting, its source and its synonyms (KIP-133, 226).

Synonyms go from the nearest to the default. As in Kafka they begin with the name of the setting. A value that is only
set in another unit (`log.retention.hours` for `retention.ms`) counts, but has no synonym.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.config.broker_alteration import REPLICATION_RATES, SettingLayers, is_dynamic, row_of, synonyms_of
from moldau.core.config.broker_setting_rows import HIDDEN_BROKER_SETTINGS
from moldau.core.config.broker_settings import ROWS_BY_NAME as BROKER_ROWS
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.group_setting_rows import HIDDEN_GROUP_SETTINGS
from moldau.core.config.group_settings import CLIENT_METRICS, GROUP_ROWS
from moldau.core.config.setting import TYPE_CODES, UNKNOWN_TYPE, Source, TopicSettingRow, format_value, parse_value
from moldau.core.config.topic_settings import HIDDEN_TOPIC_SETTING, inherited_text
from moldau.core.config.topic_settings import ROWS_BY_NAME as TOPIC_ROWS
from moldau.errors import KafkaError
from moldau.wire.protocol.runtime import MAX_STRING_BYTES


class Synonym(msgspec.Struct, frozen=True):
    """The same setting at another place, with its value as written; None if it is a secret or too long for a
    response."""

    name: str
    value: str | None
    source: int


class Described(msgspec.Struct, frozen=True):
    """One setting in force. `note` is a remark of Moldau, if any."""

    name: str
    value: str | None
    source: int
    type_code: int
    synonyms: tuple[Synonym, ...] = ()
    is_read_only: bool = False
    is_sensitive: bool = False
    note: str = ""


def describe_topic(overrides: Mapping[str, str], broker: BrokerSettings, layers: SettingLayers) -> list[Described]:
    """All public settings of a topic, sorted by name, and hidden ones that are set. `broker` is the view in force."""
    return [
        _of_resource(row, overrides, Source.TOPIC, _topic_synonyms(row, layers), inherited_text(name, broker))
        for name, row in sorted(TOPIC_ROWS.items())
        if name != HIDDEN_TOPIC_SETTING or name in overrides
    ]


def describe_group(overrides: Mapping[str, str], broker: BrokerSettings, layers: SettingLayers) -> list[Described]:
    """All public settings of a group, sorted by name, and hidden ones that are set. The group need not exist."""
    described = []
    for name, row in sorted(GROUP_ROWS.items()):
        if name in HIDDEN_GROUP_SETTINGS and name not in overrides:
            continue
        fallback = row[4][0] if row[4] else None
        inherited = None if fallback is None else format_value(broker.get(fallback))
        synonyms = (Synonym(name, row[2], Source.DEFAULT),) if fallback is None else _layered(fallback, layers)
        described.append(_of_resource(row, overrides, Source.GROUP, synonyms, inherited))
    return described


def describe_client_metrics(overrides: Mapping[str, str]) -> list[Described]:
    """All settings of a client metrics subscription, sorted by name. It need not exist."""
    return [_of_resource(row, overrides, Source.CLIENT_METRICS, (), None) for _, row in sorted(CLIENT_METRICS.items())]


def _topic_synonyms(row: TopicSettingRow, layers: SettingLayers) -> tuple[Synonym, ...]:
    return _layered(row[4][0], layers) if row[4] else ()


def _of_resource(
    row: TopicSettingRow,
    overrides: Mapping[str, str],
    own_source: int,
    synonyms: tuple[Synonym, ...],
    inherited: str | None,
) -> Described:
    name, kind, default = row[0], row[1], row[2]
    own = overrides.get(name)
    text = own if own is not None else inherited if inherited is not None else default
    value = text if text is default else _formatted(name, kind, text)
    if own is not None:
        synonyms = (Synonym(name, value, own_source), *synonyms)
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Described(name, value, source, TYPE_CODES[kind], synonyms, note=row[6])


def _formatted(name: str, kind: str, text: str | None) -> str | None:
    """The text as Java writes the value; a malformed text is unchanged."""
    if text is None:
        return None
    try:
        return format_value(parse_value(name, kind, text))
    except KafkaError:
        return text


def describe_broker(broker: BrokerSettings, layers: SettingLayers) -> list[Described]:
    """All public settings of a broker, sorted by name, and all others that are set. `broker` is the view in force."""
    was_set = {**layers.static, **layers.cluster, **layers.broker}
    hidden = (*HIDDEN_BROKER_SETTINGS, *REPLICATION_RATES)
    names = {**dict.fromkeys(name for name in BROKER_ROWS if name not in hidden), **dict.fromkeys(was_set)}
    described = []
    for name in sorted(names):
        if name in BROKER_ROWS:
            value = format_value(broker.get(name)) if name in was_set else BROKER_ROWS[name][2]
            if name in layers.static and name not in broker.texts:
                value = layers.static[name]  # an alias of `node.id`
            if name in REPLICATION_RATES:
                value = layers.broker.get(name, layers.cluster.get(name, value))
        else:
            value = was_set[name]
        described.append(_of_broker(name, value, _layered(name, layers)))
    return described


def describe_cluster_defaults(layers: SettingLayers) -> list[Described]:
    """The dynamic settings for all brokers, sorted by name, as written."""
    return [
        _of_broker(
            name,
            layers.cluster[name],
            tuple(item for item in _layered(name, layers) if item.source == Source.CLUSTER_DEFAULT),
        )
        for name in sorted(layers.cluster)
    ]


def _of_broker(name: str, value: str | None, synonyms: tuple[Synonym, ...]) -> Described:
    row = row_of(name)
    is_sensitive = _is_sensitive(name)
    return Described(
        name,
        None if is_sensitive else _that_fits(value),
        synonyms[0].source if synonyms else Source.DEFAULT,
        UNKNOWN_TYPE if row is None else TYPE_CODES[row[1]],
        synonyms,
        is_read_only=name not in BROKER_ROWS or not is_dynamic(name),
        is_sensitive=is_sensitive,
        note="" if row is None else row[6],
    )


def _that_fits(value: str | None) -> str | None:
    """The value, or None if it does not fit in a response. A .properties file has no such limit."""
    return None if value is None or len(value.encode()) > MAX_STRING_BYTES else value


def _is_sensitive(name: str) -> bool:
    """Whether the setting may be a password: it is one, or it is unknown."""
    row = row_of(name)
    return row is None or row[1] == "password"


def _layered(name: str, layers: SettingLayers) -> tuple[Synonym, ...]:
    """The values of the broker setting `name` by place, nearest first, beginning with its own name."""
    names = synonyms_of(name)
    is_sensitive = _is_sensitive(name)
    found = [
        Synonym(key, None if is_sensitive else _that_fits(place[key]), source)
        for place, source in (
            (layers.broker, Source.BROKER),
            (layers.cluster, Source.CLUSTER_DEFAULT),
            (layers.static, Source.STATIC_FILE),
        )
        for key in names
        if key in place
    ]
    for key in names:
        row = BROKER_ROWS.get(key)
        if row is not None and row[2] is not None and key not in REPLICATION_RATES:
            found.append(Synonym(key, None if is_sensitive else row[2], Source.DEFAULT))
    if found and found[0].name == name:
        return tuple(found)
    own = next((index for index, item in enumerate(found) if item.name == name), len(found))
    return tuple(found[own:])
