"""A service over HTTP that the console asks for its viewers, on worker threads."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any, ClassVar, Self, TypeVar

import msgspec

from moldau.client.protocol.secrets import AccessError, Origin
from moldau.errors import KafkaError, MoldauError
from moldau.products.pipelines.formats.registry_security import NO_SECURITY, URL, RegistrySecurity

TIMEOUT_S = 60.0
"""Without any byte. A service that sends rows gives a sign of life every few seconds."""
MAX_ANSWER = 8 << 20

Kind = TypeVar("Kind")


class CalledServiceError(MoldauError):
    """No instance answers, or one rejects the request; the message says why. `code`: of the service; 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class CalledService(msgspec.Struct, frozen=True):
    """`urls`: of the instances."""

    PREFIX: ClassVar[str]
    """Before the names of `RegistrySecurity`, in settings."""
    FLAG: ClassVar[str]
    NOUN: ClassVar[str]
    """In messages, such as `the SQL service`."""

    urls: tuple[str, ...]
    security: RegistrySecurity = NO_SECURITY

    @classmethod
    def at(cls, addresses: str, properties: Mapping[str, str], origin: Origin | None) -> Self:
        """`addresses`: with commas between them. `properties`: the login there, if there is one, is sent only to the
        addresses in the setting `url`. `origin`: see Origin. Raises AccessError."""
        urls = _urls(addresses)
        security = RegistrySecurity.from_properties(properties, origin, cls.PREFIX)
        if urls != _urls(properties.get(f"{cls.PREFIX}{URL}", "")):
            security = msgspec.structs.replace(security, user_info=None, token=None)
        for url in urls:
            if "@" in url.partition("://")[2].partition("/")[0]:
                raise AccessError(cls.FLAG, "takes no user and password")
            security.check_sent_to(url)
        return cls(urls, security)

    def opened(
        self, url: str, path: str, method: str, body: object = None, accept: str = "application/json"
    ) -> IO[bytes]:
        """The answer of one instance. `body`: sent as JSON; None: nothing. Raises CalledServiceError."""
        try:
            headers = {"content-type": "application/json", "accept": accept, **self.security.headers()}
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
            answer: IO[bytes] = self.security.opener(url).open(request, timeout=TIMEOUT_S)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._rejected(error.code, error.read(MAX_ANSWER)) from error
        except (OSError, http.client.HTTPException, KafkaError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise CalledServiceError(f"{self.NOUN} {url} does not answer: {reason}") from error

    def decoded(self, decoder: msgspec.json.Decoder[Kind], data: bytes) -> Kind:
        """Raises CalledServiceError."""
        try:
            return decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CalledServiceError(f"{self.NOUN} did not answer as one: {error}") from error

    def _rejected(self, status: int, body: bytes) -> CalledServiceError:
        try:
            found = msgspec.json.decode(body, type=dict[str, Any])
            return CalledServiceError(str(found["message"]), int(found["error_code"]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, ValueError, TypeError):
            return CalledServiceError(f"{self.NOUN} answered {status}", status * 100)


def _urls(addresses: str) -> tuple[str, ...]:
    return tuple((one if "://" in one else f"http://{one}").strip().rstrip("/") for one in addresses.split(","))
