"""The keys of an issuer on a node: kept fresh, kept when they are unavailable, and seldom fetched for strangers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from moldau.core.authentication.bearer_settings import BearerSettings, KeySource, TokenRules
from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.core.authentication.settings import SaslSettings
from moldau.errors import InvalidConfigError
from moldau.ports import Workers
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.event_log import EventLog
from moldau.shell.node.issuer_keys import FAILED_REFRESHES, KEYS, REFRESHES, IssuerKeys, NoKeysError
from moldau.simulation.loop import virtual_loop
from moldau.simulation.ports import SimulatedClock
from moldau.telemetry import Telemetry
from moldau.wire.protocol.sasl_tokens import BearerToken, encode_bearer
from tests.support.json_web_tokens import SigningKey, signed
from tests.support.stories import run_by

HOUR_S = 3_600
URL = "https://issuer/jwks"
OLD, NEW = SigningKey("EC", "old"), SigningKey("EC", "new")


class World:
    """An issuer whose document is `document`; None: it does not answer."""

    def __init__(self, clock: SimulatedClock, url: str = URL) -> None:
        self.clock = clock
        self.url = url
        self.document: bytes | None = document(OLD)
        self.fetches = 0
        self.telemetry = Telemetry()
        self.tasks: list[asyncio.Task[None]] = []
        source = KeySource(url, HOUR_S * 1_000, 100, 10_000)
        self.settings = BearerSettings(TokenRules(("kafka",), None, 30, "scope", "sub"), source)
        self.keys = IssuerKeys(clock, InlineWorkers(), EventLog(clock), self.telemetry, self._spawn, self._fetch)

    def _spawn(self, work: object) -> None:
        self.tasks.append(asyncio.ensure_future(work))  # type: ignore[arg-type]

    async def _fetch(self, source: KeySource, workers: Workers) -> bytes:
        assert source.url == self.url
        self.fetches += 1
        if self.document is None:
            raise NoKeysError("the issuer did not answer in time")
        return self.document

    async def load(self) -> None:
        await self.keys.load([self.settings])

    def is_admitted(self, key: SigningKey, kid: str = "") -> bool:
        now = self.clock.now_ms() // 1_000
        claims = {"aud": "kafka", "sub": "alice", "iat": now, "exp": now + 60}
        token = signed(key, claims, {"kid": kid} if kid else {})
        exchange = self.keys.new_exchange(SaslSettings(("OAUTHBEARER",), {}, {}, self.settings))
        return isinstance(exchange.evaluate(encode_bearer(BearerToken(token))), Accepted)

    def count(self, name: str) -> int:
        return self.telemetry.value(name, self.url)


def document(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [key.public_jwk() for key in keys]}).encode()


def run(story: Callable[[World], Awaitable[None]], url: str = URL) -> None:
    with virtual_loop() as loop:

        async def tell() -> None:
            world = World(SimulatedClock(loop), url)
            try:
                await story(world)
            finally:
                for task in world.tasks:
                    task.cancel()
                await asyncio.gather(*world.tasks, return_exceptions=True)

        loop.run_until_complete(tell())


@run_by(run)
async def test_a_start_without_keys_is_refused_and_leaves_nothing(world: World) -> None:
    for bad in (None, b"<html>", document()):
        world.document = bad
        with pytest.raises(InvalidConfigError, match=URL):
            await world.load()
    assert not world.tasks


@run_by(run)
async def test_keys_are_fetched_again_each_hour_and_shared_by_listeners(world: World) -> None:
    await world.keys.load([world.settings, world.settings])
    assert (world.fetches, world.is_admitted(OLD)) == (1, True)
    world.document = document(OLD, NEW)
    await asyncio.sleep(HOUR_S + 1)
    assert (world.fetches, world.is_admitted(NEW), world.count(KEYS), world.count(REFRESHES)) == (2, True, 2, 2)


@run_by(run)
async def test_an_unknown_key_is_looked_for_after_ten_seconds(world: World) -> None:
    await world.load()
    world.document = document(NEW)
    assert not world.is_admitted(NEW)
    await asyncio.sleep(11)
    assert (world.fetches, world.is_admitted(NEW), world.is_admitted(OLD)) == (2, True, False)


@run_by(run)
async def test_a_thousand_unknown_keys_make_a_fetch_each_ten_seconds(world: World) -> None:
    await world.load()
    for number in range(1_000):
        assert not world.is_admitted(OLD, f"kid-{number}")
        await asyncio.sleep(0.1)
    assert 9 <= world.fetches <= 12


@run_by(run)
async def test_keys_of_before_stay_while_the_issuer_is_gone(world: World, *, caplog: pytest.LogCaptureFixture) -> None:
    await world.load()
    world.document = None
    await asyncio.sleep(HOUR_S + 60)
    assert world.is_admitted(OLD)
    assert 5 < world.count(FAILED_REFRESHES) < 20, "the pauses double up to 10 s"
    told = [record.getMessage() for record in caplog.records if "JWKS refresh" in record.getMessage()]
    assert any(
        "encountered an error; not updating local JWKS cache: the issuer did not answer in time" in text
        for text in told
    )
    world.document = document(NEW)
    await asyncio.sleep(11)
    assert world.is_admitted(NEW)


@run_by(run)
async def test_a_listener_told_to_take_tokens_later_refuses_them_until_the_keys_are_there(world: World) -> None:
    assert not world.is_admitted(OLD)
    await asyncio.sleep(1)
    assert world.is_admitted(OLD)
    assert len(world.tasks) == 1


@pytest.mark.parametrize("is_answering", [True, False])
@run_by(run)
async def test_a_source_that_no_listener_names_any_more_is_read_no_more(world: World, *, is_answering: bool) -> None:
    await world.load()
    (task,) = world.tasks
    if not is_answering:
        world.document = None
        await asyncio.sleep(HOUR_S + 1)
    world.keys.keep_only([world.settings])
    await asyncio.sleep(1)
    assert not task.done()
    for _ in range(2):
        world.keys.keep_only([])
        await asyncio.sleep(1)
    assert task.done()
    before = world.fetches
    await asyncio.sleep(2 * HOUR_S)
    assert world.fetches == before
    world.document = document(NEW)
    assert not world.is_admitted(NEW)
    await asyncio.sleep(1)
    assert (world.is_admitted(NEW), world.fetches, len(world.tasks)) == (True, before + 1, 2)


@run_by(run)
async def test_a_listener_without_settings_of_tokens_refuses_all(world: World) -> None:
    exchange = world.keys.new_exchange(SaslSettings((), {}, {}))
    assert exchange.evaluate(encode_bearer(BearerToken("x"))) == b'{"status":"invalid_token"}'
    with pytest.raises(AuthenticationRefusedError):
        exchange.evaluate(b"\x01")


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "keys of it.json"
    path.write_bytes(document(OLD))

    async def story(world: World) -> None:
        await world.load()
        await asyncio.sleep(60)
        assert (world.is_admitted(OLD), world.fetches, world.count(REFRESHES)) == (True, 0, 1)
        written = tmp_path / "new"
        written.write_bytes(document(NEW))
        os.replace(written, path)
        await asyncio.sleep(6)
        assert (world.is_admitted(NEW), world.is_admitted(OLD)) == (True, False)
        path.unlink()
        await asyncio.sleep(60)
        assert (world.is_admitted(NEW), world.count(FAILED_REFRESHES) > 0) == (True, True)
        path.write_bytes(document(OLD))
        await asyncio.sleep(11)
        assert (world.is_admitted(OLD), world.is_admitted(NEW)) == (True, False)

    run(story, "file:" + str(path).replace(" ", "%20"))


@pytest.mark.parametrize("content", [None, b"", b" " * (2 << 20)])
def test_a_start_without_a_usable_file_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)

    async def story(world: World) -> None:
        with pytest.raises(InvalidConfigError):
            await world.load()

    run(story, f"file:{path}")
