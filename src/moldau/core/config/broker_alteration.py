"""Dynamic broker settings: layers, the view in force, and the changes that Kafka rejects (KIP-226).

A setting may have three values; the nearest counts: dynamic for this broker, dynamic for all brokers, from the file or
the command line; else the default. `effective_broker_settings` computes the view in force, `check_broker_alteration`
checks a change before it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from moldau.core.config.broker_settings import ROWS_BY_NAME, BrokerSettings, check_text, parse_broker_settings
from moldau.core.config.listeners import LISTENER_LIMITS
from moldau.core.config.setting import (
    HONOURED,
    IGNORED,
    NOT_SERVED,
    PER_BROKER,
    READ_ONLY,
    REFUSED,
    SettingRow,
    check_value,
    invalid_value,
    parse_value,
    without_listener,
)
from moldau.core.config.tls_settings import tls_setting_of
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS
from moldau.core.config.topic_settings import validate_inherited_settings
from moldau.errors import KafkaError, kafka_error

CHANGED_BY_A_RESTART = ("listeners", "listener.security.protocol.map")
"""Applied only at the start, because a running node keeps its sockets."""
REPLICATION_RATES = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""Dynamic, but not in Kafka's static definitions. Described only if set, and allowed for all brokers."""
_THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_JAVA_CLASSES = ("metric.reporters",)
"""Accepted at a start, because Kafka's files name such classes. On a change Kafka loads the classes, and Moldau has no
Java classes."""
CORDONED_LOG_DIRS = "cordoned.log.dirs"
MIN_BUFFER_BYTES_PER_CLEANER = 1 << 20

_WITH_LISTENER_ONLY = re.compile(r"ssl\.(key\.password|keystore\..+|truststore\..+)")
_TOGETHER = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class SettingLayers(msgspec.Struct, frozen=True):
    """The values by place, the nearest first."""

    broker: Mapping[str, str]
    cluster: Mapping[str, str]
    static: Mapping[str, str]


@lru_cache(maxsize=1_024)
def synonyms_of(name: str) -> tuple[str, ...]:
    """The names of a broker setting, nearest first (milliseconds before minutes before hours)."""
    for names in _TOGETHER:
        if name in names and (name != names[-1] or "flush" not in name):
            return names
    base = base_name(name)
    return (name,) if base == name else (name, base)


def base_name(name: str) -> str:
    """`name` without `listener.name.<listener>.`, and without the SASL mechanism that may follow it."""
    return without_listener(name, ROWS_BY_NAME)


def row_of(name: str) -> SettingRow | None:
    """The row of `name`, with or without a listener prefix; None if unknown."""
    return ROWS_BY_NAME.get(name) or ROWS_BY_NAME.get(base_name(name))


def acts_for_a_listener(name: str) -> bool:
    """Whether `name` is a SASL setting or a connection limit with a listener prefix: each listener may have its own
    value."""
    base = base_name(name)
    may_have_prefix = base.startswith("sasl.") or base in LISTENER_LIMITS
    return base != name and may_have_prefix and base in ROWS_BY_NAME and ROWS_BY_NAME[base][5] == HONOURED


def is_dynamic(name: str) -> bool:
    """Whether a running broker accepts a change of `name`, by Kafka's rules."""
    row = row_of(name)
    return row is not None and row[4] != READ_ONLY


def effective_broker_settings(
    static: BrokerSettings, cluster: Mapping[str, str], broker: Mapping[str, str]
) -> tuple[BrokerSettings, tuple[str, ...]]:
    """The view in force, and one sentence for each dynamic setting that is ignored.

    Never raises. Another program may have written impossible or unsupported values. As in Apache Kafka, the broker
    continues without them.
    """
    notices: list[str] = []
    taken = [_taken(layer, notices) for layer in (cluster, broker)]
    texts = _laid_over(static.texts, taken)
    if texts == static.texts:
        return static, tuple(notices)
    try:
        return parse_broker_settings(texts), tuple(notices)
    except KafkaError:
        texts = _laid_over(static.texts, _fitting(static.texts, taken, notices))
        return static if texts == static.texts else parse_broker_settings(texts), tuple(notices)


def check_broker_alteration(
    view: BrokerSettings, layers: SettingLayers, changes: Mapping[str, str], *, is_cluster_wide: bool
) -> None:
    """Checks `changes`, the settings to which a request gives new values.

    `view` is in force, `layers` come after the change. Raises INVALID_REQUEST (42) with Kafka's sentence, or with ours
    for an unsupported setting.
    """
    _check_names_and_types(changes)
    if is_cluster_wide:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in changes if _is_per_broker(name)),
        )
    for name, text in changes.items():
        _check_acts(name, text, view)
    for name in changes:
        if name in _THREAD_COUNTS:
            _check_thread_count(name, int(changes[name].strip()), int(str(view.get(name))))
    try:
        after = parse_broker_settings(_with_changes(layers, changes, is_cluster_wide=is_cluster_wide))
        _check_together(after, changes)
        if any(name in row[4] for name in changes for row in TOPIC_SETTING_ROWS):
            validate_inherited_settings(after)
    except KafkaError as error:
        raise invalid_request(error.message or error.name) from None


def check_alteration_of_another(view: BrokerSettings, changes: Mapping[str, str]) -> None:
    """Checks `changes` of a broker whose file this node does not know: names, types and ranges only.

    That broker checks the rest, such as `log.dirs`, with `check_broker_alteration` before it forwards the request.
    `view` is of this node. Raises INVALID_REQUEST (42).
    """
    _check_names_and_types(changes)
    for name, text in changes.items():
        if name not in (*CHANGED_BY_A_RESTART, *_JAVA_CLASSES):
            _check_acts(name, text, view)
    alone = {name: text for name, text in _taken(changes, []).items() if name != CORDONED_LOG_DIRS}
    try:
        _check_connections(parse_broker_settings(alone), changes)
    except KafkaError as error:
        raise invalid_request(error.message or error.name) from None


def _check_names_and_types(changes: Mapping[str, str]) -> None:
    _refuse("Cannot update these configs dynamically", (name for name in changes if _is_read_only(name)))
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in changes if _WITH_LISTENER_ONLY.fullmatch(name)),
    )
    for name, text in changes.items():
        _check_type(name, text)


def invalid_request(message: str) -> KafkaError:
    """Error 42 with a sentence that may go to the client."""
    return kafka_error("INVALID_REQUEST", message)


def _taken(layer: Mapping[str, str], notices: list[str]) -> dict[str, str]:
    """The settings of a layer that take effect. Stored settings of another program that are not supported are left out,
    with a sentence in `notices`."""
    taken = {}
    for name in sorted(layer):
        is_known = name in ROWS_BY_NAME or tls_setting_of(name) is not None or acts_for_a_listener(name)
        if not is_known or not is_dynamic(name) or name in CHANGED_BY_A_RESTART:
            continue
        try:
            check_text(name, layer[name])
            taken[name] = layer[name]
        except KafkaError as error:
            notices.append(f"the stored value of {name} is ignored: {error.message}")
    return taken


def _laid_over(static: Mapping[str, str], layers: Iterable[Mapping[str, str]]) -> dict[str, str]:
    texts = dict(static)
    for layer in layers:
        texts.update(layer)
    return texts


def _fitting(
    static: Mapping[str, str], layers: Iterable[Mapping[str, str]], notices: list[str]
) -> list[dict[str, str]]:
    """`layers` without settings that contradict lower layers. Each gets a sentence in `notices`.

    A file may change while its broker is down, and then contradict a stored setting. Only that setting is dropped: a
    broker that fell back to its file would delete records that a stored retention keeps.
    """
    found = []
    texts = dict(static)
    for layer in layers:
        fitting = {}
        for name, text in layer.items():
            try:
                parse_broker_settings({**texts, name: text})
            except KafkaError as error:
                notices.append(f"the stored value of {name} is ignored: {error.message}")
                continue
            fitting[name] = texts[name] = text
        found.append(fitting)
    return found


def _with_changes(layers: SettingLayers, changes: Mapping[str, str], *, is_cluster_wide: bool) -> dict[str, str]:
    """The texts that `layers` will have. Stored settings that are invalid already are left out, so only `changes` can
    cause an error."""
    altered = int(not is_cluster_wide)
    stored = [_taken(layer, []) for layer in (layers.cluster, layers.broker)]
    stored[altered] = {name: text for name, text in stored[altered].items() if name not in changes}
    fitting = _fitting(layers.static, stored, [])
    fitting[altered].update(_taken(changes, []))
    return _laid_over(layers.static, fitting)


def _refuse(sentence: str, names: Iterable[str]) -> None:
    listed = sorted(names)
    if listed:
        raise invalid_request(f"{sentence}: [{', '.join(listed)}]")


def _is_read_only(name: str) -> bool:
    row = ROWS_BY_NAME.get(name)
    return row is not None and row[4] == READ_ONLY


def _is_per_broker(name: str) -> bool:
    row = row_of(name)
    return row is not None and row[4] == PER_BROKER and name not in REPLICATION_RATES


def _check_type(name: str, text: str) -> None:
    row = row_of(name)
    if row is None:
        return
    try:
        check_value(name, row[3], parse_value(name, row[1], text))
    except KafkaError as error:
        raise invalid_request(error.message or error.name) from None


def _check_acts(name: str, text: str, view: BrokerSettings) -> None:
    row = row_of(name)
    has_no_effect = row is None or row[5] == IGNORED or (row[5] == NOT_SERVED and row[0] == name)
    if row is None or (has_no_effect and name not in _JAVA_CLASSES):
        # accepted and stored, as at the start
        return
    is_in_force = name in ROWS_BY_NAME and parse_value(name, row[1], text) == view.get(name)
    if is_in_force:
        return
    if acts_for_a_listener(name) or (tls_setting_of(name) is not None and row[5] == HONOURED):
        return
    if row[5] in (NOT_SERVED, REFUSED) or row[0] != name:
        raise invalid_request(f"Cannot update {name}: it is not served yet, and would have no effect")
    if name in _JAVA_CLASSES:
        raise invalid_request(f"Invalid value {text} for configuration {name}: Class {text} could not be found.")
    if name in CHANGED_BY_A_RESTART:
        raise invalid_request(f"Cannot update {name} dynamically: it changes with a restart")


def _check_together(after: BrokerSettings, changes: Mapping[str, str]) -> None:
    """Combinations that Kafka rejects on a running broker but accepts in a file. With no connections, no client could
    undo them."""
    _check_connections(after, changes)
    if after.get("max.connections.per.ip") == 0 and after.get("max.connections.per.ip.overrides") == "":
        raise invalid_request(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
        )
    for unit, bound in (("ms", after.retention_ms), ("bytes", after.log_retention_bytes)):
        local, lag = (int(str(after.get(f"log.{rest}.{unit}"))) for rest in ("local.retention", "remote.copy.lag"))
        _check_local_retention(f"log.local.retention.{unit}", local, bound)
        _check_copy_lag(unit, lag, bound if local == -2 else local)
    threads, buffer_bytes = (
        int(str(after.get(name))) for name in ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size")
    )
    if buffer_bytes < threads * MIN_BUFFER_BYTES_PER_CLEANER:
        raise invalid_request("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")


def _check_connections(after: BrokerSettings, changes: Mapping[str, str]) -> None:
    for name, text in changes.items():
        base = base_name(name)
        if base in LISTENER_LIMITS and (after.get(name) == 0 if base == name else int(text.strip()) == 0):
            raise invalid_request(f"Invalid {base} 0")


def _check_local_retention(name: str, local: int, bound: int) -> None:
    """The retention on the broker's own disk must not exceed the whole retention; -2: the whole (KIP-405)."""
    whole = name.replace("local.", "")
    if bound == -1 or local == -2:
        return
    if local == -1:
        raise invalid_value(name, local, f"Value must not be -1 as {whole} value is set as {bound}.")
    if local > bound:
        raise invalid_value(name, local, f"Value must not be more than {whole} property value: {bound}")


def _check_copy_lag(unit: str, lag: int, local: int) -> None:
    """A segment that waits for its copy is on the broker's own disk, so the lag must not exceed `local`; -1: no
    bound."""
    if local != -1 and lag > local:
        reason = f"Value must not exceed log.local.retention.{unit} (effective value: {local})"
        raise invalid_value(f"log.remote.copy.lag.{unit}", lag, reason)


def _check_thread_count(name: str, asked: int, current: int) -> None:
    if asked < 1:
        bound = "be at least 1"
    elif asked > current * 2:
        bound = f"not be greater than double the current value {current}"
    elif asked < current // 2:
        bound = f"be at least half the current value {current}"
    else:
        return
    raise invalid_request(f"Dynamic thread count update validation failed for {name}={asked}, value should {bound}")
