"""A small OpenID Connect issuer on the loopback, over HTTP or HTTPS, with knobs for faults.

    with Issuer.running() as issuer:                 # `tls=True`: HTTPS, by tests.support.certificates
        issuer.clients["service"] = Client("its-secret")
        issuer.people["alice"] = Person("her-password", {"groups": ["editors"]})
        issuer.faults["/jwks"] = "hang"              # until it is removed; see Fault
        issuer.forgery = "expired"                   # kind of /token's tokens from now on; see Forgery
        issuer.token("alice")                        # a token without a request
        issuer.rotate("RSA")

It keeps the path of each request in `requests`. As a process: `python -m tests.support.issuer_process --help`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from tests.support.certificates import authority
from tests.support.json_web_tokens import Forgery, Kind, SigningKey, claims_of, forged, is_signed_by, signed

Fault = Literal["hang", "redirect", "huge", "not_json", "empty_object", "unauthorized", "failed", "closed", "drip"]
"""`huge`: 10 MB; `closed`: no response; `drip`: a byte from time to time, for ever; `empty_object`: no token in it."""
AUDIENCE: Final = "kafka"
ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PATHS: Final = ("/.well-known/openid-configuration", "/jwks", "/token", "/authorize", "/userinfo", "/logout")
_HUGE_BYTES: Final = 10_000_000
_MAX_BODY: Final = 1 << 20
_LONGEST_HANG_S: Final = 120.0
_DRIP_S: Final = 0.05


@dataclass
class Client:
    """`secret`: "" for a public client, which needs PKCE. `key`: signs its assertions."""

    secret: str = ""
    key: SigningKey | None = None
    claims: dict[str, Any] = field(default_factory=dict)


@dataclass
class Person:
    """`claims`: in addition to `sub` and `preferred_username`, such as groups."""

    password: str
    claims: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Login:
    """The login of an authorization code."""

    client_id: str
    redirect_uri: str
    person: str
    challenge: str
    nonce: str
    scope: str


class _RefusedError(Exception):
    def __init__(self, status: int, error: str, description: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, "error_description": description}


class Issuer(ThreadingHTTPServer):
    """Serves in its own threads while `running`."""

    daemon_threads = True

    def __init__(self, *, tls: bool = False, kind: Kind = "EC", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"
        self.audience: str | list[str] = AUDIENCE
        self.lifetime_s = 3_600
        self.clients: dict[str, Client] = {"service": Client("service-secret"), "browser": Client()}
        self.people: dict[str, Person] = {"alice": Person("alice-password")}
        self.keys = [SigningKey(kind)]
        """All published keys; the last one signs."""
        self.faults: dict[str, Fault] = {}
        self.forgery: Forgery | None = None
        self.requests: list[str] = []
        self.forms: list[dict[str, str]] = []
        """The forms of requests to /token: they contain secrets."""
        self.released = threading.Event()
        self.codes: dict[str, _Login] = {}
        self.refresh_tokens: dict[str, _Login] = {}
        self._context = _server_context() if tls else None

    @classmethod
    @contextmanager
    def running(cls, *, tls: bool = False, kind: Kind = "EC", port: int = 0) -> Iterator[Issuer]:
        issuer = cls(tls=tls, kind=kind, port=port)
        thread = threading.Thread(target=issuer.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            issuer.released.set()
            issuer.shutdown()
            issuer.server_close()
            thread.join(20)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            # the connection's thread does the handshake
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent when a client closes its connection."""

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    def rotate(self, kind: Kind = "EC", *, keeps_old: bool = True) -> SigningKey:
        """Signs with another key from now on; with `keeps_old` the old ones stay published."""
        key = SigningKey(kind)
        self.keys = [*self.keys, key] if keeps_old else [key]
        return key

    def jwks(self) -> dict[str, Any]:
        """The public keys, as in the response of /jwks; also for a file."""
        return {"keys": [key.public_jwk() for key in self.keys]}

    def claims(self, subject: str, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        times = {"iat": now, "nbf": now, "exp": now + self.lifetime_s}
        return {
            "iss": self.url,
            "aud": self.audience,
            "sub": subject,
            **times,
            "jti": secrets.token_hex(8),
            **more,
        }

    def token(self, subject: str, *, forgery: Forgery | None = None, **claims: Any) -> str:
        """An access token. `claims` override its default ones."""
        chosen = self.claims(subject, **claims)
        return signed(self.keys[-1], chosen) if forgery is None else forged(self.keys[-1], chosen, forgery)

    # -- responses of endpoints

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": self.token_url,
            "jwks_uri": self.jwks_url,
            "userinfo_endpoint": f"{self.url}/userinfo",
            "end_session_endpoint": f"{self.url}/logout",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials", JWT_BEARER],
            "subject_types_supported": ["public"],
            "scopes_supported": ["openid", "profile"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [
                *("client_secret_basic", "client_secret_post", "private_key_jwt", "none"),
            ],
        }

    def granted(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        """The response of /token. Raises _RefusedError."""
        grant = form.get("grant_type", "")
        if grant == JWT_BEARER:
            return self._answer(self._asserted(form.get("assertion", "")), form.get("scope", ""))
        client_id = self._client(form, authorization)
        if grant == "client_credentials":
            if not self.clients[client_id].secret and self.clients[client_id].key is None:
                raise _RefusedError(400, "unauthorized_client", "a public client has no credentials")
            return self._answer(client_id, form.get("scope", ""))
        if grant == "refresh_token":
            login = self.refresh_tokens.pop(form.get("refresh_token", ""), None)
            if login is None or login.client_id != client_id:
                raise _RefusedError(400, "invalid_grant")
            return self._login_answer(login)
        if grant != "authorization_code":
            raise _RefusedError(400, "unsupported_grant_type", grant)
        login = self.codes.pop(form.get("code", ""), None)
        if login is None or login.client_id != client_id or login.redirect_uri != form.get("redirect_uri"):
            raise _RefusedError(400, "invalid_grant")
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        expected = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        if (login.challenge or not self.clients[client_id].secret) and login.challenge != expected:
            raise _RefusedError(400, "invalid_grant", "code_verifier")
        return self._login_answer(login)

    def code_for(self, form: dict[str, str]) -> str:
        """For a login in the browser. Raises _RefusedError for a wrong password."""
        person = self.people.get(form.get("username", ""))
        if person is None or not secrets.compare_digest(person.password, form.get("password", "")):
            raise _RefusedError(401, "access_denied", "wrong name or password")
        code = secrets.token_urlsafe(16)
        names = ("client_id", "redirect_uri", "username", "code_challenge", "nonce", "scope")
        self.codes[code] = _Login(*(form.get(name, "") for name in names))
        return code

    def _login_answer(self, login: _Login) -> dict[str, Any]:
        own = {"preferred_username": login.person, **self.people[login.person].claims}
        answer = self._answer(login.person, login.scope, **own)
        id_claims = self.claims(login.person, aud=login.client_id, **own)
        if login.nonce:
            id_claims["nonce"] = login.nonce
        key = self.keys[-1]
        answer["id_token"] = signed(key, id_claims) if self.forgery is None else forged(key, id_claims, self.forgery)
        answer["refresh_token"] = secrets.token_urlsafe(16)
        self.refresh_tokens[answer["refresh_token"]] = login
        return answer

    def _answer(self, subject: str, scope: str, **claims: Any) -> dict[str, Any]:
        client = self.clients.get(subject)
        own = {} if client is None else client.claims
        token = self.token(subject, forgery=self.forgery, **own, **({"scope": scope} if scope else {}), **claims)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}

    def _client(self, form: dict[str, str], authorization: str) -> str:
        if form.get("client_assertion_type") == ASSERTION:
            return self._asserted(form.get("client_assertion", ""))
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if authorization.startswith("Basic "):
            try:
                text = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            except ValueError:
                raise _RefusedError(401, "invalid_client") from None
            client_id, _, secret = text.partition(":")
            if client_id not in self.clients or self.clients[client_id].secret != secret:
                client_id, secret = unquote_plus(client_id), unquote_plus(secret)  # RFC 6749, 2.3.1
        client = self.clients.get(client_id)
        if client is None or not secrets.compare_digest(client.secret.encode(), secret.encode()):
            raise _RefusedError(401, "invalid_client", "wrong client id or secret")
        return client_id

    def _asserted(self, assertion: str) -> str:
        """The client that signed the assertion (RFC 7523)."""
        try:
            claims = claims_of(assertion)
        except (ValueError, IndexError):
            raise _RefusedError(401, "invalid_client", "malformed assertion") from None
        client_id = claims.get("sub", "")
        client = self.clients.get(client_id)
        if client is None or client.key is None or not is_signed_by(client.key, assertion):
            raise _RefusedError(401, "invalid_client", "the assertion is not signed by a known client")
        given = claims.get("aud")
        audiences = given if isinstance(given, list) else [given]
        if not {self.url, self.token_url} & set(audiences) or claims.get("exp", 0) <= time.time():
            raise _RefusedError(401, "invalid_client", "the assertion is for others, or has expired")
        return str(client_id)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        context.load_cert_chain(authority().issue("CN=issuer").write(Path(directory), "issuer"))
    return context


class _Handler(BaseHTTPRequestHandler):
    server: Issuer
    protocol_version = "HTTP/1.1"
    timeout = _LONGEST_HANG_S

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length", "0")), _MAX_BODY)
        body = self.rfile.read(length).decode()
        self._serve({name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()})

    def log_message(self, *_arguments: object) -> None:
        pass

    def _serve(self, form: dict[str, str]) -> None:
        url = urlsplit(self.path)
        self.server.requests.append(url.path)
        fault = self.server.faults.get(url.path)
        if fault is not None:
            self._fail(fault)
            return
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        try:
            if self.command == "POST" and url.path == "/token":
                self.server.forms.append(form)
                self._json(self.server.granted(form, self.headers.get("Authorization", "")))
            elif url.path == "/authorize":
                self._authorize(form or query)
            elif url.path == "/userinfo":
                self._userinfo()
            elif url.path == "/jwks":
                self._json(self.server.jwks())
            elif url.path == "/.well-known/openid-configuration":
                self._json(self.server.configuration())
            elif url.path == "/logout":
                self._go(query.get("post_logout_redirect_uri", self.server.url))
            else:
                self._json({"error": "not_found"}, 404)
        except _RefusedError as error:
            self._json(error.body, error.status)

    def _authorize(self, given: dict[str, str]) -> None:
        if given.get("client_id") not in self.server.clients or not given.get("redirect_uri"):
            raise _RefusedError(400, "invalid_request", "client_id and redirect_uri")
        if self.command == "POST":
            answer = {"code": self.server.code_for(given)}
            if given.get("state"):
                answer["state"] = given["state"]
            self._go(f"{given['redirect_uri']}{'&' if '?' in given['redirect_uri'] else '?'}{urlencode(answer)}")
            return
        hidden = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in given.items()
        )
        self._send(
            f'<!doctype html><title>Issuer</title><form method="post" action="/authorize">{hidden}'
            '<input name="username"><input name="password" type="password"><button>Log in</button></form>'.encode(),
            content_type="text/html; charset=utf-8",
        )

    def _userinfo(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not any(token and is_signed_by(key, token) for key in self.server.keys):
            raise _RefusedError(401, "invalid_token")
        subject = claims_of(token)["sub"]
        person = self.server.people.get(subject)
        self._json({"sub": subject, **({} if person is None else person.claims)})

    def _fail(self, fault: Fault) -> None:
        self.close_connection = True
        if fault == "hang":
            self.server.released.wait(_LONGEST_HANG_S)
        elif fault == "redirect":
            self._go(f"{self.server.url}/elsewhere")
        elif fault == "huge":
            self._send(b'{"access_token": "' + b"x" * _HUGE_BYTES + b'"}')
        elif fault == "not_json":
            self._send(b"<html>no token here</html>")
        elif fault == "empty_object":
            self._json({})
        elif fault in ("unauthorized", "failed"):
            self._json({"error": "access_denied", "error_description": "no"}, 401 if fault == "unauthorized" else 500)
        elif fault == "drip":
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
                while not self.server.released.wait(_DRIP_S):
                    self.wfile.write(b" ")

    def _json(self, value: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(value).encode(), status)

    def _go(self, location: str) -> None:
        self.send_response(302)
        self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, body: bytes, status: int = 200, content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(OSError):  # a client that does not read 10 MB
            self.wfile.write(body)
