"""The keys of the token issuers that this node accepts (OAUTHBEARER): read at the start, and refreshed (KIP-768)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from moldau.core.authentication.bearer import Bearer, BearerExchange
from moldau.core.authentication.bearer_settings import BearerSettings, KeySource, TokenRules
from moldau.core.authentication.exchange import Exchange
from moldau.core.authentication.key_refresh import KeyRefresh
from moldau.core.authentication.settings import SaslSettings
from moldau.core.config.security_settings import typed_setting
from moldau.core.config.setting import invalid_config
from moldau.core.config.tls_settings import tls_settings
from moldau.errors import MoldauError
from moldau.extras import MissingExtraError, require_extra
from moldau.ports import Clock, Workers
from moldau.shell.network.event_log import EventLog, escape
from moldau.telemetry import Telemetry
from moldau.wire.web_tokens.rules import TokenRefusedError, UnknownKeyError

if TYPE_CHECKING:
    from ssl import SSLContext

    from moldau.wire.web_tokens.key_set import KeySet

TRUST_STORE: Final = "ssl.truststore.location"
LOOK_AGAIN_MS: Final = 5_000
"""The pause between two checks of a file."""
REFRESHES = "moldau.server:type=IssuerKeys,name=Refreshes"
FAILED_REFRESHES = "moldau.server:type=IssuerKeys,name=FailedRefreshes"
KEYS = "moldau.server:type=IssuerKeys,name=Keys"
"""Telemetry: the number of keys by URL."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]
Stamp = tuple[int, int, int]
Fetch = Callable[[KeySource, Workers], Awaitable[bytes]]


async def fetch_keys(source: KeySource, workers: Workers) -> bytes:
    """The document at an http or https URL. Raises NoKeysError; INVALID_CONFIG if a certificate store is unusable."""
    from moldau.transport.https_request import HttpFailedError, HttpsClient, parse_address
    from moldau.wire.web_tokens.key_set import MAX_KEY_SET_BYTES

    context = await workers.run(partial(_context, source)) if source.url.startswith("https:") else None
    https, address = HttpsClient(context, ca_setting=TRUST_STORE), parse_address(source.url)
    try:
        # not a worker thread: the disk needs those
        answer = await asyncio.to_thread(https.get, address, max_bytes=MAX_KEY_SET_BYTES)
    except HttpFailedError as error:
        raise NoKeysError(f"the issuer {error}") from error
    return answer.body


class IssuerKeys:
    """The keys of all issuers; one per node, used on its loop. Costs nothing if no listener accepts tokens."""

    def __init__(
        self,
        clock: Clock,
        workers: Workers,
        log: EventLog,
        telemetry: Telemetry,
        spawn: Spawn,
        fetch: Fetch = fetch_keys,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._workers = workers
        self._log = log
        self._telemetry = telemetry
        self._spawn = spawn
        self._sources: dict[KeySource, SourceKeys] = {}

    async def load(self, listeners: Iterable[BearerSettings]) -> None:
        """Reads the keys that the listeners need. Raises INVALID_CONFIG if it finds none: as in Apache Kafka, the node
        does not start."""
        for settings in listeners:
            if settings.keys not in self._sources:
                try:
                    require_extra("OAUTHBEARER", "oauth")
                except MissingExtraError as error:
                    raise invalid_config(str(error)) from None
                source = self._new(settings.keys)
                try:
                    await source.refresh()
                except MoldauError as error:
                    raise invalid_config(f"OAUTHBEARER: no keys from {settings.keys.url}: {error}") from None
                self._keep(settings.keys, source)

    def keep_only(self, listeners: Iterable[BearerSettings]) -> None:
        """After changed settings: stops refreshing sources that no listener names any more."""
        named = {settings.keys for settings in listeners}
        for source in [each for each in self._sources if each not in named]:
            self._sources.pop(source).end()

    def new_exchange(self, settings: SaslSettings) -> Exchange:
        """The exchange of a listener that offers OAUTHBEARER. If a running node starts to offer it, or gets another key
        source, the keys are read from now on, and every token is rejected until they have arrived."""
        bearer = settings.bearer
        if bearer is None:
            return BearerExchange(_refuse, self._clock.now_ms)
        source = self._sources.get(bearer.keys)
        if source is None:
            source = self._new(bearer.keys)
            self._keep(bearer.keys, source)
        return BearerExchange(partial(source.check, bearer.rules), self._clock.now_ms)

    def _new(self, source: KeySource) -> SourceKeys:
        return SourceKeys(source, self._clock, self._workers, self._log, self._telemetry, self._fetch)

    def _keep(self, source: KeySource, keys: SourceKeys) -> None:
        self._sources[source] = keys
        self._spawn(keys.keep())


class SourceKeys:
    """The keys of one source."""

    def __init__(
        self, source: KeySource, clock: Clock, workers: Workers, log: EventLog, telemetry: Telemetry, fetch: Fetch
    ) -> None:
        self._fetch = fetch
        self._source = source
        self._clock = clock
        self._workers = workers
        self._log = log
        self._telemetry = telemetry
        self._keys: KeySet | None = None
        self._refresh = KeyRefresh(source, clock.monotonic_ms())
        self._sooner = asyncio.Event()
        self._has_ended = False
        self._is_file = source.url.startswith("file:")
        self._stamp: Stamp | None = None

    def check(self, rules: TokenRules, token: str) -> Bearer:
        """See check_web_token. A token with an unknown key may bring the next fetch forward."""
        if self._keys is None:
            raise TokenRefusedError("the keys of the issuer are not there yet")
        from moldau.core.authentication.web_tokens import check_web_token

        try:
            return check_web_token(token, self._keys, rules, self._clock.now_ms())
        except UnknownKeyError:
            if self._refresh.key_is_unknown(self._clock.monotonic_ms()):
                self._sooner.set()
            raise

    async def keep(self) -> None:
        """Refreshes the keys until it is cancelled or ended."""
        while True:
            if self._keys is not None:
                await self._wait()
            if self._has_ended:
                return
            try:
                await self.refresh()
            except MoldauError as error:
                self._telemetry.count(FAILED_REFRESHES, self._source.url)
                self._refresh.failed(self._clock.monotonic_ms())
                told = "" if self._keys is None else "; not updating local JWKS cache"
                text = f"OAuth JWKS refresh of {escape(self._source.url)} encountered an error{told}"
                self._log.warn("OAuth JWKS", f"{text}: {escape(str(error))}", about=escape(self._source.url))
                await self._wait()

    def end(self) -> None:
        """No listener uses these keys any more: the refresh ends after a read that is in progress."""
        self._has_ended = True
        self._sooner.set()

    async def refresh(self) -> None:
        """Reads the keys once. Raises MoldauError, and then keeps the previous keys."""
        from moldau.wire.web_tokens.key_set import parse_key_set

        data = await (self._read() if self._is_file else self._fetch(self._source, self._workers))
        if data is not None:
            keys = await self._workers.run(partial(parse_key_set, data))
            self._keys = keys
            self._telemetry.count(REFRESHES, self._source.url)
            self._telemetry.set(KEYS, len(keys), self._source.url)
            self._log.info("OAuth JWKS", f"OAuth JWKS refresh of {escape(self._source.url)} complete: {len(keys)} keys")
            for sentence in keys.passed_over[:3]:
                self._log.warn("OAuth key", f"of {escape(self._source.url)} {escape(sentence)}; it is passed over")
        self._refresh.fetched(self._clock.monotonic_ms())

    async def _wait(self) -> None:
        """Waits until the next refresh is due."""
        while not self._has_ended and (pause_ms := self._due_ms() - self._clock.monotonic_ms()) > 0:
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1_000):
                    await self._sooner.wait()

    def _due_ms(self) -> int:
        due_ms = self._refresh.due_ms
        return min(due_ms, self._refresh.last_ms + LOOK_AGAIN_MS) if self._is_file else due_ms

    async def _read(self) -> bytes | None:
        path = unquote(urlsplit(self._source.url).path)
        try:
            stamp, data = await self._workers.run(partial(_read_changed, path, self._stamp))
        except OSError as error:
            self._stamp = None
            raise NoKeysError(f"the file cannot be read: {error.strerror}") from None
        self._stamp = stamp
        return data


class NoKeysError(MoldauError):
    """The document with the keys cannot be read."""


def _refuse(_: str) -> Bearer:
    raise TokenRefusedError("the listener takes no tokens any more")


def _read_changed(path: str, before: Stamp | None) -> tuple[Stamp, bytes | None]:
    """Runs in a thread. None: the file has not changed. Raises OSError."""
    from moldau.wire.web_tokens.key_set import MAX_KEY_SET_BYTES

    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        return stamp, None if stamp == before else file.read(MAX_KEY_SET_BYTES + 1)


def _context(source: KeySource) -> SSLContext:
    """Runs in a thread, because it reads files. Raises INVALID_CONFIG."""
    from moldau.transport.tls import client_context, load_material

    settings = tls_settings("", dict(source.tls), typed_setting)
    return client_context(settings, load_material(settings))
