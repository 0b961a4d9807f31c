"""`moldau up --tls`: a certificate authority in a folder, a certificate for the nodes, settings for clients.

authority.pem, ...   see `moldau.transport.authority_folder`
node.pem             the certificate of all nodes that this command runs
client.properties    settings for Java's clients and for `--command-config`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import msgspec

from moldau.cli.output import CommandError
from moldau.client.protocol.access import BOOTSTRAP_SERVERS, ClusterAccess
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.listeners import is_wildcard, parse_endpoints

PROTOCOL = "SSL"
CERTIFICATE_NAME = "node"
AUTHORITY_NAME = "moldau up"
CLIENT_PROPERTIES = "client.properties"
_OWN_SETTINGS = (
    *("listeners", "listener.security.protocol.map", "security.inter.broker.protocol", "inter.broker.listener.name"),
    *("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain"),
    *("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"),
)
"""The settings that `--tls` chooses."""


class LocalTls(msgspec.Struct, frozen=True):
    """`settings`: for each node; `lines`: printed for clients; `properties`: the file with the settings of a client."""

    settings: Mapping[str, str]
    lines: tuple[str, ...]
    properties: Path


def tls_folder(arguments: argparse.Namespace, directory: str | Path) -> Path | None:
    """The folder of the authority of `--tls`; None without TLS. `directory`: the data directory. Raises
    CommandError."""
    if arguments.tls is None:
        return None
    if arguments.tls:
        return Path(arguments.tls)
    if arguments.in_memory:
        raise CommandError("--in-memory keeps no file: name a folder for the authority, --tls DIR")
    return Path(directory)


def local_tls(folder: Path, given: Mapping[str, str], listen_host: str) -> LocalTls:
    """The authority in `folder`, created if it is missing, with a certificate for the names and addresses of this
    machine, of `listen_host`, and of `advertised.listeners`. `given`: the user's settings. Raises CommandError."""
    from moldau.extras import MissingExtraError, require_extra

    own = next((name for name in _OWN_SETTINGS if name in given), None)
    if own is not None:
        raise CommandError(f"--tls chooses {own} itself: leave out one of the two")
    try:
        require_extra("--tls", "tls")
    except MissingExtraError as error:
        raise CommandError(str(error)) from error
    from moldau.transport.authority_folder import AuthorityError, AuthorityFolder, has_authority

    now = datetime.now(UTC)
    try:
        found = (
            AuthorityFolder(folder) if has_authority(folder) else AuthorityFolder.create(folder, AUTHORITY_NAME, now)
        )
        node, reason = found.of_node(CERTIFICATE_NAME, _hosts(given, listen_host), now)
    except AuthorityError as error:
        raise CommandError(str(error)) from error
    authority = found.certificate_path.resolve()
    properties = _write_properties(folder, authority)
    issued = (f"{node.resolve()} was issued: {reason}",) if reason else ()
    return LocalTls(
        _node_settings(node.resolve(), authority), (*_client_lines(authority, properties), *issued), properties
    )


def access_to_node(settings: BrokerSettings, bootstrap_servers: str) -> ClusterAccess:
    """The access of this command's own clients to a broker with these settings, at its first listener, by TLS if that
    has it. Raises AccessError."""
    listener = settings.listeners[0].name
    if settings.protocol_of(listener) != PROTOCOL:
        return ClusterAccess(bootstrap_servers)
    prefix = f"listener.name.{listener.lower()}."
    stores = [f"ssl.truststore.{part}" for part in ("type", "location", "certificates")]
    if settings.ssl_client_auth != "none":
        stores += [f"ssl.keystore.{part}" for part in ("type", "location")]
    texts = {name: settings.texts.get(prefix + name, settings.texts.get(name)) for name in stores}
    found = {name: text for name, text in texts.items() if text is not None}
    return ClusterAccess.from_properties({BOOTSTRAP_SERVERS: bootstrap_servers, "security.protocol": PROTOCOL, **found})


def _hosts(given: Mapping[str, str], listen_host: str) -> list[str]:
    from moldau.shell.io.host_name import host_name
    from moldau.transport.authority import LOCAL_HOSTS

    advertised = given.get("advertised.listeners", "")
    endpoints = parse_endpoints("advertised.listeners", tuple(filter(None, advertised.split(","))))
    hosts = [*LOCAL_HOSTS, host_name(), listen_host, *(endpoint.host for endpoint in endpoints)]
    return list(dict.fromkeys(_written(host) for host in hosts if not is_wildcard(host)))


def _written(host: str) -> str:
    """An address in the form in which certificates contain it."""
    plain = host.strip("[]")
    try:
        return str(ip_address(plain))
    except ValueError:
        return plain.lower()


def _node_settings(node: Path, authority: Path) -> dict[str, str]:
    return {
        "security.inter.broker.protocol": PROTOCOL,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def _client_settings(authority: Path) -> dict[str, str]:
    return {
        "security.protocol": PROTOCOL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }


def _client_lines(authority: Path, properties: Path) -> list[str]:
    java = " ".join(f"{name}={text}" for name, text in _client_settings(authority).items())
    python = f"ssl.create_default_context(cafile={json.dumps(str(authority), ensure_ascii=False)})"
    return [
        f"librdkafka: security.protocol={PROTOCOL} ssl.ca.location={authority}",
        f"Java: {java} (in {properties})",
        f'Python: security_protocol="{PROTOCOL}", ssl_context={python}',
    ]


def _write_properties(folder: Path, authority: Path) -> Path:
    """Raises CommandError."""
    from moldau.core.config.properties import format_properties
    from moldau.shell.io.disk import OsDisk

    path = folder.resolve() / CLIENT_PROPERTIES
    text = format_properties(_client_settings(authority))
    try:
        if not path.exists() or path.read_text("utf-8", "replace") != text:
            OsDisk(str(folder)).replace_file(CLIENT_PROPERTIES, text.encode())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    return path
