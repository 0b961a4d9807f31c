"""The variables and properties of one who sends statements, such as a script, a shell or a request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.products.sql.language.rewrites import Dialect, dialect_of

START = "auto.offset.reset"


class Session(msgspec.Struct):
    """`variables`: of DEFINE, by names in lower case. `properties`: of SET, by names in lower case. A statement changes
    them."""

    variables: dict[str, str] = {}
    properties: dict[str, str] = {}

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self.properties)

    @property
    def start(self) -> str:
        """Where a query begins that has no offsets: "earliest" or "latest"."""
        return self.properties.get(START, "earliest")


def session_of(variables: Mapping[str, str], properties: Mapping[str, str]) -> Session:
    return Session(
        {name.lower(): value for name, value in variables.items()},
        {name.lower(): value for name, value in properties.items()},
    )
