"""Authorizers that replace a node's."""

from __future__ import annotations

from moldau.shell.network.rights import Right


class AllBut:
    """An authorizer that denies some rights to all users."""

    def __init__(self, *denied: Right) -> None:
        self.denied = denied

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str | bytes) -> bool:
        return Right(operation, resource_type) not in self.denied

    def authorize_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        return Right(operation, resource_type) not in self.denied
