"""A client that creates, renews, ends and uses delegation tokens all the time (KIP-48).

In the end every node has the acknowledged tokens: a valid token logs its owner in at each broker, an expired one at
none.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from moldau.core.metadata.image import BrokerListener, MetadataImage
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.peers.logins import NetworkWithLogins
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.simulation.client import REQUEST_TIMEOUT_S, UnansweredError
from moldau.simulation.cluster.settings import OWNER, OWNER_PASSWORD, TOKENS_LISTENER, TOKENS_PORT
from moldau.simulation.cluster.watch import ClusterEvent
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.wire.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.sasl_tokens import Credentials

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moldau.simulation.cluster.machine import ClusterMachine
    from moldau.simulation.cluster.world import ClusterWorld

RESTS_S = (0.2, 1.0, 3.0)
MAX_TOKENS = 30
LONG_MS = (1_200_000, 3_600_000)
"""Longer than any story lasts."""
SHORT_MS = (0, 1_000, 5_000)
REMOVED = -1
SOON_MS = 60_000
"""A token that ends within this time may have ended by the clock of another node."""
ENDED = tuple(ERROR_CODES[name] for name in ("DELEGATION_TOKEN_NOT_FOUND", "DELEGATION_TOKEN_EXPIRED"))
"""A controller that is cut off also returns this for a token that it does not know yet. So does one that has executed
the request before, because a broker whose connection was lost asks again."""
TIMEOUT_MS = int(REQUEST_TIMEOUT_S * 1_000)


class Token:
    """A token whose creation was acknowledged. `may_end`, `may_last`: an unanswered change, which may take effect at
    any time, ends it or extends it."""

    def __init__(self, token_id: str, hmac: bytes, expires_ms: int) -> None:
        self.token_id = token_id
        self.hmac = hmac
        self.expires_ms = expires_ms
        """The last acknowledged expiry time, since the epoch."""
        self.is_removed = False
        self.may_end = False
        self.may_last = False

    def asked(self, period_ms: int) -> None:
        """A change has no response."""
        self.may_end |= period_ms < SOON_MS
        self.may_last |= period_ms >= SOON_MS

    def lasts(self, latest_ms: int) -> bool:
        """Whether the token must exist. `latest_ms`: by the clock that is furthest ahead."""
        return not self.is_removed and not self.may_end and self.expires_ms > latest_ms + SOON_MS

    def has_ended(self, now_ms: int) -> bool:
        """Whether a login with the token must fail. `now_ms`: by the clock of the broker."""
        return self.is_removed or (not self.may_last and self.expires_ms < now_ms)


class TokenChanger(ClientLoop):
    """Logs in as the owner of all tokens, at a randomly drawn broker each time."""

    world: ClusterWorld

    def __init__(self, world: ClusterWorld, name: str) -> None:
        super().__init__(world, name)
        self.tokens: list[Token] = []
        self.addresses = 0
        """The number of addresses used for token logins, because rejections are delayed more for each failure from one
        address."""

    async def step(self) -> None:
        await asyncio.sleep(self.random.choice(RESTS_S))
        host = self.random.choice(self.world.hosts)
        draw = self.random.random()
        if not self.tokens or (draw < 0.3 and len(self.tokens) < MAX_TOKENS):
            await self.create(host)
            return
        token = self.random.choice(self.tokens)
        if draw < 0.5:
            await self.change(host, token, self.random.choice(LONG_MS), is_renewal=True)
        elif draw < 0.8:
            await self.change(host, token, self.random.choice((REMOVED, *SHORT_MS, *LONG_MS)), is_renewal=False)
        elif draw < 0.9:
            await self.logs_in(host, token)  # a broker with older metadata may accept or reject any login
        else:
            await self.describe(host)

    async def create(self, host: str) -> None:
        async with self.owner_at(host) as owner:
            made = await owner.request(CreateDelegationTokenRequest(None, None, (), -1), TIMEOUT_MS)
        self.world.trace.note("token created", self.name, made.token_id, made.error_code)
        if made.error_code:
            self.must_be_retriable(made.error_code, "CreateDelegationToken")
            return
        if any(token.token_id == made.token_id for token in self.tokens):
            raise ViolationError("tokens are what was acknowledged", f"{made.token_id} was given twice")
        self.tokens.append(Token(made.token_id, made.hmac, made.expiry_timestamp_ms))

    async def change(self, host: str, token: Token, period_ms: int, *, is_renewal: bool) -> None:
        name = "RenewDelegationToken" if is_renewal else "ExpireDelegationToken"
        answer: RenewDelegationTokenResponse | ExpireDelegationTokenResponse
        try:
            async with self.owner_at(host) as owner:
                if is_renewal:
                    answer = await owner.request(RenewDelegationTokenRequest(token.hmac, period_ms), TIMEOUT_MS)
                else:
                    answer = await owner.request(ExpireDelegationTokenRequest(token.hmac, period_ms), TIMEOUT_MS)
        except UnansweredError:
            token.asked(period_ms)
            raise
        self.world.trace.note("token changed", self.name, token.token_id, period_ms, answer.error_code)
        if not answer.error_code:
            token.expires_ms = answer.expiry_timestamp_ms
            token.is_removed |= period_ms == REMOVED
        elif answer.error_code not in ENDED:
            token.asked(period_ms)
            self.must_be_retriable(answer.error_code, name)
        elif not is_renewal:
            token.asked(period_ms)

    async def describe(self, host: str) -> None:
        """A broker that knows the token must have its original secret."""
        async with self.owner_at(host) as owner:
            answer = await owner.request(DescribeDelegationTokenRequest(None), TIMEOUT_MS)
        if answer.error_code:
            self.must_be_retriable(answer.error_code, "DescribeDelegationToken")
        hmacs = {token.token_id: token.hmac for token in self.tokens}
        for seen in answer.tokens:
            if (seen.principal_name, seen.hmac) != (OWNER, hmacs.get(seen.token_id, seen.hmac)):
                raise ViolationError("tokens are what was acknowledged", f"{host} gives {seen.token_id} otherwise")

    async def logs_in(self, host: str, token: Token) -> bool:
        """Whether the token logs in. Raises UnansweredError if the broker neither accepts nor rejects it."""
        password = base64.b64encode(token.hmac).decode()
        login = Credentials("SCRAM-SHA-256", token.token_id, password, is_token=True)
        self.addresses += 1
        try:
            async with self.peer_at(host, login, f"{self.name}-{self.addresses}") as bearer:
                await bearer.request(MetadataRequest(topics=()), TIMEOUT_MS)
        except UnansweredError as error:
            refusal = error.__cause__ and error.__cause__.__cause__
            if not isinstance(refusal, KafkaError) or refusal.code != ERROR_CODES["SASL_AUTHENTICATION_FAILED"]:
                raise
            return False
        return True

    def owner_at(self, host: str) -> AbstractAsyncContextManager[Peer]:
        """A connection of the owner of all tokens."""
        return self.peer_at(host, Credentials("PLAIN", OWNER, OWNER_PASSWORD), self.name)

    @asynccontextmanager
    async def peer_at(self, host: str, login: Credentials, from_host: str) -> AsyncIterator[Peer]:
        """A separate connection. Raises UnansweredError for a request without a response."""
        network = HostNetwork(self.world.network, from_host)
        random = SeededRandom(self.random.getrandbits(64))
        logging_in = NetworkWithLogins(network, {TOKENS_LISTENER: login}, random, InlineWorkers())
        peer = Peer(BrokerListener(TOKENS_LISTENER, host, TOKENS_PORT), logging_in)
        try:
            yield peer
        except NoAnswerError as error:
            raise UnansweredError(str(error)) from error
        finally:
            peer.close()

    # -- the end

    def check(self, image: MetadataImage) -> None:
        """In the end each created token exists until it was ended, and never again after that."""
        latest_ms = max(machine.clock.latest_ms() for machine in self.world.machines)
        for token in self.tokens:
            found = image.logins.delegation_token(token.token_id)
            if token.is_removed and found is not None:
                raise ViolationError("tokens are what was acknowledged", f"{token.token_id} was removed, and is there")
            if token.lasts(latest_ms):
                until_ms = found.expiration_timestamp if found is not None else None
                if until_ms is None or (until_ms != token.expires_ms and not token.may_last):
                    story = f"{token.token_id} lasts until {until_ms}, not {token.expires_ms}"
                    raise ViolationError("tokens are what was acknowledged", story)

    async def audit(self) -> None:
        """Every broker accepts each valid token, and rejects each expired one."""
        for machine in self.world.machines:
            if machine.host in self.world.hosts:
                for token in self.tokens:
                    await self._try_out(machine, token)

    async def _try_out(self, machine: ClusterMachine, token: Token) -> None:
        has_ended = token.has_ended(machine.clock.now_ms())
        must_last = token.lasts(max(each.clock.latest_ms() for each in self.world.machines))
        if not (has_ended or must_last):
            return
        while True:
            try:
                is_in = await self.logs_in(machine.host, token)
                break
            except UnansweredError:
                await self.pause()
        self.world.trace.note("token tried", machine.host, token.token_id, is_in)
        if is_in and has_ended:
            raise ViolationError("a token that has ended logs nobody in", f"{token.token_id} at {machine.host}")
        if not is_in and must_last:
            raise ViolationError("a token logs in until it ends", f"{token.token_id} at {machine.host}")
        self.world.watch.happened[ClusterEvent.TOKEN_IN if is_in else ClusterEvent.TOKEN_OUT] += 1
