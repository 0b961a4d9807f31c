"""The tokens of SASL PLAIN (RFC 4616), SCRAM (RFC 5802, 7677) and OAUTHBEARER (RFC 7628), and SCRAM's hashes.

Used by the broker (`core/authentication`) and the client (`client/protocol/sasl.py`). A malformed token is a
ProtocolError, whose text has no part of the token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from moldau.errors import ProtocolError

PLAIN: Final = "PLAIN"
SCRAM_HASHES: Final[dict[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_NUMBERS: Final[dict[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The numbers of the mechanisms in KIP-554."""
OAUTHBEARER: Final = "OAUTHBEARER"
PASSWORD_MECHANISMS: Final = (PLAIN, *SCRAM_HASHES)
"""The mechanisms with a name and a password."""
MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER)
MIN_ITERATIONS: Final = 4_096
TOKEN_EXTENSION: Final = "tokenauth"
"""The SCRAM extension for logins with a delegation token (KIP-48): its value is "true"."""

# possessive, because a stranger's token would fill the engine's stack, with 150 MiB for 512 KiB
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_NAME = r"(?:[^\x00,=]++|=2C|=3D)++"
_NONCE = r"[\x21-\x2b\x2d-\x7e]++"
_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*)"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>(?P<binding>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^\x00,]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}")
_PAIRS = r"(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*+"
_BEARER_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)++))?,\x01(?P<pairs>{_PAIRS})\x01"
)
_AUTHORIZATION = re.compile(r"(?P<scheme>\w++) ++(?P<token>[A-Za-z0-9._~+/-]++=*+)", re.ASCII)
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_AUTH = "auth"
BEARER_ERROR_TAKEN: Final = b"\x01"
"""The response of an OAUTHBEARER client to the server's error. The server then ends the exchange (RFC 7628, 3.2.3)."""


class Credentials(msgspec.Struct, frozen=True):
    """The login of a client. The password is not shown. Raises ValueError for an unsupported mechanism and for a
    missing name or password.

    `is_token`: the name is the id of a delegation token and the password its HMAC in base64 (KIP-48); SCRAM only.
    """

    mechanism: str
    username: str
    password: str
    is_token: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "mechanism", self.mechanism.upper())
        if self.mechanism not in PASSWORD_MECHANISMS:
            choice = ", ".join(PASSWORD_MECHANISMS)
            raise ValueError(f"the SASL mechanism {self.mechanism} is not served; choose from {choice}")
        if not self.username or not self.password:
            raise ValueError(f"SASL {self.mechanism} needs a username and a password")
        if self.is_token and self.mechanism not in SCRAM_HASHES:
            raise ValueError(f"a delegation token logs in by {' or '.join(SCRAM_HASHES)}, not by {self.mechanism}")
        if "\0" in self.username + self.password:
            raise ValueError("a username or password holds no character of code 0")

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username!r}, ***{', token' if self.is_token else ''})"


class PlainToken(msgspec.Struct, frozen=True):
    """The token of a PLAIN client. `authorization_id`: the user that it acts as; "": `username`."""

    authorization_id: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"PlainToken(username={self.username!r}, password=***)"


class ClientFirst(msgspec.Struct, frozen=True):
    """The first token of a SCRAM client. `header`: its GS2 header. `bare`: the rest."""

    header: str
    binding: str
    authorization_id: str
    bare: str
    username: str
    nonce: str
    extensions: str


class ServerFirst(msgspec.Struct, frozen=True):
    """The response of a SCRAM server. `nonce` begins with the client's."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(msgspec.Struct, frozen=True):
    """The second token of a SCRAM client. `unproven`: the token without its proof."""

    unproven: str
    header: bytes
    nonce: str
    proof: bytes


class ServerFinal(msgspec.Struct, frozen=True):
    """The last token of a SCRAM server: its signature, or an error."""

    signature: bytes
    error: str = ""


class BearerToken(msgspec.Struct, frozen=True):
    """The token of an OAUTHBEARER client. `token`: unverified, and not shown. `authorization_id`: the user that it acts
    as; "": the subject of the token. `extensions`: by name (KIP-342)."""

    token: str
    extensions: dict[str, str] = {}
    authorization_id: str = ""

    def __repr__(self) -> str:
        return f"BearerToken({len(self.token)} characters, {len(self.extensions)} extensions)"


class BearerError(msgspec.Struct, frozen=True, rename={"openid_configuration": "openid-configuration"}):
    """Why a server rejects an OAUTHBEARER token (RFC 7628, 3.2.2). `status`: such as "invalid_token". `scope` and
    `openid_configuration` (an address): for which scope and where to get a token; "": unknown."""

    status: str
    scope: str = ""
    openid_configuration: str = ""


def encode_plain(username: str, password: str) -> bytes:
    """The token of a PLAIN client."""
    return f"\0{username}\0{password}".encode()


def decode_plain(token: bytes) -> PlainToken:
    """As in Kafka, invalid UTF-8 is replaced. Raises ProtocolError, in Apache Kafka's words."""
    parts = token.decode(errors="replace").split("\0", 3)
    if len(parts) != 3:
        raise ProtocolError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    return PlainToken(*parts)


def encode_client_first(username: str, nonce: str, *, is_token: bool = False) -> str:
    """The bare part, after the GS2 header "n,,"."""
    extension = f",{TOKEN_EXTENSION}=true" if is_token else ""
    return f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extension}"


def decode_client_first(token: bytes) -> ClientFirst:
    """Raises ProtocolError, also for a mandatory extension (`m=`), because none is known."""
    match = _match(_CLIENT_FIRST, token, "first message of the client")
    return ClientFirst(
        match["header"],
        match["binding"],
        _unescaped(match["authorization_id"] or ""),
        match["bare"],
        _unescaped(match["name"]),
        match["nonce"],
        match["extensions"],
    )


def encode_server_first(message: ServerFirst) -> str:
    """The token as text."""
    return f"r={message.nonce},s={_text64(message.salt)},i={message.iterations}"


def decode_server_first(token: bytes) -> ServerFirst:
    """Raises ProtocolError."""
    match = _match(_SERVER_FIRST, token, "first message of the server")
    return ServerFirst(match["nonce"], _bytes64(match["salt"]), int(match["iterations"]))


def encode_unproven(header: str, nonce: str) -> str:
    """The second token of the client, without its proof."""
    return f"c={_text64(header.encode())},r={nonce}"


def encode_client_final(unproven: str, proof: bytes) -> bytes:
    """The second token of the client."""
    return f"{unproven},p={_text64(proof)}".encode()


def decode_client_final(token: bytes) -> ClientFinal:
    """Raises ProtocolError."""
    match = _match(_CLIENT_FINAL, token, "last message of the client")
    return ClientFinal(match["unproven"], _bytes64(match["binding"]), match["nonce"], _bytes64(match["proof"]))


def encode_server_final(message: ServerFinal) -> bytes:
    """The last token of the server."""
    return (f"e={message.error}" if message.error else f"v={_text64(message.signature)}").encode()


def decode_server_final(token: bytes) -> ServerFinal:
    """Raises ProtocolError."""
    match = _match(_SERVER_FINAL, token, "last message of the server")
    return ServerFinal(_bytes64(match["signature"] or ""), match["error"] or "")


def encode_bearer(token: BearerToken) -> bytes:
    """The first token of an OAUTHBEARER client. Raises ValueError, without the values, for a token or an extension that
    the mechanism cannot carry."""
    if _TOKEN.fullmatch(token.token) is None:
        raise ValueError("a bearer token is of letters, digits and the characters - . _ ~ + /")
    for name, value in token.extensions.items():
        if name == _AUTH or _EXTENSION_NAME.fullmatch(name) is None:
            raise ValueError(f"the name of an extension is of letters, and not {_AUTH}: {name!r}")
        if _EXTENSION_VALUE.fullmatch(value) is None:
            raise ValueError(f"the value of the extension {name} is empty, or not of printable ASCII characters")
    name = token.authorization_id.replace("=", "=3D").replace(",", "=2C")
    pairs = "".join(f"\x01{key}={value}" for key, value in token.extensions.items())
    return f"n,{f'a={name}' if name else ''},\x01{_AUTH}=Bearer {token.token}{pairs}\x01\x01".encode()


def decode_bearer(token: bytes) -> BearerToken:
    """Raises ProtocolError, in Apache Kafka's words; also for a repeated name, of which Kafka takes the last."""
    invalid = "Invalid OAUTHBEARER client first message"
    try:
        match = _BEARER_FIRST.fullmatch(token.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ProtocolError(invalid)
    found = [each.partition("=")[::2] for each in match["pairs"].split("\x01")[:-1]]
    pairs = dict(found)
    if len(pairs) < len(found):
        raise ProtocolError(f"{invalid}: a key comes twice")
    authorization = pairs.pop(_AUTH, None)
    if authorization is None:
        raise ProtocolError(f"{invalid}: '{_AUTH}' not specified")
    bearer = _AUTHORIZATION.fullmatch(authorization)
    if bearer is None:
        raise ProtocolError(f"{invalid}: invalid '{_AUTH}' format")
    if bearer["scheme"].lower() != "bearer":
        # Kafka repeats the scheme, which may be part of a token
        raise ProtocolError(invalid.replace("Invalid", "Invalid scheme in"))
    return BearerToken(bearer["token"], pairs, _unescaped(match["authorization_id"] or ""))


def encode_bearer_error(error: BearerError) -> bytes:
    """The server's response to a rejected token: a JSON object without empty members."""
    members = {"status": error.status, "scope": error.scope, "openid-configuration": error.openid_configuration}
    return msgspec.json.encode({name: value for name, value in members.items() if value})


def decode_bearer_error(token: bytes) -> BearerError:
    """The server's error. Raises ProtocolError unless it is such a JSON object."""
    try:
        return msgspec.json.decode(token, type=BearerError)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ProtocolError("Invalid OAUTHBEARER server error format") from None


def scram_nonce(random_bytes: bytes) -> str:
    """Random bytes as a nonce: printable, without a comma."""
    return base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """`Hi(password, salt, iterations)`. As in Kafka's client, the password is not normalized. Takes about 1 ms of CPU
    for each 4,096 iterations."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    """The key of the client's proof."""
    return hmac.digest(salted, b"Client Key", SCRAM_HASHES[mechanism])


def server_key(mechanism: str, salted: bytes) -> bytes:
    """The key of the server's signature."""
    return hmac.digest(salted, b"Server Key", SCRAM_HASHES[mechanism])


def stored_key(mechanism: str, key: bytes) -> bytes:
    """The hash of the client's key that a server stores."""
    return hashlib.new(SCRAM_HASHES[mechanism], key).digest()


def signature(mechanism: str, key: bytes, auth_message: str) -> bytes:
    """The signature of the whole exchange, with the stored key or the server's key."""
    return hmac.digest(key, auth_message.encode(), SCRAM_HASHES[mechanism])


def exclusive_or(one: bytes, other: bytes) -> bytes:
    """XOR of two byte strings of the same length."""
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _match(pattern: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    try:
        match = pattern.fullmatch(token.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ProtocolError(f"Invalid SCRAM {what} format")
    return match


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("Invalid SCRAM message: its base64 is damaged") from None
