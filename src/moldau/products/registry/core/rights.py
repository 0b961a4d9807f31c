"""The rights of a person in the registry: a role for all subjects, and roles for the subjects of a prefix.

Of the roles that cover a subject, the greatest counts: the order of a file has no meaning, and a longer prefix never
reduces a role. Lists omit subjects that the person may not read. A request for such a subject is denied before the
lookup, so the answer does not reveal whether it exists.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from moldau.products.registry.core.records import SchemaValue
from moldau.products.registry.core.refusals import denied
from moldau.products.service.people import Person, Role, role_for


class Operation(enum.Enum):
    """Named in Confluent's words, which its clients show."""

    READ = "Read", Role.VIEWER
    """Also to look a schema up, test one for compatibility, and read the level and the mode."""
    WRITE = "Write", Role.EDITOR
    DELETE = "Delete", Role.EDITOR
    """Readers can still find the schema by its id."""
    DELETE_FOR_GOOD = "DeletePermanently", Role.ADMIN
    SET_LEVEL = "WriteCompatibility", Role.ADMIN

    def __init__(self, word: str, role: Role) -> None:
        self.word = word
        self.role = role


class Rights(msgspec.Struct, frozen=True):
    """The rights of one person. `everywhere`: the role for all subjects; `prefixes`: greater roles for subjects with a
    prefix."""

    everywhere: Role
    prefixes: tuple[tuple[str, Role], ...] = ()

    @classmethod
    def of(cls, person: Person) -> Rights:
        return cls(person.role, person.subjects)

    def role(self, subject: str | None) -> Role:
        """The role for a subject; None means objects of all subjects together."""
        return role_for(self.everywhere, self.prefixes, subject)

    def may(self, operation: Operation, subject: str | None) -> bool:
        return self.role(subject) >= operation.role

    def require(self, operation: Operation, subject: str | None) -> None:
        """Raises Refusal (40301)."""
        if not self.may(operation, subject):
            raise denied(operation.word, subject)

    def readable(self, subjects: Iterable[str]) -> list[str]:
        """The subjects that the person may read, in their order."""
        return [subject for subject in subjects if self.may(Operation.READ, subject)]

    def readable_places(self, places: Iterable[SchemaValue]) -> list[SchemaValue]:
        """The versions of one schema in subjects that the person may read. Raises Refusal (40301) if the schema has
        versions and the person may read none."""
        found = list(places)
        readable = [value for value in found if self.may(Operation.READ, value.subject)]
        if found and not readable:
            raise denied(Operation.READ.word, None)
        return readable
