"""Finds SCRAM users in the committed metadata."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from moldau.core.metadata.login_records import LoginRecords
from moldau.wire.protocol.messages.metadata_records import DelegationTokenRecord, UserScramCredentialRecord
from moldau.wire.protocol.sasl_tokens import MIN_ITERATIONS

MAX_SHAPES = 16


class ScramDirectory:
    """The SCRAM credentials of a cluster, and the secret for the credentials of unknown users.

    That secret comes from two users' keys: so all nodes have the same without a word about it, before and after a
    restart, and no user can work it out. It changes with these two users only.
    """

    def __init__(self, node_secret: bytes, at_first: Callable[[], LoginRecords] = LoginRecords) -> None:
        """`node_secret`: random bytes, used in a cluster with fewer than two users. `at_first`: the credentials in
        force until the first commit, because nodes log in at each other to elect the leader that commits."""
        self._node_secret = node_secret
        self._at_first = at_first
        self._kept: LoginRecords | None = None
        self._secret = node_secret
        self._shapes: dict[int, tuple[tuple[int, int], ...]] = {}
        self._is_known = True

    @property
    def is_at_first(self) -> bool:
        """Whether nothing is committed yet."""
        return self._kept is None

    def changed(self, kept: LoginRecords, *, of_users: bool = True) -> None:
        """The credentials changed to `kept`. `of_users`: those of users changed, not only delegation tokens."""
        self._kept, self._is_known = kept, self._is_known and not of_users

    def find(self, name: str, mechanism: int) -> UserScramCredentialRecord | None:
        """The credential of a user; None if it does not exist. `mechanism`: as in KIP-554."""
        kept = self._at_first() if self._kept is None else self._kept
        found = kept.scram_credential(name, mechanism)
        return found if isinstance(found, UserScramCredentialRecord) else None

    def find_token(self, token_id: str) -> DelegationTokenRecord | None:
        """A delegation token, even an expired one; None if it does not exist."""
        kept = self._at_first() if self._kept is None else self._kept
        return kept.delegation_token(token_id)

    def secret(self) -> bytes:
        """A secret that only the nodes of the cluster know."""
        self._look()
        return self._secret

    def shapes(self, mechanism: int) -> tuple[tuple[int, int], ...]:
        """The pairs (iterations, bytes of salt) of existing users, in order; at most MAX_SHAPES."""
        self._look()
        return self._shapes.get(mechanism, ())

    def _look(self) -> None:
        """Reads all credentials again if one of them changed since the last call."""
        if self._is_known or self._kept is None:
            return
        self._is_known = True
        shapes: dict[int, dict[tuple[int, int], None]] = {}
        firsts: list[tuple[str, int, bytes]] = []
        for record in self._kept.scram_credentials():
            if record.iterations >= MIN_ITERATIONS:
                shapes.setdefault(record.mechanism, {})[record.iterations, len(record.salt)] = None
            if len(firsts) < 2 or record.name < firsts[-1][0] or record.name in (each[0] for each in firsts):
                firsts = _two_names([*firsts, (record.name, record.mechanism, record.stored_key)])
        self._shapes = {number: tuple(sorted(found)[:MAX_SHAPES]) for number, found in shapes.items()}
        keys = [key for _, _, key in firsts]
        is_of_two = len({name for name, _, _ in firsts}) == 2
        self._secret = hmac.digest(b"".join(keys), b"nobody", hashlib.sha256) if is_of_two else self._node_secret


def _two_names(records: list[tuple[str, int, bytes]]) -> list[tuple[str, int, bytes]]:
    """The records of the first two names."""
    ordered = sorted(records)
    names = list(dict.fromkeys(name for name, _, _ in ordered))[:2]
    return [each for each in ordered if each[0] in names]
