"""The settings of the authorizer. Kafka's broker does not know two of them; its authorizer reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.errors import kafka_error

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only supported value of `authorizer.class.name`."""
SUPER_USERS: Final = "super.users"
ALLOW_WITHOUT_ACLS: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_SETTINGS: Final = (ALLOW_WITHOUT_ACLS, SUPER_USERS)
AUTHORIZER_NOTE: Final = (
    f"{STANDARD_AUTHORIZER}, or empty: no ACLs; with it {SUPER_USERS} and {ALLOW_WITHOUT_ACLS} count"
)


def check_authorizer(class_name: str, texts: Mapping[str, str]) -> None:
    """Raises error 40 for an unknown authorizer and for impossible super users."""
    if class_name not in ("", STANDARD_AUTHORIZER):
        raise kafka_error(
            "INVALID_CONFIG", f"authorizer.class.name must be {STANDARD_AUTHORIZER} or empty: no other is known here"
        )
    if class_name:
        parse_super_users(texts.get(SUPER_USERS, ""))


def allows_without_acls(texts: Mapping[str, str]) -> bool:
    """Whether access is allowed where no ACL applies. As in Kafka, any text but "true" means no."""
    return texts.get(ALLOW_WITHOUT_ACLS, "").strip().lower() == "true"


def parse_super_users(text: str) -> tuple[str, ...]:
    """The principals of `super.users`, separated by semicolons. Raises error 40 for one that is not TYPE:NAME."""
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
