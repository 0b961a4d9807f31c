"""Access control lists as values, and the codes of their fields (KIP-11, 140, 290)."""

from __future__ import annotations

import enum

import msgspec


class AclResourceType(enum.IntEnum):
    """The resource type of an ACL. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(enum.IntEnum):
    """The type of an ACL's name. ANY and MATCH are for filters only (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(enum.IntEnum):
    """The operation of an ACL. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(enum.IntEnum):
    """Whether an ACL allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""As a literal name: every resource of the type; as a host: every host; after `User:`: every principal."""
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The only resource of the type CLUSTER."""

OPERATIONS_OF: dict[AclResourceType, tuple[AclOperation, ...]] = {
    AclResourceType.TOPIC: (
        *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DELETE),
        *(AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
    AclResourceType.GROUP: (
        *(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
        *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    ),
    AclResourceType.CLUSTER: (
        *(AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS),
        *(AclOperation.ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE, AclOperation.ALTER, AclOperation.DESCRIBE),
    ),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations of each resource type; ALL means all of them."""

IMPLIED_BY: dict[int, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""Allowing one of these operations also allows the key. A denied operation denies only itself."""


class Acl(msgspec.Struct, frozen=True, order=True):
    """One access rule. The codes are those of the enums above; a later Kafka may have others. The messages and the
    record of an ACL have the same fields in the same order."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    """TYPE:NAME"""
    host: str
    operation: int
    permission: int


class AclFilter(msgspec.Struct, frozen=True):
    """Matches ACLs. None or ANY in a field matches every value. The pattern type MATCH matches every ACL that applies
    to the resource `name`."""

    resource_type: int = AclResourceType.ANY
    name: str | None = None
    pattern_type: int = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = AclPermission.ANY
