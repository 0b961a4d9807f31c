"""Explains failures of TLS, logins and ACLs: one sentence for the cause, one for the remedy.

`moldau doctor` and all other commands use the same sentences.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from moldau.cli.output import printable
from moldau.errors import ERROR_CODES, KafkaError, MoldauError, ProtocolError
from moldau.wire.protocol.acl_words import kind_word, operation_of, operation_word
from moldau.wire.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from moldau.client.protocol.access import ClusterAccess
    from moldau.client.protocol.security import ClientSecurity
    from moldau.transport.tls_stream import TlsRefusedError

Rights = Mapping[str, str]
"""The operation that a command needs, by kind of resource: {"topic": "write"}."""
KIND_OF_DENIAL: Final = {
    ERROR_CODES["TOPIC_AUTHORIZATION_FAILED"]: AclResourceType.TOPIC,
    ERROR_CODES["GROUP_AUTHORIZATION_FAILED"]: AclResourceType.GROUP,
    ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]: AclResourceType.CLUSTER,
    ERROR_CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]: AclResourceType.TRANSACTIONAL_ID,
}
UNKNOWN_PRINCIPAL: Final = "PRINCIPAL"
"""Stands for a principal that the broker derives from a certificate by its own rules."""
_REFUSED_USER: Final = " refused the user "
_REFUSED_TOKEN: Final = " refused the delegation token "


class Refusal(msgspec.Struct, frozen=True):
    """`text`: the cause, without a full stop; `advice`: whole sentences."""

    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.text}. {self.advice}"


def refused_connection(access: ClusterAccess, error: MoldauError) -> Refusal | None:
    """The first reason that a bootstrap server gives for its refusal; asks the servers again. None if the cause is not
    TLS, a login or an ACL."""
    found = (refusal_at(access, host, port, error) for host, port in access.addresses())
    return next((refusal for refusal in found if refusal is not None), None)


def refusal_at(access: ClusterAccess, host: str, port: int, error: MoldauError) -> Refusal | None:
    """Why this listener does not serve the client that got `error` from it; asks it again, for seconds at most."""
    from moldau.cli.diagnosis.strangers import PROBE_TIMEOUT_MS, offered_mechanisms, speaks_http, speaks_tls
    from moldau.client.protocol.bearer import IssuerLostError, NoTokenError
    from moldau.client.protocol.sasl import LOGIN_REFUSED

    where, security = f"{host}:{port}", access.security
    if isinstance(error, NoTokenError | IssuerLostError):
        return Refusal(str(error), _TOKEN_ADVICE)
    if isinstance(error, KafkaError) and error.name in LOGIN_REFUSED:
        return _login(error, security)
    if security.has_tls:
        from moldau.transport.tls_stream import TlsRefusedError

        if isinstance(error, TlsRefusedError):
            return _tls(access, host, port, error)
        offered = offered_mechanisms(access, host, port, has_tls=False)
        if offered is not None:
            return Refusal(f"{where} speaks plain text, without TLS", _plain_text_advice(offered))
    elif speaks_tls(host, port, PROBE_TIMEOUT_MS):
        return Refusal(
            f"{where} speaks TLS, and this client speaks plain text",
            "Set security.protocol to SSL or SASL_SSL, by --profile NAME or --command-config FILE, or use the port of "
            "a listener without TLS.",
        )
    if speaks_http(host, port, PROBE_TIMEOUT_MS):
        return Refusal(
            f"{where} is an HTTP server, not a Kafka broker", "Use the port of the broker's listener instead."
        )
    if security.login is None:
        offered = offered_mechanisms(access, host, port, has_tls=security.has_tls)
        if offered:
            return _login_is_asked_for(where, offered, security)
    return None


# -- TLS


def _plain_text_advice(offered: tuple[str, ...]) -> str:
    protocol = "SASL_PLAINTEXT" if offered else "PLAINTEXT"
    return f"Use the port of a listener with TLS; or, on a network that you trust, set security.protocol={protocol}."


def _tls(access: ClusterAccess, host: str, port: int, error: TlsRefusedError) -> Refusal:
    from ssl import SSLCertVerificationError

    from moldau.cli.diagnosis.strangers import certificate_at

    cause = error.__cause__
    if isinstance(cause, SSLCertVerificationError):
        shown = certificate_at(access, host, port)
        try:
            found = None if shown is None else _certificate(host, f"{host}:{port}", cause.verify_code, shown)
        except ProtocolError:
            found = None  # OpenSSL reads certificates that this code cannot
        if found is not None:
            return found
    own = (
        "The client shows the certificate of ssl.keystore: the broker must trust its authority (ssl.truststore of the "
        "broker), and it must be valid."
        if _has_certificate(access.security)
        else "If the listener asks clients for a certificate, set ssl.keystore.type=PEM and ssl.keystore.location in "
        "the client (moldau certs issue makes one)."
    )
    return Refusal(str(error), own if isinstance(cause, OSError) else "Use the port of a listener with TLS.")


def _certificate(host: str, where: str, code: int, shown: bytes) -> Refusal | None:
    from moldau.transport.tls_stream import EXPIRED, NOT_YET_VALID, UNKNOWN_AUTHORITY, WRONG_HOST
    from moldau.wire.x509 import (
        alternative_name_text,
        alternative_names,
        issuer_name,
        not_after_ms,
        not_before_ms,
        subject_name,
    )

    whose = f"the certificate of {where} ({printable(subject_name(shown))})"
    if code in EXPIRED:
        return Refusal(
            f"{whose} has expired: it was valid until {_moment(not_after_ms(shown))}",
            "Replace the file of the broker's certificate (moldau certs issue NAME --host HOST --replace): it is in "
            "use seconds later, without a restart. If the date is right, set this machine's clock.",
        )
    if code in NOT_YET_VALID:
        return Refusal(
            f"{whose} is not valid yet: it is valid from {_moment(not_before_ms(shown))} on",
            "Compare the clocks of this machine, of the broker, and of the machine that issued the certificate.",
        )
    if code in WRONG_HOST:
        names = sorted(printable(alternative_name_text(name)) for name in alternative_names(shown))
        return Refusal(
            f"{whose} is not one for {host}: it is for {', '.join(names) or 'no host'}",
            f"Connect by a name that the certificate has, or issue one that has this name (--host {host} of moldau "
            "certs issue). The names that brokers advertise must be in their certificates, too.",
        )
    if code in UNKNOWN_AUTHORITY:
        return Refusal(
            f"{whose} is signed by {printable(issuer_name(shown))}, which this client does not trust",
            "Set ssl.truststore.type=PEM and ssl.truststore.location to the certificate of the authority that the "
            "cluster uses (authority.pem of moldau certs). If that is set, another server may answer there.",
        )
    return None


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


# -- logins

_TOKEN_ADVICE = (
    "Check sasl.oauthbearer.token.endpoint.url, the client id and its secret, and the scope; the broker was not asked."
)

_TOKEN_REFUSED = (
    "Look at the token's audience, issuer and expiry, and at sasl.oauthbearer.expected.* and "
    "sasl.oauthbearer.jwks.endpoint.url of the broker. The broker's log says why it refused the token."
)


def _login(error: KafkaError, security: ClientSecurity) -> Refusal | None:
    from moldau.client.protocol.security import ClientLogin

    login = security.login
    is_token = isinstance(login, ClientLogin) and login.is_token
    where, refused, _ = str(error).partition(_REFUSED_TOKEN if is_token else _REFUSED_USER)
    if login is None:
        return None
    if error.name == "SASL_AUTHENTICATION_FAILED":
        if not isinstance(login, ClientLogin):
            return Refusal(str(error), _TOKEN_REFUSED)
        if not refused:
            return Refusal(str(error), "Look whether this is your broker, and which version it has.")
        user = printable(login.username)
        if is_token:
            return Refusal(
                printable(str(error)),
                "The delegation token may have expired, or its HMAC is another one: `moldau tokens create`, as its "
                "owner, makes a new one.",
            )
        return Refusal(
            f"{where}{_REFUSED_USER}{user} by {login.mechanism}: there is no such user, or its password is another; "
            "brokers do not tell which",
            f"Check sasl.username and sasl.password of this client. {_where_users_are(user, login.mechanism)}",
        )
    if error.name == "UNSUPPORTED_SASL_MECHANISM":
        return Refusal(
            str(error),
            f"Set sasl.mechanism to one that the listener offers, or add {login.mechanism} to its "
            "sasl.enabled.mechanisms.",
        )
    return Refusal(
        str(error),
        f"Set security.protocol={'SSL' if security.has_tls else 'PLAINTEXT'}, or use the port of a listener with SASL.",
    )


def _where_users_are(user: str, mechanism: str) -> str:
    if mechanism == "PLAIN":
        return f"Users of PLAIN stand in plain.sasl.jaas.config of the broker's listener, as user_{user}=..."
    return (
        "An administrator gives a user a password with moldau kafka-configs --alter --entity-type users --entity-name "
        f"{shlex.quote(user)} --add-config '{mechanism}=[password=...]'."
    )


def _login_is_asked_for(where: str, offered: tuple[str, ...], security: ClientSecurity) -> Refusal:
    protocol = "SASL_SSL" if security.has_tls else "SASL_PLAINTEXT"
    return Refusal(
        f"{where} asks for a login by SASL, and this client has none; it offers {', '.join(map(printable, offered))}",
        f"Set security.protocol={protocol}, sasl.mechanism, sasl.username and sasl.password, by --profile NAME or "
        "--command-config FILE.",
    )


# -- rights


def is_denial(code: int) -> bool:
    """Whether the error means that an ACL is missing or denies."""
    return code in KIND_OF_DENIAL


def denied(access: ClusterAccess, code: int, rights: Rights, name_of: Callable[[str], str | None]) -> Refusal:
    """The sentence for an error that `is_denial`. `name_of`: gives the name of the resource by kind ("topic"), None if
    unknown. If the denied kind is not among the command's rights, the command's own right is the remedy. Example: a
    denial for the cluster when a producer of idempotent records may write to no topic."""
    who = principal_of_client(access.security)
    kind = KIND_OF_DENIAL[code]
    if kind == AclResourceType.CLUSTER and rights and kind_word(kind) not in rights:
        kind = AclResourceType[next(iter(rights)).upper().replace("-", "_")]
    operation = operation_of(rights.get(kind_word(kind), "describe"))
    name = CLUSTER_NAME if kind == AclResourceType.CLUSTER else name_of(kind_word(kind)) or "NAME"
    return missing_right(who, operation, kind, name)


def missing_right(who: str, operation: AclOperation, kind: AclResourceType, name: str) -> Refusal:
    """The sentence for one principal, operation and resource."""
    what = "the cluster" if kind == AclResourceType.CLUSTER else f"{kind_word(kind)} {printable(name)}"
    known = "the user of this client" if who == UNKNOWN_PRINCIPAL else who
    rule = ""
    if who == UNKNOWN_PRINCIPAL:
        rule = (
            f" {UNKNOWN_PRINCIPAL} is what ssl.principal.mapping.rules of the broker make of the certificate, or the "
            "claim sub of the token."
        )
    return Refusal(
        f"{known} may not {operation_word(operation)} {what}",
        f"An administrator allows it: {line_that_allows(who, operation, kind, name)}{'.' if rule else ''}{rule}",
    )


def line_that_allows(who: str, operation: AclOperation, kind: AclResourceType, name: str) -> str:
    """The command that adds the ACL."""
    resource = "--cluster" if kind == AclResourceType.CLUSTER else f"--{kind_word(kind)} {shlex.quote(name)}"
    return f"moldau acls add {shlex.quote(who)} --operation {operation_word(operation)} {resource}"


def principal_of_client(security: ClientSecurity) -> str:
    """The principal of this client, as far as the client can know it."""
    from moldau.client.protocol.security import ClientLogin

    login = security.login
    if login is not None:
        # the token holds the name, and the broker decides in which claim
        return f"User:{login.username}" if isinstance(login, ClientLogin) else UNKNOWN_PRINCIPAL
    return UNKNOWN_PRINCIPAL if security.has_tls and _has_certificate(security) else "User:ANONYMOUS"


def _has_certificate(security: ClientSecurity) -> bool:
    return any(name.startswith("ssl.keystore.") for name, _ in (*security.tls, *security.tls_secrets))


def named_by(arguments: argparse.Namespace) -> Callable[[str], str | None]:
    """The topic, group or transactional id that a command line names, by kind."""

    def name_of(kind: str) -> str | None:
        given = getattr(arguments, kind.replace("-", "_"), None)
        if isinstance(given, list):
            return str(given[0]) if len(given) == 1 else None
        return None if given is None else str(given)

    return name_of
