"""The settings of the authorizer. Two of them Kafka's broker does not know: an authorizer reads them itself."""

from __future__ import annotations

from typing import Final

from moldau.errors import kafka_error

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The one value of `authorizer.class.name` that is served."""
SUPER_USERS: Final = "super.users"
ALLOW_WITHOUT_ACLS: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_SETTINGS: Final = (ALLOW_WITHOUT_ACLS, SUPER_USERS)


def parse_super_users(text: str) -> tuple[str, ...]:
    """The principals of `super.users`, between semicolons. Raises error 40 for one that is not TYPE:NAME."""
    users = tuple(user for part in text.split(";") if (user := part.strip()))
    for user in users:
        if not is_principal(user):
            raise kafka_error(
                "INVALID_CONFIG",
                f"{SUPER_USERS}: expected a string in format principalType:principalName but got {user}",
            )
    return users


def is_principal(text: str) -> bool:
    """Whether the text is TYPE:NAME. As in Kafka both may be empty."""
    return ":" in text
