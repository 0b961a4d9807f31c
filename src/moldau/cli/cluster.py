"""Shared by commands of a cluster: the flags that name it, and confluent-kafka clients with readable errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moldau.cli.access import CLIENT_ID, access_of, add_access_arguments, settings_of
from moldau.cli.output import CommandError
from moldau.types import hint

if TYPE_CHECKING:
    import re

    from moldau.cli.diagnosis.refusals import Rights
    from moldau.client.admin.client import ClusterAdmin
    from moldau.errors import KafkaError
    from moldau.products.pipelines.formats.registry import Registry

REGISTRY_VARIABLE = "MOLDAU_REGISTRY"
TIMEOUT_S = 10.0
CONTROLLER_PATIENCE_MS = 5_000
"""How long a broker may take to learn the active controller."""
MAX_NAMED = 5
"""How many partitions without a leader a sentence names."""


def add_cluster_arguments(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    *,
    json: bool = True,
    rights: Rights | None = None,
) -> None:
    """Adds the flags of every command that asks a cluster; `run` is the command's function. `rights`: the rights the
    command needs, named in the error if an ACL denies them."""
    parser.set_defaults(run=run, rights=rights or {})
    add_access_arguments(parser, whose="any broker of the cluster")
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--format", choices=["table", "json"], action=_Format, dest="json", help="json is the same as --json"
        )


def add_registry_argument(parser: argparse.ArgumentParser, what: str, otherwise: str, more: str = "") -> None:
    """`--registry`. `what`: its use; `otherwise`: how records are shown without it; `more`: the end of the help."""
    parser.add_argument(
        "--registry",
        default=os.environ.get(REGISTRY_VARIABLE) or None,
        metavar="URL",
        help=f"{what} (default: {REGISTRY_VARIABLE} of the environment, else schema.registry.url of the profile, else"
        f" {otherwise}){more}",
    )


def registry_of(arguments: argparse.Namespace, patience_ms: int | None = None) -> Registry | None:
    """The registry that `--registry`, the environment or the profile names, with its login; None if none of them names
    one. `patience_ms`: None for that of a command. Raises CommandError."""
    settings, origin = settings_of(arguments)
    address = arguments.registry or settings.get("schema.registry.url")
    if address is None:
        return None
    require_registry("`--registry`")
    from moldau.client.protocol.secrets import AccessError
    from moldau.products.pipelines.formats.registry import Registry
    from moldau.products.registered_values import PATIENCE_MS

    try:
        return Registry.at(address, settings, origin, PATIENCE_MS if patience_ms is None else patience_ms)
    except AccessError as error:
        raise CommandError(str(error)) from error


def require_registry(who: str) -> None:
    """Raises CommandError unless the extra for registries and schemas is installed."""
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra(who, "registry")
    except MissingExtraError as error:
        raise CommandError(str(error)) from error


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing; only check whether the change would succeed"
    )


class _Format(argparse.Action):
    """`--format json` is `--json`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values == "json")


@contextmanager
def cluster_admin(arguments: argparse.Namespace) -> Iterator[ClusterAdmin]:
    """An administration client of the cluster; a KafkaError becomes a one-sentence CommandError."""
    from moldau.cli.diagnosis.refusals import refused_connection
    from moldau.client.admin.client import is_unreachable
    from moldau.client.protocol.sasl import LOGIN_REFUSED
    from moldau.errors import KafkaError, ProtocolError
    from moldau.transport.access import open_admin

    access = access_of(arguments).named(CLIENT_ID)
    try:
        with open_admin(access) as admin:
            yield admin
    except KafkaError as error:
        is_far = is_unreachable(error)
        refusal = None
        if error.name in ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", *LOGIN_REFUSED) and (
            access.security.has_tls or not is_far
        ):
            refusal = refused_connection(access, error)
        if refusal is not None:
            raise CommandError(str(refusal)) from error
        if is_far:
            where = str(error).removeprefix("cannot reach ")
            raise CommandError(f"no broker answers at {where}") from error
        raise CommandError(refused(error, arguments)) from error
    except ProtocolError as error:
        if isinstance(error.__cause__, UnicodeEncodeError):
            raise error.__cause__ from error  # an argument cannot be encoded; no server has answered
        refusal = refused_connection(access, error)
        if refusal is not None:
            raise CommandError(str(refusal)) from error
        raise CommandError(f"{access_of(arguments)} does not answer as a Kafka broker: {error}") from error


def refused(error: KafkaError, arguments: argparse.Namespace, name: str | None = None) -> str:
    """An error response as a sentence; for a missing right, names it. `name`: the resource, if the command line names
    several."""
    return _missing_right(error.code, arguments, name) or str(error)


def _missing_right(code: int, arguments: argparse.Namespace, name: str | None = None) -> str | None:
    from moldau.cli.diagnosis.refusals import denied, is_denial, named_by

    if not is_denial(code):
        return None
    name_of = named_by(arguments) if name is None else lambda _: name
    return str(denied(access_of(arguments), code, getattr(arguments, "rights", {}), name_of))


def check_visible(admin: ClusterAdmin, names: Sequence[str], known: Container[str]) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED for a topic that is missing from `known` because this client may not see it:
    lists leave such topics out."""
    for name in names:
        if name not in known:
            admin.client.refresh([name])


def is_view_new(arguments: argparse.Namespace) -> bool:
    """Whether an active controller answers after the broker was asked; if not, warns on standard error that the
    broker's view may be old."""
    from moldau.client.admin.quorum import has_controller
    from moldau.errors import KafkaError
    from moldau.transport.access import open_admin

    with open_admin(access_of(arguments).named(CLIENT_ID), answer_timeout_ms=CONTROLLER_PATIENCE_MS) as admin:
        try:
            is_new = has_controller(admin)
        except KafkaError:
            is_new = False
    if not is_new:
        print(
            f"moldau: no controller answers (is a majority of them running?): {access_of(arguments)} shows what "
            "it knew last, and brokers that have died since still seem to serve",
            file=sys.stderr,
        )
    return is_new


@contextmanager
def known_topic(admin: ClusterAdmin, topic: str) -> Iterator[None]:
    """Reports a missing topic if a broker only says that it does not host the partition."""
    from moldau.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        if error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        raise CommandError(unknown_topic(admin, topic)) from error


def unknown_topic(admin: ClusterAdmin, topic: str) -> str:
    """A sentence with the most similar existing topic."""
    from moldau.client.admin.topics import list_topics

    return f"unknown topic: {topic}{hint(topic, list_topics(admin))}"


def unknown_group(admin: ClusterAdmin, group: str) -> str:
    """A sentence with the most similar existing group."""
    return f"unknown group: {group}{near_group(admin, group)}"


def near_group(admin: ClusterAdmin, group: str) -> str:
    """As `hint`, for groups."""
    from moldau.client.admin.groups import list_groups

    return hint(group, (found.group_id for found in list_groups(admin)))


def split_setting(option: str, text: str) -> tuple[str, str]:
    """Splits "a=b" into ("a", "b"). Raises CommandError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandError(f"{option} takes NAME=VALUE, not {text!r}")
    return name.strip(), value.strip()


def name_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for whole names. Raises CommandError."""
    import re

    try:
        return re.compile(text)
    except re.error as error:
        raise CommandError(f"{text!r} is no regular expression: {error}") from error


def matching_names(patterns: Sequence[str], known: Sequence[str], *, is_regex: bool, what: str) -> list[str]:
    """The known names among `patterns`; with `is_regex`, the names that a pattern matches whole. Raises CommandError if
    no name matches."""
    found: list[str] = []
    for pattern in patterns:
        matched = [name for name in known if name_pattern(pattern).fullmatch(name)] if is_regex else []
        if not is_regex and pattern in known:
            matched = [pattern]
        if not matched:
            if is_regex:
                raise CommandError(f"no {what} matches {pattern}")
            raise CommandError(f"unknown {what}: {pattern}{hint(pattern, known)}")
        found += [name for name in matched if name not in found]
    return found


def client_settings(arguments: argparse.Namespace, **extra: object) -> dict[str, object]:
    """Settings of a confluent-kafka client. They silence its log: the command reports a failure as one sentence."""
    from moldau.errors import KafkaError
    from moldau.transport.librdkafka import librdkafka_settings

    try:
        return {**librdkafka_settings(access_of(arguments).named(CLIENT_ID)), "log_level": 0, **extra}
    except KafkaError as error:
        raise CommandError(str(error)) from error


def in_words(error: Any, arguments: argparse.Namespace) -> str:
    """A confluent-kafka error in words."""
    from confluent_kafka import KafkaError

    code, topic = error.code(), getattr(arguments, "topic", None)
    if topic and code in (KafkaError._UNKNOWN_PARTITION, KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT):
        # librdkafka gives these errors for a partition without a leader too
        leaderless = _without_leader(topic, arguments)
        if leaderless is not None:
            return leaderless
    if code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
        return f"no broker answers at {access_of(arguments)}"
    if code == KafkaError._MSG_TIMED_OUT:
        return f"{access_of(arguments)} did not acknowledge in time"
    missing = _missing_right(code, arguments)
    if missing is not None:
        return missing
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return "a record is larger than the topic takes (max.message.bytes)"
    if topic and code in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
        try:
            with cluster_admin(arguments) as admin:
                return unknown_topic(admin, topic)
        except CommandError:
            return f"unknown topic: {topic}"
    if topic and code == KafkaError._UNKNOWN_PARTITION:
        return f"{topic} has no such partition"
    text = str(error.str())
    # librdkafka's prefix for the side that found the error
    for prefix in ("Broker: ", "Local: "):
        text = text.removeprefix(prefix)
    return text[:1].lower() + text[1:]


def _without_leader(topic: str, arguments: argparse.Namespace) -> str | None:
    """Names the topic's partitions without a leader; None if each has one, or no broker answers."""
    from moldau.client.admin.topics import list_topics

    try:
        with cluster_admin(arguments) as admin:
            found = list_topics(admin).get(topic)
    except CommandError:
        return None
    leaderless = [] if found is None else [row for row in found.partitions if row.leader_id < 0]
    if not leaderless:
        return None
    holders = sorted({replica for row in leaderless for replica in row.replicas})
    named = ", ".join(f"{topic}-{row.index}" for row in leaderless[:MAX_NAMED])
    more = f" and {len(leaderless) - MAX_NAMED} more" if len(leaderless) > MAX_NAMED else ""
    have = "has" if len(leaderless) == 1 else "have"
    brokers = f"broker {holders[0]} has" if len(holders) == 1 else f"brokers {', '.join(map(str, holders))} have"
    return f"{named}{more} {have} no leader: {brokers} the records, and cannot lead now (moldau brokers list)"


@contextmanager
def explained(arguments: argparse.Namespace) -> Iterator[None]:
    """Turns confluent-kafka errors into CommandError. Checks first that a broker listens, because that client retries
    long and silently."""
    from confluent_kafka import KafkaException

    with cluster_admin(arguments) as admin:
        admin.client.any_connection()
    try:
        yield
    except KafkaException as exception:
        raise CommandError(in_words(exception.args[0], arguments)) from exception
