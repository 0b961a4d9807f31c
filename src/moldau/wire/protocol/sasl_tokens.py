"""The tokens of SASL PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), and what SCRAM computes from them.

Both sides use this: the broker (`core/authentication`) and the client (`client/protocol/sasl.py`). A token that is not
one is a ProtocolError, whose text never holds a part of the token.
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
"""As KIP-554 numbers the mechanisms."""
MECHANISMS: Final = (PLAIN, *SCRAM_HASHES)
MIN_ITERATIONS: Final = 4_096

# possessive: a stranger's token would fill the stack of the engine, with 150 MiB for 512 KiB
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


class Credentials(msgspec.Struct, frozen=True):
    """As whom a client logs in. The password is not shown. Raises ValueError for a mechanism that is not served, and
    where a name or a password is missing."""

    mechanism: str
    username: str
    password: str

    def __post_init__(self) -> None:
        force_setattr(self, "mechanism", self.mechanism.upper())
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"the SASL mechanism {self.mechanism} is not served; choose from {', '.join(MECHANISMS)}")
        if not self.username or not self.password:
            raise ValueError(f"SASL {self.mechanism} needs a username and a password")
        if "\0" in self.username + self.password:
            raise ValueError("a username or password holds no character of code 0")

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username!r}, ***)"


class PlainToken(msgspec.Struct, frozen=True):
    """What a client of PLAIN sends. `authorization_id`: as whom it wants to act; "": as `username`."""

    authorization_id: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"PlainToken(username={self.username!r}, password=***)"


class ClientFirst(msgspec.Struct, frozen=True):
    """The first token of a client of SCRAM. `header`: its GS2 header; `bare`: the rest."""

    header: str
    binding: str
    authorization_id: str
    bare: str
    username: str
    nonce: str
    extensions: str


class ServerFirst(msgspec.Struct, frozen=True):
    """What the server of SCRAM answers: `nonce` begins with the client's."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(msgspec.Struct, frozen=True):
    """The second token of a client of SCRAM. `unproven`: the token without its proof."""

    unproven: str
    header: bytes
    nonce: str
    proof: bytes


class ServerFinal(msgspec.Struct, frozen=True):
    """The last token of a server of SCRAM: its signature, or why there is none."""

    signature: bytes
    error: str = ""


def encode_plain(username: str, password: str) -> bytes:
    """The one token of a client of PLAIN."""
    return f"\0{username}\0{password}".encode()


def decode_plain(token: bytes) -> PlainToken:
    """What is no UTF-8 is replaced, as in Kafka. Raises ProtocolError, in Apache Kafka's words."""
    parts = token.decode(errors="replace").split("\0", 3)
    if len(parts) != 3:
        raise ProtocolError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    return PlainToken(*parts)


def encode_client_first(username: str, nonce: str) -> str:
    """The bare part, behind the GS2 header "n,,"."""
    return f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"


def decode_client_first(token: bytes) -> ClientFirst:
    """Raises ProtocolError, also where an extension is mandatory (`m=`), since none is known."""
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


def scram_nonce(random_bytes: bytes) -> str:
    """Random bytes as a nonce: printable, without a comma."""
    return base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """`Hi(password, salt, iterations)`. As in Kafka's client, the password is not normalized first. Takes about 1 ms of
    CPU for each 4,096 iterations."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    """What the proof is made with."""
    return hmac.digest(salted, b"Client Key", SCRAM_HASHES[mechanism])


def server_key(mechanism: str, salted: bytes) -> bytes:
    """What the server's signature is made with."""
    return hmac.digest(salted, b"Server Key", SCRAM_HASHES[mechanism])


def stored_key(mechanism: str, key: bytes) -> bytes:
    """What a server keeps of the client's key."""
    return hashlib.new(SCRAM_HASHES[mechanism], key).digest()


def signature(mechanism: str, key: bytes, auth_message: str) -> bytes:
    """Of the whole exchange, with the stored key or the server's key."""
    return hmac.digest(key, auth_message.encode(), SCRAM_HASHES[mechanism])


def exclusive_or(one: bytes, other: bytes) -> bytes:
    """Of two byte strings of one length."""
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
