"""`kafka-configs`: describe and alter settings of topics, brokers, groups and loggers, quotas, SCRAM credentials."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from moldau.cli.kafka import scram_users
from moldau.cli.kafka.connection import open_admin, read_properties
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, UsageError, check_excluded, command_config
from moldau.client.admin import configs as config_questions
from moldau.client.admin import quotas as quota_questions
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.configs import SOURCES, Setting
from moldau.client.admin.error_texts import as_java_says
from moldau.client.admin.groups import list_groups
from moldau.client.admin.topics import list_topics
from moldau.errors import KafkaError

SUMMARY = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group"
)

OPTIONS = (
    Option("bootstrap-server", "The brokers to connect to.", "server to connect to"),
    Option("bootstrap-controller", "The controllers to connect to.", "controller to connect to"),
    command_config(),
    Option("describe", "Print the settings that were changed."),
    Option("all", "With --describe: all settings, with their defaults."),
    Option("alter", "Change settings."),
    Option("add-config", "What to set: k1=v1,k2=[v1,v2,v3].", "settings"),
    Option("add-config-file", "A file of what to set, one name=value a line.", "path"),
    Option("delete-config", "What to set back to its default: k1,k2.", "names"),
    Option(
        "entity-type",
        "topics, clients, users, brokers, ips, client-metrics, groups or broker-loggers.",
        "type",
    ),
    Option("entity-name", "Which of that type.", "name"),
    Option("entity-default", "The default of that type."),
    Option("topic", "A topic.", "topic"),
    Option("client", "A client id.", "client id"),
    Option("client-defaults", "All client ids without their own quotas."),
    Option("user", "A user.", "user principal"),
    Option("user-defaults", "All users without their own quotas."),
    Option("broker", "A broker.", "broker id"),
    Option("broker-defaults", "All brokers."),
    Option("broker-logger", "The loggers of a broker.", "broker id"),
    Option("ip", "An address.", "ip address"),
    Option("ip-defaults", "All addresses without their own quotas."),
    Option("group", "A group.", "group"),
    Option("client-metrics", "A subscription to metrics of clients.", "name"),
)

_TYPES = ("broker-loggers", "topics", "clients", "users", "brokers", "ips", "client-metrics", "groups")
_FLAGS: Final[dict[str, str]] = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
_DEFAULT_FLAGS: Final[dict[str, str]] = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_RESOURCES: Final[dict[str, int]] = {
    "topics": config_questions.TOPIC,
    "brokers": config_questions.BROKER,
    "broker-loggers": config_questions.BROKER_LOGGER,
    "client-metrics": config_questions.CLIENT_METRICS,
    "groups": config_questions.GROUP,
}
_OWN_SOURCES: Final[dict[str, int]] = {
    "topics": 1,
    "brokers": 2,
    "broker-loggers": 6,
    "client-metrics": 7,
    "groups": 8,
}
_DYNAMIC_DEFAULT_BROKER: Final = 3
_QUOTA_KINDS: Final[dict[str, tuple[str, str]]] = {
    "users": (quota_questions.USER, "user-principal"),
    "clients": (quota_questions.CLIENT_ID, "client-id"),
    "ips": (quota_questions.IP, "ip"),
}
_CLIENT_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_IP_QUOTAS = ("connection_creation_rate",)
# a comma or an equals sign outside square brackets
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
# unlike Java's, Python's float takes 1_000 and inf, and no suffix
_JAVA_DOUBLE = re.compile(r"[-+]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[dDfF]?)")
_CONFIG_FORMAT = (
    'Invalid entity config: all configs to be added must be in the format "key=val" or  '
    '"key=[val1,val2]" to group values which contain commas.'
)


class Entity(msgspec.Struct, frozen=True):
    """The owner of settings. `name` "" is the default of the type; None means all entities of the type."""

    kind: str
    name: str | None

    @property
    def word(self) -> str:
        """The type in the singular, as Kafka's tool writes it."""
        return self.kind[:-1]


def run(arguments: Arguments) -> int:
    entities = check(arguments)
    try:
        with open_admin(arguments) as admin:
            if arguments.has("alter"):
                alter(arguments, admin, entities)
            else:
                describe(arguments, admin, entities)
    except KafkaError as error:
        words = " ".join(word for pair in arguments.in_order for word in (f"--{pair[0]}", pair[1]) if word)
        print(f"Error while executing config command with args '{words}'", file=sys.stderr)
        print(as_java_says(error), file=sys.stderr)
        return 1
    return 0


# --- flags ---


def check(arguments: Arguments) -> list[Entity]:
    """The entities that the flags name. Raises UsageError or ArgumentError in the words of Kafka's tool."""
    if arguments.has("describe") == arguments.has("alter"):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    check_excluded(arguments, "describe", "alter", "add-config", "add-config-file", "delete-config")
    check_excluded(arguments, "alter", "describe", "all")
    entities = parse_entities(arguments)
    kinds = [entity.kind for entity in entities]
    if not kinds:
        raise ArgumentError("At least one entity type must be specified")
    if len(kinds) > 1 and sorted(kinds) != ["clients", "users"]:
        raise ArgumentError("Only 'users' and 'clients' entity types may be specified together")
    if not arguments.has("bootstrap-server", "bootstrap-controller"):
        raise ArgumentError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if arguments.has("bootstrap-server") and arguments.has("bootstrap-controller"):
        raise ArgumentError("Only one of --bootstrap-server or --bootstrap-controller can be specified.")
    _check_names(arguments, entities)
    if arguments.has("alter"):
        if arguments.has("add-config") and arguments.has("add-config-file"):
            raise ArgumentError("Only one of --add-config or --add-config-file must be specified")
        if not arguments.has("add-config", "add-config-file", "delete-config"):
            raise ArgumentError(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
            )
    return entities


def parse_entities(arguments: Arguments) -> list[Entity]:
    """Types and names in their order, then the shortcuts. Raises ArgumentError for an invalid combination."""
    types = arguments.texts("entity-type")
    for kind in types:
        if kind not in _TYPES:
            raise ArgumentError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    names = [
        "" if flag == "entity-default" else value
        for flag, value in arguments.in_order
        if flag in ("entity-name", "entity-default")
    ]
    entities = [Entity(kind, names[number] if number < len(names) else None) for number, kind in enumerate(types)]
    for flag, kind in _FLAGS.items():
        if arguments.has(flag):
            entities.append(Entity(kind, arguments.required(flag)))
    for flag, kind in _DEFAULT_FLAGS.items():
        if arguments.has(flag):
            entities.append(Entity(kind, ""))
    kinds = [entity.kind for entity in entities]
    repeated = [kind for number, kind in enumerate(kinds) if kind in kinds[:number]]
    if repeated:
        raise ArgumentError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    if arguments.has("entity-type", "entity-name", "entity-default") and arguments.has(*_FLAGS, *_DEFAULT_FLAGS):
        raise ArgumentError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    return entities


def _check_names(arguments: Arguments, entities: Sequence[Entity]) -> None:
    action = "alter" if arguments.has("alter") else "describe"
    for entity in entities:
        if entity.name == "" and entity.kind in ("topics", "groups", "client-metrics", "broker-loggers"):
            raise ArgumentError(f"--entity-default must not be specified with --{action} of {entity.kind}")
        if entity.kind in ("brokers", "broker-loggers") and entity.name and not entity.name.isdigit():
            raise ArgumentError(
                f"The entity name for {entity.kind} must be a valid integer broker id, but it is: {entity.name}"
            )
        if entity.kind == "ips" and entity.name and not _is_address(entity.name):
            raise ArgumentError(
                f"The entity name for {entity.kind} must be a valid IP or resolvable host, but it is: {entity.name}"
            )
        if entity.name is None and (action == "alter" or entity.kind == "broker-loggers"):
            article = "An entity name" if entity.kind in _RESOURCES else "An entity-name or default entity"
            raise ArgumentError(f"{article} must be specified with --{action} of {entity.kind}")


def _is_address(text: str) -> bool:
    """Whether the text is an IP address or a host name that resolves."""
    import socket

    try:
        socket.getaddrinfo(text, None)
    except (OSError, UnicodeError):
        return False
    return True


def parse_changes(arguments: Arguments) -> tuple[dict[str, str], list[str]]:
    """The settings to set, and the names to delete."""
    to_set: dict[str, str] = {}
    path = arguments.text("add-config-file")
    if path is not None:
        to_set.update(read_properties(path))
    text = arguments.text("add-config")
    if text is not None:
        for pair in re.split("," + _OUTSIDE_BRACKETS, text):
            parts = re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, pair)
            if len(parts) != 2:
                raise ArgumentError(_CONFIG_FORMAT)
            to_set[parts[0].strip()] = parts[1].replace("[", "").replace("]", "").strip()
    deleted = arguments.text("delete-config")
    return to_set, [] if deleted is None else [name.strip() for name in deleted.split(",")]


# --- alter ---


def alter(arguments: Arguments, admin: ClusterAdmin, entities: Sequence[Entity]) -> None:
    to_set, to_delete = parse_changes(arguments)
    told = entities[0]
    if told.kind in _QUOTA_KINDS:
        _check_quota_names(entities, to_set, to_delete)
        if any(scram_users.is_mechanism(name) for name in (*to_set, *to_delete)):
            scram_users.alter_user(admin, told.name or "", to_set, to_delete)
        else:
            _alter_quotas(admin, entities, to_set, to_delete)
    else:
        _check_loggers(admin, told, [*to_set, *to_delete])
        changes = config_questions.as_changes(to_set, to_delete)
        config_questions.alter_configs(admin, _RESOURCES[told.kind], told.name or "", changes)
    if told.name:
        print(f"Completed updating config for {told.word} {told.name}.")
    else:
        print(f"Completed updating default config for {told.kind} in the cluster.")


def _check_loggers(admin: ClusterAdmin, entity: Entity, names: Sequence[str]) -> None:
    if entity.kind != "broker-loggers":
        return
    name = entity.name or ""
    known = config_questions.describe_configs(admin, config_questions.BROKER_LOGGER, [name]).get(name, ())
    unknown = [wanted for wanted in names if wanted not in [setting.name for setting in known]]
    if unknown:
        raise ArgumentError(f"Invalid broker logger(s): {','.join(unknown)}")


def _check_quota_names(entities: Sequence[Entity], to_set: Iterable[str], to_delete: Iterable[str]) -> None:
    """Users have quotas and SCRAM credentials, all other entities only quotas. Raises ArgumentError."""
    kinds = [entity.kind for entity in entities]
    quotas = _IP_QUOTAS if "ips" in kinds else _CLIENT_QUOTAS
    has_credentials = kinds == ["users"]
    allowed = "connection quota" if "ips" in kinds else "quota and SCRAM credential" if has_credentials else "quota"
    named = "clients" if len(kinds) > 1 else kinds[0]
    are_credentials: list[bool] = []
    for verb, names in (("added", to_set), ("deleted", to_delete)):
        unknown = []
        for name in names:
            is_credential = has_credentials and scram_users.is_mechanism(name)
            are_credentials.append(is_credential)
            if not is_credential and name not in quotas:
                unknown.append(name)
        if unknown:
            raise ArgumentError(
                f"Only {allowed} configs can be {verb} for '{named}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}"
            )
    if any(are_credentials):
        if not entities[0].name:
            raise ArgumentError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
                "--bootstrap-server."
            )
        if not all(are_credentials):
            raise ArgumentError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
                "--bootstrap-server."
            )


def _alter_quotas(
    admin: ClusterAdmin, entities: Sequence[Entity], to_set: dict[str, str], to_delete: Sequence[str]
) -> None:
    values: dict[str, float] = {}
    for name, text in to_set.items():
        if _JAVA_DOUBLE.fullmatch(text) is None:
            raise ArgumentError(f"Cannot parse quota configuration value for {name}: {text}")
        values[name] = float(text.rstrip("dDfF"))
    if to_delete:
        present = quota_questions.describe_quotas(admin, [_part(entity) for entity in entities])
        missing = [name for name in to_delete if not any(name in quota.values for quota in present)]
        if missing:
            raise ArgumentError(f"Invalid config(s): {','.join(missing)}")
    entity_parts = {_QUOTA_KINDS[entity.kind][0]: entity.name or None for entity in entities}
    quota_questions.alter_quotas(admin, entity_parts, values, to_delete)


def _part(entity: Entity) -> quota_questions.Part:
    return quota_questions.Part(_QUOTA_KINDS[entity.kind][0], entity.name or None, is_default=entity.name == "")


# --- describe ---


def describe(arguments: Arguments, admin: ClusterAdmin, entities: Sequence[Entity]) -> None:
    if entities[0].kind in _QUOTA_KINDS:
        for quota in quota_questions.describe_quotas(admin, [_part(entity) for entity in entities]):
            print(f"Quota configs for {_named(quota)} are {_listed(quota.values)}")
        if [entity.kind for entity in entities] == ["users"] and entities[0].name != "":
            scram_users.print_users(admin, [entities[0].name] if entities[0].name else [])
        return
    _describe_resources(admin, entities[0], arguments.has("all"))


def _describe_resources(admin: ClusterAdmin, entity: Entity, with_all: bool) -> None:
    kind = entity.kind
    names = _known(admin, kind)
    if entity.name is not None:
        if entity.name and entity.name not in names and not _has_settings(admin, entity, with_all=with_all):
            print(f"The {entity.word} '{entity.name}' doesn't exist and doesn't have dynamic config.")
            return
        names = [entity.name]
    elif kind == "brokers":
        names = [*names, ""]
    found = config_questions.describe_configs(admin, _RESOURCES[kind], names, synonyms=kind != "broker-loggers")
    for name in names:
        own = _DYNAMIC_DEFAULT_BROKER if kind == "brokers" and not name else _OWN_SOURCES[kind]
        if not name:
            print(f"Default configs for {kind} in the cluster are:")
        else:
            print(f"{'All' if with_all else 'Dynamic'} configs for {entity.word} {name} are:")
        for setting in sorted(found.get(name, ()), key=lambda setting: setting.name):
            if (with_all and name) or setting.config_source == own:
                _print_setting(setting)


def _known(admin: ClusterAdmin, kind: str) -> list[str]:
    if kind == "topics":
        return list(list_topics(admin))
    if kind in ("brokers", "broker-loggers"):
        return [str(broker_id) for broker_id in admin.cluster().broker_ids()]
    names = {name for _, name in config_questions.list_config_resources(admin, [_RESOURCES[kind]])}
    if kind == "groups":
        names.update(row.group_id for row in list_groups(admin, only_consumers=False))
    return sorted(names)


def _has_settings(admin: ClusterAdmin, entity: Entity, *, with_all: bool) -> bool:
    """Whether the group has settings: it may have some before it exists. `with_all` includes the broker's settings."""
    if entity.kind != "groups":
        return False
    name = entity.name or ""
    found = config_questions.describe_configs(admin, config_questions.GROUP, [name])
    return any(with_all or setting.config_source == _OWN_SOURCES["groups"] for setting in found.get(name, ()))


def _print_setting(setting: Setting) -> None:
    synonyms = ", ".join(f"{SOURCES[row.source]}:{row.name}={_value(row.value)}" for row in setting.synonyms)
    is_sensitive = "true" if setting.is_sensitive else "false"
    print(f"  {setting.name}={_value(setting.value)} sensitive={is_sensitive} synonyms={{{synonyms}}}")


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _named(quota: quota_questions.Quota) -> str:
    parts: list[str] = []
    for kind, word in _QUOTA_KINDS.values():
        if kind in quota.entity:
            name = quota.entity[kind]
            parts.append(f"the default {word}" if name is None else f"{word} '{name}'")
    return ", ".join(parts)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name}={java_double(value)}" for name, value in values.items())


def java_double(value: float) -> str:
    """A number as Java writes it: 1000.0, 1.0E7, 1.25E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    if not isinstance(exponent, int):
        return repr(value)
    text = "".join(str(digit) for digit in digits)
    shift = exponent + len(text) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:].rstrip('0') or '0'}E{shift}"
