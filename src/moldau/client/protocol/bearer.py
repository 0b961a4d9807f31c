"""Logins by OAUTHBEARER (KIP-255, 768, 1139): token settings, and responses of the issuer.

    sasl.oauthbearer.token.endpoint.url                     https://..., http:// to the loopback, file:///...
    sasl.oauthbearer.client.credentials.client.id, .secret  of the grant client_credentials (RFC 6749, 4.4)
    sasl.oauthbearer.assertion.file                         a signed assertion in place of the secret (RFC 7523, 2.2)
    sasl.oauthbearer.assertion.private.key.file, .claim.*   the key and the claims of one that is signed here (KIP-1258)
    sasl.oauthbearer.jwt.retriever.class                    JwtBearerJwtRetriever: the assertion is the grant (2.1)
    sasl.oauthbearer.scope, sasl.oauthbearer.extensions     NAME=VALUE,... (KIP-342; a name of librdkafka)
    sasl.login.connect.timeout.ms, .read.timeout.ms         of one try to ask the endpoint
    sasl.login.retry.backoff.ms, .retry.backoff.max.ms      between two tries
    https.ca.location                                       who signs the certificate of the endpoint; also librdkafka's

In `sasl.jaas.config` the options clientId, clientSecret, scope, extension_NAME and ssl.truststore.location (PEM) have
the same meaning. `moldau.transport.oauth` sends the requests.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode

import msgspec

from moldau.client.protocol.secrets import AccessError, Origin, Secret, secret_of
from moldau.errors import KafkaError
from moldau.wire.protocol.jaas import LoginModule
from moldau.wire.protocol.oauth_settings import (
    ASSERTION_ALGORITHM,
    ASSERTION_AUDIENCE,
    ASSERTION_BEGINS_S,
    ASSERTION_HAS_ID,
    ASSERTION_ISSUER,
    ASSERTION_KEY_FILE,
    ASSERTION_LASTS_S,
    ASSERTION_PASSPHRASE,
    ASSERTION_SUBJECT,
    LOGIN_TIMES,
    OAUTH_ASSERTION_FILE,
    OAUTH_CLASSES,
    OAUTH_CLIENT_ID,
    OAUTH_CLIENT_SECRET,
    OAUTH_RETRIEVER,
    OAUTH_SCOPE,
    OAUTH_SETTINGS,
    TOKEN_ENDPOINT,
)
from moldau.wire.protocol.sasl_tokens import OAUTHBEARER, BearerToken, encode_bearer

OAUTH_EXTENSIONS: Final = "sasl.oauthbearer.extensions"
OAUTH_URL_ENCODED: Final = "sasl.oauthbearer.header.urlencode"
HTTPS_CA_LOCATION: Final = "https.ca.location"
BEARER_SETTINGS: Final = (*OAUTH_SETTINGS, OAUTH_EXTENSIONS, OAUTH_URL_ENCODED, HTTPS_CA_LOCATION)
ASSERTION_ALGORITHMS: Final = ("RS256", "ES256")
MAX_LASTS_S, MAX_BEGINS_S = 86_400, 3_600
FILE: Final = "file:"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_BY_ASSERTION: Final = f"{OAUTH_CLASSES}JwtBearerJwtRetriever"
_RETRIEVERS: Final = (
    f"{OAUTH_CLASSES}DefaultJwtRetriever",
    f"{OAUTH_CLASSES}ClientCredentialsJwtRetriever",
    _BY_ASSERTION,
)
MAX_TOKEN_CHARACTERS: Final = 32 << 10
"""Longer tokens are rejected, because brokers read only small requests before a login."""
REFRESH_FACTOR, REFRESH_JITTER = 0.8, 0.05
REFRESH_BUFFER_MS, REFRESH_MIN_PERIOD_MS = 300_000, 60_000
"""The times for replacing a token: the defaults of Kafka's `sasl.login.refresh.*` (KIP-368)."""
MAX_DIGITS: Final = 9
_EXTENSION: Final = "extension_"
_ERROR_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class LoginTimes(msgspec.Struct, frozen=True):
    """Timeouts of requests to an issuer in ms, as in LOGIN_TIMES (KIP-768). `connect_ms`: includes TLS. `read_ms`:
    until the first bytes of the response; 0: as long as the whole login may take."""

    connect_ms: int = 0
    read_ms: int = 0
    backoff_ms: int = 100
    max_backoff_ms: int = 10_000


class AssertionKey(msgspec.Struct, frozen=True):
    """The key that signs assertions in this process (KIP-1258). `file`: in PEM (PKCS#8). Raises AccessError."""

    file: str
    issuer: str
    subject: str = ""
    audience: str = ""
    algorithm: str = ASSERTION_ALGORITHMS[0]
    lasts_s: int = 300
    begins_s: int = 60
    """Seconds that the assertion is valid before now, for a clock that is behind."""
    has_id: bool = False
    passphrase: Secret | None = None

    def __post_init__(self) -> None:
        if not self.issuer:
            raise AccessError(ASSERTION_ISSUER, f"must be set with {ASSERTION_KEY_FILE}")
        if self.algorithm not in ASSERTION_ALGORITHMS:
            raise AccessError(ASSERTION_ALGORITHM, f"must be {' or '.join(ASSERTION_ALGORITHMS)}")
        for name, seconds, most in (
            (ASSERTION_LASTS_S, self.lasts_s, MAX_LASTS_S),
            (ASSERTION_BEGINS_S, self.begins_s, MAX_BEGINS_S),
        ):
            if seconds > most:
                raise AccessError(name, f"must be a number of seconds from 0 to {most}")

    def claims(self, now_ms: int, token_id: str) -> dict[str, object]:
        """The claims of an assertion. `now_ms`: since the epoch."""
        now_s = now_ms // 1_000
        said = {"iss": self.issuer, "sub": self.subject, "aud": self.audience, "jti": token_id if self.has_id else ""}
        claims: dict[str, object] = {name: text for name, text in said.items() if text}
        claims |= {"iat": now_s, "nbf": now_s - self.begins_s, "exp": now_s + self.lasts_s}
        return claims

    def properties(self) -> dict[str, str]:
        """The settings of this key. Raises AccessError for a passphrase in memory."""
        return {
            ASSERTION_KEY_FILE: self.file,
            ASSERTION_PASSPHRASE: "" if self.passphrase is None else self.passphrase.reference(),
            ASSERTION_ISSUER: self.issuer,
            ASSERTION_SUBJECT: self.subject,
            ASSERTION_AUDIENCE: self.audience,
            ASSERTION_ALGORITHM: self.algorithm,
            ASSERTION_LASTS_S: str(self.lasts_s),
            ASSERTION_BEGINS_S: str(self.begins_s),
            ASSERTION_HAS_ID: "true" if self.has_id else "",
        }


class BearerLogin(msgspec.Struct, frozen=True):
    """A login by tokens from the issuer at `endpoint`, or from a file (`file:///...`). `extensions`: names and values.
    Raises AccessError for incomplete settings."""

    endpoint: str
    client_id: str = ""
    client_secret: Secret | None = None
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    ca_location: str = ""
    assertion_file: str = ""
    is_url_encoded: bool = False
    """URL-encodes id and secret in the HTTP header, as RFC 6749 requires. Kafka's clients do not by default."""
    times: LoginTimes = LoginTimes()
    key: AssertionKey | None = None
    """The key that signs assertions in this process. A file with an assertion takes precedence, as in Kafka."""
    is_granted_by_assertion: bool = False
    """The assertion is the grant. Otherwise it authenticates the client."""

    def __post_init__(self) -> None:
        if not self.endpoint:
            raise AccessError(TOKEN_ENDPOINT, f"must be set for {OAUTHBEARER}")
        if self.is_granted_by_assertion and not self.has_assertion:
            raise AccessError(OAUTH_ASSERTION_FILE, f"must be set, or {ASSERTION_KEY_FILE}")
        if not self.is_file and not self.has_assertion:
            if not self.client_id:
                raise AccessError(OAUTH_CLIENT_ID, f"must be set, or {OAUTH_ASSERTION_FILE}")
            if self.client_secret is None:
                raise AccessError(OAUTH_CLIENT_SECRET, "must be set")
        if not self.endpoint.lower().startswith(("https://", "http://", f"{FILE}/")):
            raise AccessError(TOKEN_ENDPOINT, f"must begin with https:// or {FILE}/")
        try:
            encode_bearer(BearerToken("x", dict(self.extensions)))
        except ValueError as error:
            raise AccessError(OAUTH_EXTENSIONS, f"cannot be sent: {error}") from None

    @property
    def mechanism(self) -> str:
        """The SASL mechanism."""
        return OAUTHBEARER

    @property
    def who(self) -> str:
        """The name in errors and reports. The principal itself is in the token."""
        if self.is_file:
            return f"the token of {self.endpoint}"
        return f"the client {self.client_id}" if self.client_id else "the client of the assertion"

    @property
    def has_assertion(self) -> bool:
        """Whether the login uses an assertion instead of a secret."""
        return bool(self.assertion_file) or self.key is not None

    @property
    def is_file(self) -> bool:
        """Whether the token is the content of a file."""
        return self.endpoint.lower().startswith(FILE)

    @property
    def path(self) -> str:
        """The path of the token file, from `file:/PATH` or `file:///PATH`."""
        path = self.endpoint[len(FILE) :]
        return path.removeprefix("//") if path.startswith("///") else path

    def properties(self) -> dict[str, str]:
        """The settings of this login, with a reference to the secret. Raises AccessError for a secret in memory."""
        texts = {
            "sasl.mechanism": self.mechanism,
            TOKEN_ENDPOINT: self.endpoint,
            OAUTH_CLIENT_ID: self.client_id,
            OAUTH_CLIENT_SECRET: "" if self.client_secret is None else self.client_secret.reference(),
            OAUTH_SCOPE: self.scope,
            OAUTH_EXTENSIONS: extensions_text(self.extensions),
            OAUTH_URL_ENCODED: "true" if self.is_url_encoded else "",
            OAUTH_ASSERTION_FILE: self.assertion_file,
            OAUTH_RETRIEVER: _BY_ASSERTION if self.is_granted_by_assertion else "",
            **({} if self.key is None else self.key.properties()),
            HTTPS_CA_LOCATION: self.ca_location,
        }
        chosen, default = msgspec.structs.astuple(self.times), msgspec.structs.astuple(LoginTimes())
        texts |= {name: str(ms) for name, ms, usual in zip(LOGIN_TIMES, chosen, default, strict=True) if ms != usual}
        return {name: text for name, text in texts.items() if text}


class SuppliedLogin(msgspec.Struct, frozen=True):
    """A login by tokens of this process. `supply` returns the token for each login, such as that of a user logged in to
    a service, and raises KafkaError once none is left. Cannot leave this process."""

    supply: Callable[[], str]
    who: str = "the holder of a token"

    @property
    def mechanism(self) -> str:
        """The SASL mechanism."""
        return OAUTHBEARER

    def __repr__(self) -> str:
        return f"SuppliedLogin({self.who!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Raises AccessError."""
        return type(self), tuple(self.properties())

    def properties(self) -> dict[str, str]:
        """Raises AccessError."""
        raise AccessError("sasl.mechanism", f"is {OAUTHBEARER} with a token that this process alone has")


class NoTokenError(KafkaError):
    """The issuer returns no usable token, or the file has none."""

    code = 58
    name = "SASL_AUTHENTICATION_FAILED"


class IssuerLostError(KafkaError):
    """The issuer could not be reached. Retriable."""

    code = 13
    name = "NETWORK_EXCEPTION"
    is_retriable = True


class Granted(NamedTuple):
    """`lifetime_ms`: from now; None: unknown."""

    token: str
    lifetime_ms: int | None

    def __repr__(self) -> str:
        return f"Granted(***, {self.lifetime_ms})"


# -- settings


def bearer_login(properties: Mapping[str, str], module: LoginModule | None, origin: Origin | None) -> BearerLogin:
    """`module`: the login module of `sasl.jaas.config`, with the options of KIP-768. Settings take precedence. Raises
    AccessError."""
    options = {} if module is None else module.options
    secret = properties.get(OAUTH_CLIENT_SECRET)
    found: Secret | None = None
    if secret:
        found = secret_of(OAUTH_CLIENT_SECRET, secret, origin)
    elif options.get("clientSecret"):
        found = secret_of("sasl.jaas.config", options["clientSecret"], origin)
    in_module = tuple((key[len(_EXTENSION) :], options[key]) for key in options if key.startswith(_EXTENSION))
    return BearerLogin(
        properties.get(TOKEN_ENDPOINT, "").strip(),
        properties.get(OAUTH_CLIENT_ID, options.get("clientId", "")),
        found,
        properties.get(OAUTH_SCOPE, options.get("scope", "")),
        _extensions(properties[OAUTH_EXTENSIONS]) if OAUTH_EXTENSIONS in properties else in_module,
        properties.get(HTTPS_CA_LOCATION, "").strip() or _trusted(options),
        properties.get(OAUTH_ASSERTION_FILE, "").strip(),
        properties.get(OAUTH_URL_ENCODED, "").strip().lower() == "true",
        LoginTimes(
            *(
                _number(name, properties.get(name, "").strip(), usual)
                for name, usual in zip(LOGIN_TIMES, msgspec.structs.astuple(LoginTimes()), strict=True)
            )
        ),
        _assertion_key(properties, origin),
        _is_granted_by_assertion(properties.get(OAUTH_RETRIEVER, "").strip()),
    )


def _is_granted_by_assertion(retriever: str) -> bool:
    if retriever and retriever not in _RETRIEVERS:
        raise AccessError(OAUTH_RETRIEVER, f"must be one of {', '.join(_RETRIEVERS)}: no other is known")
    return retriever == _BY_ASSERTION


def _assertion_key(properties: Mapping[str, str], origin: Origin | None) -> AssertionKey | None:
    def text(name: str) -> str:
        return properties.get(name, "").strip()

    if not text(ASSERTION_KEY_FILE):
        return None
    passphrase = properties.get(ASSERTION_PASSPHRASE)
    return AssertionKey(
        text(ASSERTION_KEY_FILE),
        text(ASSERTION_ISSUER),
        text(ASSERTION_SUBJECT),
        text(ASSERTION_AUDIENCE),
        text(ASSERTION_ALGORITHM).upper() or ASSERTION_ALGORITHMS[0],
        _number(ASSERTION_LASTS_S, text(ASSERTION_LASTS_S), 300, "seconds"),
        _number(ASSERTION_BEGINS_S, text(ASSERTION_BEGINS_S), 60, "seconds"),
        text(ASSERTION_HAS_ID).lower() == "true",
        secret_of(ASSERTION_PASSPHRASE, passphrase, origin) if passphrase else None,
    )


def _number(name: str, text: str, usual: int, unit: str = "milliseconds") -> int:
    if not text:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise AccessError(name, f"must be a number of {unit} from 0 to {10**MAX_DIGITS - 1}")
    return int(text)


def _trusted(options: Mapping[str, str]) -> str:
    """The CA file from the options of the login module, which configure TLS with the issuer (KIP-768)."""
    given = {name: text for name, text in options.items() if name.startswith("ssl.") and text}
    location = given.pop("ssl.truststore.location", "")
    kind = given.pop("ssl.truststore.type", "JKS")
    if given or (location and kind.upper() != "PEM"):
        name = next(iter(given), "ssl.truststore.type")
        raise AccessError(
            "sasl.jaas.config",
            f"cannot have this {name}: a trust store is PEM here (ssl.truststore.type, ssl.truststore.location)",
        )
    return location


def extensions_text(extensions: Iterable[tuple[str, str]]) -> str:
    """The value of OAUTH_EXTENSIONS."""
    return ",".join(f"{name}={value}" for name, value in extensions)


def _extensions(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise AccessError(OAUTH_EXTENSIONS, "must be like traceId=1,group=2")
    return tuple((name, value) for name, _, value in pairs)


# -- the request, and its answer


def token_request(login: BearerLogin, secret: str, assertion: str) -> tuple[dict[str, str], bytes]:
    """Headers and form of the request. `secret` and `assertion` are resolved values; an assertion takes precedence."""
    form = {"grant_type": "client_credentials"}
    if assertion and login.is_granted_by_assertion:
        form = {"grant_type": JWT_BEARER, "assertion": assertion}
    elif assertion:
        form |= {"client_assertion_type": CLIENT_ASSERTION, "client_assertion": assertion}
        form |= {"client_id": login.client_id} if login.client_id else {}
    if login.scope:
        form["scope"] = login.scope
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if not assertion:
        pair = (quote_plus(login.client_id), quote_plus(secret)) if login.is_url_encoded else (login.client_id, secret)
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(pair).encode()).decode()
    return headers, urlencode(form).encode()


def take_grant(body: bytes, now_ms: int) -> Granted:
    """The grant in a response of a token endpoint with status 200. `now_ms`: the wall clock. Raises ValueError with a
    sentence without its subject, which contains nothing of the response."""
    answer = _json_object(body)
    if answer is None:
        raise ValueError("answered no JSON object")
    token = answer.get("access_token")
    if not isinstance(token, str) or not token:
        raise ValueError("answered without an access_token")
    check_token(token)
    expires_in, lifetime_ms = answer.get("expires_in"), lifetime_ms_of(token, now_ms)
    if isinstance(expires_in, int) and not isinstance(expires_in, bool) and 0 < expires_in < 1 << 31:
        # brokers use the claim, whose whole seconds may end up to one second earlier
        lifetime_ms = expires_in * 1_000 if lifetime_ms is None else min(lifetime_ms, expires_in * 1_000)
    return Granted(token, lifetime_ms)


def check_token(token: str) -> None:
    """Raises ValueError for a token that a login cannot carry. The message contains nothing of the token."""
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise ValueError(f"gave a token of more than {MAX_TOKEN_CHARACTERS} characters")
    try:
        encode_bearer(BearerToken(token))
    except ValueError:
        raise ValueError("gave a token with characters that a bearer token cannot have") from None


def error_code_of(body: bytes) -> str:
    """The `error` of an error response (RFC 6749, 5.2), such as invalid_client; "" if it is not such a word."""
    error = (_json_object(body) or {}).get("error")
    return error if isinstance(error, str) and _ERROR_CODE.fullmatch(error) else ""


def lifetime_ms_of(token: str, now_ms: int) -> int | None:
    """The remaining lifetime by the unverified claim `exp` of a JWT; None without the claim."""
    claims = _claims(token)
    expires_s = claims.get("exp")
    if isinstance(expires_s, bool) or not isinstance(expires_s, int | float) or not 0 < expires_s < 1 << 40:
        return None
    return max(0, int(expires_s * 1_000) - now_ms)


def refresh_after_ms(lifetime_ms: int, jitter: float) -> int:
    """The time to use a token of this lifetime. `jitter`: random, in [0, 1)."""
    chosen = int(lifetime_ms * (REFRESH_FACTOR + REFRESH_JITTER * jitter))
    latest = lifetime_ms - REFRESH_BUFFER_MS
    return min(chosen, latest) if latest >= REFRESH_MIN_PERIOD_MS else chosen


def no_token(login: BearerLogin, where: str, reason: str, *, is_transient: bool) -> NoTokenError | IssuerLostError:
    """`where`: the address, without its query. IssuerLostError if another try may succeed."""
    kind = IssuerLostError if is_transient else NoTokenError
    return kind(f"no token for {login.who}: {where} ({TOKEN_ENDPOINT}) {reason}")


def _claims(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        data = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return {}
    return _json_object(data) or {}


def _json_object(data: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
