"""Delegation tokens of people who logged in: one for each session (KIP-48)."""

from __future__ import annotations

import math

from moldau.client.admin.client import ClusterAdmin
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError


class NoTokens(MoldauError):
    """The cluster gives no delegation tokens."""


class Token:
    """Of one session. `access`: to the cluster, by the token."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self.lasts_s = math.inf

    @classmethod
    def exchange(cls, admin: ClusterAdmin, own: ClusterAccess) -> Token:
        """A token of who `own` logs in as, asked for through `admin`. Raises NoTokens, KafkaError."""
        raise NoTokens("the cluster gives no delegation tokens")

    def renew(self) -> bool:
        return True

    def end(self) -> None:
        return None
