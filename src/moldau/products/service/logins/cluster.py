"""Logins of users of a cluster: the password is tried there and exchanged for a delegation token.

The service then acts with that token under the person's name, and forgets the password. If the cluster has no
delegation tokens, the login is rejected, but with `without_tokens = "service"` the service reads under its own name
(docs/decisions/0108-people-act-by-delegation-tokens.md).
"""

from __future__ import annotations

from msgspec.structs import replace

from moldau.client.admin.client import ClusterAdmin
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.secrets import Secret
from moldau.client.protocol.security import SASL_PASSWORD, ClientLogin
from moldau.errors import KafkaError
from moldau.products.service.logins.settings import USER, LoginFileError, LoginSettings
from moldau.products.service.logins.source import Login, LoginRefused, NoAnswer
from moldau.products.service.logins.tokens import NoTokens, Token
from moldau.products.service.people import How, Person, Role
from moldau.transport.access import open_admin
from moldau.wire.protocol.sasl_tokens import PASSWORD_MECHANISMS
from moldau.wire.protocol.security_protocols import has_sasl

WRONG = "The name or the password is wrong."
SILENT = "The cluster does not answer. Try again in a moment."
WITHOUT_TOKENS = (
    "This cluster has no delegation tokens, so you cannot act under your own name. Set "
    'delegation.token.secret.key on its brokers, or without_tokens = "service" in the file of --login.'
)
TIMEOUT_MS = 15_000
"""Longer than a broker delays the answer to a wrong password, at most 10 s."""
CONNECT_TIMEOUT_MS = 5_000
_REFUSED = "SASL_AUTHENTICATION_FAILED"


class ClusterSource:
    """`access`: of the service. Raises LoginFileError if users cannot log in by it."""

    def __init__(self, access: ClusterAccess, settings: LoginSettings) -> None:
        login = access.security.login
        if not has_sasl(access.security.protocol):
            raise LoginFileError(
                f'{settings.path}: login.source = "cluster" tries passwords at the cluster, and '
                f"{access.security.protocol} knows none: reach the cluster by SASL_SSL (--profile, --command-config)"
            )
        mechanism = settings.mechanism or (None if login is None else login.mechanism)
        if mechanism not in PASSWORD_MECHANISMS:
            raise LoginFileError(f"{settings.path}: login.mechanism must be one of {', '.join(PASSWORD_MECHANISMS)}")
        self._access = access
        self._settings = settings
        self._mechanism = mechanism
        self.cluster = str(access)
        self.principal = own_principal(access)
        self._renewers = [self.principal] if isinstance(login, ClientLogin) else []
        self.note = (
            f"Where the cluster has no delegation tokens, this service reads as {self.principal} for you."
            if settings.acts_without_tokens
            else "Your password goes to the cluster once and is not kept."
        )

    def log_in(self, name: str, password: str) -> Login:
        """See PasswordSource."""
        own = self._own_access(name, password)
        role = self._settings.roles.of(name)
        subjects = self._settings.subjects_of(name)
        try:
            with open_admin(own, answer_timeout_ms=TIMEOUT_MS) as admin:
                admin.cluster()  # try the password before any other request
                if role is Role.NOBODY and not subjects:
                    raise LoginRefused(f"{name} has no role here: see [roles] in the file of --login.")
                token = self._token(admin, own) if self._settings.wants_tokens else None
        except KafkaError as error:
            if error.name == _REFUSED:
                raise LoginRefused(WRONG, is_wrong=True) from None
            raise NoAnswer(SILENT) from error
        person = Person(USER + name, role, How.PASSWORD, None if token is None else token.access, subjects)
        if token is None:
            return Login(person)
        return Login(person, token.lasts_s, token.renew, token.end)

    def check(self, name: str, password: str) -> Person:
        """The person, without a token: for requests that carry their password each time. Waits for the cluster. Raises
        LoginRefused, NoAnswer."""
        try:
            with open_admin(self._own_access(name, password), answer_timeout_ms=TIMEOUT_MS) as admin:
                admin.cluster()
        except KafkaError as error:
            if error.name == _REFUSED:
                raise LoginRefused(WRONG, is_wrong=True) from None
            raise NoAnswer(SILENT) from error
        settings = self._settings
        return Person(USER + name, settings.roles.of(name), How.BASIC, subjects=settings.subjects_of(name))

    def _own_access(self, name: str, password: str) -> ClusterAccess:
        login = ClientLogin(self._mechanism, name, Secret.in_memory(SASL_PASSWORD, password))
        return replace(
            self._access,
            security=replace(self._access.security, login=login),
            connect_timeout_ms=min(CONNECT_TIMEOUT_MS, self._access.connect_timeout_ms),
            request_timeout_ms=min(TIMEOUT_MS, self._access.request_timeout_ms),
        )

    def _token(self, admin: ClusterAdmin, own: ClusterAccess) -> Token | None:
        """None means that the service acts under its own name. Raises KafkaError, LoginRefused."""
        try:
            return Token.exchange(admin, own, self._access, self._renewers, self._settings.absolute_s)
        except NoTokens:
            if self._settings.acts_without_tokens:
                return None
            raise LoginRefused(WITHOUT_TOKENS) from None


def own_principal(access: ClusterAccess) -> str:
    """The principal of the service itself, as far as its settings tell."""
    login = access.security.login
    return USER + login.username if isinstance(login, ClientLogin) else "the service"
