"""Settings and checks that several transforms have."""

from __future__ import annotations

from moldau.connect.configuration import Importance, Kind, Setting, one_of, wrong

REPLACE_NULL = Setting(
    "replace.null.with.default",
    Kind.BOOLEAN,
    True,
    Importance.MEDIUM,
    "Read a null in a field that has a default as this default. False: it stays null.",
)
FIELD_SYNTAX = Setting(
    "field.syntax.version",
    Kind.STRING,
    "V1",
    Importance.HIGH,
    "V1: a field is its name. V2: dots lead to nested fields, and a name with a dot stands in backticks (KIP-821).",
    check=one_of("V1", "V2", ignore_case=True),
)


def no_empty_member(name: str, value: object) -> None:
    """A check of a list (ConfigDef.ValidList)."""
    if isinstance(value, list) and "" in value:
        raise ValueError(f"Configuration '{name}' values must not be empty.")


def members(name: str, value: object) -> None:
    """A check of a list that must have members, none of them empty."""
    not_empty_list(name, value)
    no_empty_member(name, value)


def not_empty_list(name: str, value: object) -> None:
    """A check of a list that must have a member."""
    if not value:
        raise ValueError(wrong(name, "[]", "Empty list"))
