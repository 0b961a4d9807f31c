"""The rights of principals: an operation on a resource type (KIP-11), and the error of a denial.

The row of an API names the rights that its handler checks with `RequestContext.authorize(right, name)`.
"""

from __future__ import annotations

import msgspec

from moldau.errors import ERROR_CODES

_OPERATIONS = {
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    13: "CreateTokens",
    14: "DescribeTokens",
}
_RESOURCES = {
    2: ("Topic", "TOPIC_AUTHORIZATION_FAILED"),
    3: ("Group", "GROUP_AUTHORIZATION_FAILED"),
    4: ("Cluster", "CLUSTER_AUTHORIZATION_FAILED"),
    5: ("TransactionalId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    6: ("DelegationToken", "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
    7: ("User", "DELEGATION_TOKEN_AUTHORIZATION_FAILED"),
}


DESCRIBE = 8
"""The code of the operation without which a client learns nothing about a resource."""


class Right(msgspec.Struct, frozen=True):
    """`operation` and `resource_type` are the protocol's codes for access control lists."""

    operation: int
    resource_type: int

    @property
    def refusal(self) -> int:
        """The error code for a principal without the right."""
        return ERROR_CODES[_RESOURCES[self.resource_type][1]]

    @property
    def refusal_text(self) -> str:
        """Apache Kafka's words for it, for answers with a text."""
        name = _RESOURCES[self.resource_type][0].replace("lId", "l Id")
        return f"{name} authorization failed."

    def __str__(self) -> str:
        return f"{_OPERATIONS[self.operation]} {_RESOURCES[self.resource_type][0]}"


_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID, _DELEGATION_TOKEN, _USER = _RESOURCES

READ_TOPIC = Right(3, _TOPIC)
WRITE_TOPIC = Right(4, _TOPIC)
CREATE_TOPIC = Right(5, _TOPIC)
DELETE_TOPIC = Right(6, _TOPIC)
ALTER_TOPIC = Right(7, _TOPIC)
DESCRIBE_TOPIC = Right(8, _TOPIC)
DESCRIBE_CONFIGS_TOPIC = Right(10, _TOPIC)
ALTER_CONFIGS_TOPIC = Right(11, _TOPIC)

READ_GROUP = Right(3, _GROUP)
DELETE_GROUP = Right(6, _GROUP)
DESCRIBE_GROUP = Right(8, _GROUP)
DESCRIBE_CONFIGS_GROUP = Right(10, _GROUP)
ALTER_CONFIGS_GROUP = Right(11, _GROUP)

CREATE_CLUSTER = Right(5, _CLUSTER)
DELETE_CLUSTER = Right(6, _CLUSTER)
ALTER_CLUSTER = Right(7, _CLUSTER)
DESCRIBE_CLUSTER = Right(8, _CLUSTER)
CLUSTER_ACTION = Right(9, _CLUSTER)
DESCRIBE_CONFIGS_CLUSTER = Right(10, _CLUSTER)
ALTER_CONFIGS_CLUSTER = Right(11, _CLUSTER)
IDEMPOTENT_WRITE = Right(12, _CLUSTER)

WRITE_TRANSACTIONAL_ID = Right(4, _TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Right(8, _TRANSACTIONAL_ID)

DESCRIBE_DELEGATION_TOKEN = Right(8, _DELEGATION_TOKEN)
CREATE_TOKENS_USER = Right(13, _USER)
DESCRIBE_TOKENS_USER = Right(14, _USER)

CLUSTER_NAME = "kafka-cluster"
"""The only resource of type Cluster."""

# the rights that an answer's authorized operations cover (KIP-430)
TOPIC_RIGHTS = tuple(Right(operation, _TOPIC) for operation in (3, 4, 5, 6, 7, 8, 10, 11))
GROUP_RIGHTS = tuple(Right(operation, _GROUP) for operation in (3, 6, 8, 10, 11))
CLUSTER_RIGHTS = tuple(Right(operation, _CLUSTER) for operation in (5, 7, 8, 9, 10, 11, 12))
