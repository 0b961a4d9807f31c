"""Random requests of delegation tokens by three users and a super user. They create tokens for themselves and for
others; owners, renewers and strangers renew, expire and describe them.

A token is known by its number in the sequence; each broker has its own id and HMAC for it.
"""

from __future__ import annotations

import random
from typing import Any

from moldau.wire.protocol.acls import OPERATIONS_OF, Acl, AclOperation, AclPatternType, AclPermission, AclResourceType
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.differential.brokers import OWN
from tests.differential.step import Bindings, Step
from tests.differential.users import USERS

TOKEN_SETTINGS = {"delegation.token.secret.key": "sesame"}
EXPIRIES = "expiries"
"""The binding with each token's expiry by its id, from the broker's responses; None if it is deleted."""
WHO = (*USERS, *USERS, OWN)
PERIODS_MS = (-1, -1, -2, 0, 600_000, 3_600_000, 1 << 40, (1 << 63) - 1)
"""No token expires within a sequence: only in at least five minutes, never, or at once."""
OTHERS = (("User", "nobody"), ("Group", "alice"), ("User", ""), ("", "alice"), ("", ""))
HMACS = (b"", b"x", b"\0" * 64)
"""Of no token."""
APIS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)


class TokenSequence:
    """One random sequence of `count` requests, each with its user, and the users' rights."""

    def __init__(self, seed: int, prefix: str) -> None:
        self.random, self.prefix = random.Random(seed), prefix
        self._created = 0

    def acls(self) -> tuple[Acl, ...]:
        """On users and tokens; token ids are not known yet, so only `*` can name them."""
        found: dict[Acl, None] = {}
        for user in USERS:
            for kind, names in (
                (AclResourceType.USER, ["*", *(f"User:{name}" for name in USERS)]),
                (AclResourceType.DELEGATION_TOKEN, ["*"]),
            ):
                for _ in range(self.random.randrange(3)):
                    name, operation = (
                        self.random.choice(names),
                        self.random.choice((AclOperation.ALL, *OPERATIONS_OF[kind])),
                    )
                    permission = AclPermission.ALLOW if self.random.random() < 0.85 else AclPermission.DENY
                    acl = Acl(kind, name, AclPatternType.LITERAL, f"User:{user}", "*", operation, permission)
                    found[acl] = None
        return tuple(found)

    def steps(self, count: int) -> list[tuple[str, Step]]:
        """Each with its user; the first two create tokens."""
        keys = [APIS[0], APIS[0], *self.random.choices(APIS, (3, 2, 2, 3), k=count - 2)]
        return [(self.random.choice(WHO), self._step(key)) for key in keys]

    def state(self) -> list[Step]:
        """Lists all tokens."""
        return [Step(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, lambda _: DescribeDelegationTokenRequest(None))]

    def clearing(self) -> list[Step]:
        """Removes the tokens of this sequence; OWN neither owns nor renews any, so their owners do it."""
        return [
            Step(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, lambda bindings, number=number: _removed(bindings, number))  # type: ignore[misc]
            for number in range(self._created)
        ]

    def _step(self, key: ApiKey) -> Step:
        row = API_VERSIONS[key]
        version = self.random.randint(row.min_version, row.max_version)
        if key is ApiKey.CREATE_DELEGATION_TOKEN:
            return self._create(version)
        if key is ApiKey.DESCRIBE_DELEGATION_TOKEN:
            return self._describe(version)
        number, period_ms = self.random.randrange(max(self._created, 1) + 1), self.random.choice(PERIODS_MS)
        other = self.random.choice(HMACS)

        def make(bindings: Bindings) -> Any:
            _, hmac = bindings.get(f"token:{number}", ("", other))
            if key is ApiKey.RENEW_DELEGATION_TOKEN:
                return RenewDelegationTokenRequest(hmac, period_ms)
            return ExpireDelegationTokenRequest(hmac, period_ms)

        def learn(bindings: Bindings, answer: Any) -> None:
            token_id, _ = bindings.get(f"token:{number}", ("", other))
            if answer.error_code == 0:
                is_removed = key is ApiKey.EXPIRE_DELEGATION_TOKEN and period_ms < 0
                bindings.values.setdefault(EXPIRIES, {})[token_id] = None if is_removed else answer.expiry_timestamp_ms

        return Step(key, version, make, learn)

    def _create(self, version: int) -> Step:
        number = self._created
        self._created += 1
        renewers = tuple(CreatableRenewers(*self._principal()) for _ in range(self.random.randrange(3)))
        owner = self._principal() if version >= 3 and self.random.random() < 0.5 else (None, None)
        request = CreateDelegationTokenRequest(*owner, renewers, self.random.choice(PERIODS_MS))

        def learn(bindings: Bindings, answer: Any) -> None:
            if answer.error_code == 0:
                bindings.values[f"token:{number}"] = (answer.token_id, bytes(answer.hmac))
                bindings.values.setdefault(EXPIRIES, {})[answer.token_id] = answer.expiry_timestamp_ms

        return Step(ApiKey.CREATE_DELEGATION_TOKEN, version, lambda _: request, learn)

    def _describe(self, version: int) -> Step:
        named = tuple(DescribeDelegationTokenOwner(*self._principal()) for _ in range(self.random.randrange(3)))
        request = DescribeDelegationTokenRequest(self.random.choice((None, named, named)))
        return Step(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, lambda _: request)

    def _principal(self) -> tuple[str, str]:
        return ("User", self.random.choice(USERS)) if self.random.random() < 0.85 else self.random.choice(OTHERS)


def _removed(bindings: Bindings, number: int) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(bindings.get(f"token:{number}", ("", b"x"))[1], -1)
