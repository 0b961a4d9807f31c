"""Admission and TLS of a service from its command line. Rejects a service that would be open to everybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError, MoldauError
from moldau.extras import require_extra
from moldau.products.service.admission import Admit, this_machine
from moldau.products.service.logins.cluster import ClusterSource
from moldau.products.service.logins.gate import Gate
from moldau.products.service.logins.machines import Bearers, Callers, admit_callers, only_metrics, read_machines
from moldau.products.service.logins.passwords import KnownPasswords
from moldau.products.service.logins.settings import CLUSTER, OIDC, LoginFileError, LoginSettings, read_login_file
from moldau.products.service.logins.source import OidcSource, PasswordSource
from moldau.products.service.people import Person
from moldau.products.service.routes import ServedRoute
from moldau.products.service.service import Service
from moldau.transport.service_tls import ServiceTls
from moldau.wire.protocol.security_protocols import is_loopback

LINES = """\
--login FILE            logins and their roles: [login] and [roles]
[tls] in that file      ssl.keystore.type = "PEM" and ssl.keystore.location: a key with its certificate"""
"""The remedy in the error of a service that would be open to all."""


class OpenServiceError(MoldauError):
    """The service would be open to others without a login or without TLS."""


class Opening(msgspec.Struct, frozen=True):
    """`settings`: None means no login, only the loopback. `tls`: None means HTTP."""

    settings: LoginSettings | None = None
    tls: ServiceTls | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"


class Entrance(msgspec.Struct, frozen=True):
    """The entrance of a service: `admit` admits requests, `routes` are the pages of the login. `acts_as`: the principal
    of the service itself."""

    admit: Admit
    routes: tuple[ServedRoute, ...] = ()
    acts_as: str = ""
    gate: Gate | None = None

    def join(self, service: Service) -> None:
        """Ends the sessions when the service ends."""
        if self.gate is not None:
            service.await_at_end(self.gate.close)


OPEN_HERE = Entrance(this_machine)
"""The entrance of a service without logins, on the loopback."""


def read_opening(host: str, login: Path | None) -> Opening:
    """Raises LoginFileError, and OpenServiceError with the remedy."""
    settings = None if login is None else read_login_file(login)
    tls = None
    if settings is not None and settings.tls:
        try:
            tls = ServiceTls(dict(settings.tls))
        except KafkaError as error:
            raise LoginFileError(f"{settings.path}: tls: {error.message or error.name}") from error
    if not is_loopback(host) and (settings is None or tls is None):
        missing = "logins and TLS" if settings is None else "TLS"
        told = f"--listen {host} is open to other machines, and has no {missing}. This mends it:"
        raise OpenServiceError(f"{told}\n{LINES}")
    return Opening(settings, tls)


def entrance_of(
    name: str,
    opening: Opening,
    access: ClusterAccess,
    *,
    ended: Callable[[Person], None] = lambda _: None,
    asks_cluster: bool = True,
) -> Entrance:
    """The entrance of a service with pages for people; machines may read its metrics. `name`: of the service; `access`:
    its own; `ended`: see Gate. `asks_cluster`: the service asks the cluster for people, under their own names. Raises
    LoginFileError."""
    settings = opening.settings
    if settings is None:
        return OPEN_HERE
    source = source_of(access, settings, asks_cluster=asks_cluster)
    machines = only_metrics(Callers(read_machines(settings)))
    gate = Gate(name, settings, source, machines=machines, ended=ended)
    return Entrance(gate.admit, tuple(gate.routes()), source.principal, gate)


def callers_entrance(opening: Opening, access: ClusterAccess) -> Entrance:
    """The entrance of a service without pages, whose requests all carry their credentials: those of machines, and those
    of cluster users if the file gives any of them a role. `access`: tries their passwords. Raises LoginFileError."""
    settings = opening.settings
    if settings is None:
        return OPEN_HERE
    machines, passwords = read_machines(settings), None
    if settings.source == CLUSTER and (settings.roles.names or settings.subjects):
        passwords = KnownPasswords(ClusterSource(access, settings).check)
    return Entrance(admit_callers(Callers(machines, passwords, _bearers(settings))))


def _bearers(settings: LoginSettings) -> Bearers | None:
    if settings.oidc is None or not settings.oidc.audience:
        return None
    require_extra("oidc.audience", "oauth")
    from moldau.products.service.logins.issuer import BearerTokens

    return BearerTokens(settings, settings.oidc, settings.oidc.audience).person


def source_of(
    access: ClusterAccess, settings: LoginSettings, *, asks_cluster: bool = True
) -> PasswordSource | OidcSource:
    """See `entrance_of`. Raises LoginFileError."""
    if not asks_cluster:
        settings = replace(settings, acts_without_tokens=True, wants_tokens=False)
    if settings.source == OIDC:
        require_extra('login.source = "oidc"', "oauth")
        from moldau.products.service.logins.oidc import IssuerSource

        return IssuerSource(access, settings)
    return ClusterSource(access, settings)
