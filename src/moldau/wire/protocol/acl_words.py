"""The words of the command line for the parts of an ACL."""

from __future__ import annotations

from moldau.types import hint
from moldau.wire.protocol.acls import OPERATIONS_OF, AclOperation, AclResourceType


def principal_of(text: str) -> str:
    """`ann` means User:ann."""
    return text if ":" in text else f"User:{text}"


def type_and_name(principal: str) -> tuple[str, str]:
    """The parts of `User:ann`."""
    kind, _, name = principal.partition(":")
    return kind, name


def operation_of(text: str) -> AclOperation:
    """The operation of `alter-configs`, ALTER_CONFIGS or AlterConfigs. Raises ValueError with the nearest word."""
    plain = text.lower().replace("-", "").replace("_", "")
    words = {operation_word(each): each for each in AclOperation if each > AclOperation.ANY}
    for word, operation in words.items():
        if word.replace("-", "") == plain:
            return operation
    raise ValueError(f"{text!r} is no operation{hint(text.lower(), words)}; there are {', '.join(words)}")


def operation_word(operation: AclOperation) -> str:
    """`alter-configs`."""
    return operation.name.lower().replace("_", "-")


def kind_word(kind: AclResourceType) -> str:
    """`transactional-id`."""
    return kind.name.lower().replace("_", "-")


def check_operation(kind: AclResourceType, operation: AclOperation) -> None:
    """Raises ValueError for an operation that does not exist for a resource of this type."""
    valid = OPERATIONS_OF[kind]
    if operation not in (*valid, AclOperation.ALL):
        words = ", ".join(map(operation_word, valid))
        raise ValueError(f"{operation_word(operation)} is not done to a {kind_word(kind)}: there are {words}, all")
