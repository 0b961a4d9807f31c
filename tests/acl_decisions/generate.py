"""Random clusters with ACLs, and questions that nearly match them. A seed gives the same in every Python version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from moldau.wire.protocol.acls import (
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

Item = TypeVar("Item")

_KINDS = (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID, AclResourceType.CLUSTER)
_OPERATIONS = tuple(operation for operation in AclOperation if operation > AclOperation.ANY)
_PRINCIPALS = ("User:a", "User:b", "User:CN=a,O=b", "Group:a", "User:", "User:*", "User:a:b", "Role:*", "User:ü")
# no character below the asterisk: with similar names of that kind Apache Kafka loops for ever or fails
_PIECES = ("a", "b", "ab", "-", ".", "*", "hard", "hardcode", "_x", "ü", "😀", "a.b", "zz")
_HOSTS = (
    *("*", "10.0.0.1", "10.0.0.2", "10.0.0.0/8", "10.0.0.0/31", "0.0.0.0/0", "::/0", "2001:db8::/32", "::1"),
    *("0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:7", "10.0.0.0/99", "nobody", "010.0.0.0/08", "2001:DB8::/+33"),
)
_ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.9.9.9", "0.0.0.0", "192.168.0.1", "::1", "2001:db8::7", "2001:db9::7")


class Question(msgspec.Struct, frozen=True):
    """`name` None stands for any resource of the kind."""

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str | None


class Cluster(msgspec.Struct, frozen=True):
    super_users: tuple[str, ...]
    allow_without_acls: bool
    acls: tuple[Acl, ...]
    questions: tuple[Question, ...]

    def lines(self) -> list[str]:
        """In the format that the oracle reads."""
        found = [f"cluster\t{';'.join(self.super_users)}\t{str(self.allow_without_acls).lower()}"]
        for acl in self.acls:
            fields = (acl.resource_type, acl.name, acl.pattern_type, acl.principal, acl.host)
            found.append("\t".join(map(str, ("acl", *fields, acl.operation, acl.permission))))
        found.append("acls-end")
        for one in self.questions:
            asked = (one.principal, one.host, one.operation, one.resource_type)
            named = ("any", *asked) if one.name is None else ("one", *asked, one.name)
            found.append("\t".join(map(str, named)))
        return [*found, "end"]


class _Picker:
    """Of Python's random numbers, only `random()` is guaranteed to be the same in every version."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return int(self._random.random() * bound)

    def one(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def name(self) -> str:
        return "".join(self.one(_PIECES) for _ in range(1 + self.below(3)))


def cluster(seed: str, question_count: int) -> Cluster:
    """Few ACLs in most clusters, many in some."""
    pick = _Picker(seed)
    kinds = _KINDS[: 1 + pick.below(len(_KINDS))]
    principals = [pick.one(_PRINCIPALS) for _ in range(1 + pick.below(4))]
    count = pick.one((0, 1, 2, 3, 5, 8, 13, 30, 100))
    share_of_denied = pick.one((0, 2, 5, 20))
    acls = {_acl(pick, kinds, principals, share_of_denied): None for _ in range(count)}
    kept = tuple(acls)
    super_users = tuple(pick.one(_PRINCIPALS) for _ in range(pick.below(2)))
    questions = tuple(_question(pick, kinds, kept) for _ in range(question_count))
    return Cluster(super_users, pick.below(3) == 0, kept, questions)


def _acl(pick: _Picker, kinds: Sequence[int], principals: Sequence[str], share_of_denied: int) -> Acl:
    pattern = pick.one((AclPatternType.LITERAL, AclPatternType.PREFIXED))
    is_denied = share_of_denied > 0 and pick.below(share_of_denied) == 0
    name = "*" if pick.below(8) == 0 else pick.name()
    return Acl(
        int(pick.one(kinds)),
        name,
        int(pattern),
        pick.one(principals),
        "*" if pick.below(3) else pick.one(_HOSTS),
        int(pick.one(_OPERATIONS)),
        int(AclPermission.DENY if is_denied else AclPermission.ALLOW),
    )


def _question(pick: _Picker, kinds: Sequence[int], acls: Sequence[Acl]) -> Question:
    principal, host, kind = pick.one(_PRINCIPALS), pick.one(_ADDRESSES), int(pick.one(kinds))
    operation, name = int(pick.one(_OPERATIONS)), pick.name()
    if acls and pick.below(4):  # similar to one of the ACLs
        near = pick.one(acls)
        kind = near.resource_type
        principal = near.principal if pick.below(4) else principal
        operation = near.operation if pick.below(3) else operation
        name = near.name + (pick.name() if pick.below(3) == 0 else "")
    if operation == AclOperation.ALL:
        operation = int(AclOperation.DESCRIBE)
    if principal == WILDCARD_PRINCIPAL:  # Kafka fails if a client has this name
        principal = "User:b"
    return Question(principal, host, operation, kind, None if pick.below(20) == 0 else name)
